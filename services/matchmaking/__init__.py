"""The matchmaking service: seeks, pairing, placement on game processes, and the ladder."""
