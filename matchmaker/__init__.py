"""Who plays whom, and what a result says about strength: values and arithmetic, nothing that waits or stores."""
