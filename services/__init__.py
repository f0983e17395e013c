"""The three services and what they share."""
