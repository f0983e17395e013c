"""What operators do by hand: each act says who and why, and is kept."""
