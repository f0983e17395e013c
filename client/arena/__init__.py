"""Bots against each other on the engine itself: no service, no network, no clock."""
