"""Is the shuffle biased? Counts over many deals, held against what chance alone makes of a fair one."""
