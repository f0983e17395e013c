"""Scenarios that take real minutes: `make long`."""
