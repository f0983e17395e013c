"""The API contract, exercised from outside: what a client may rely on, looked at with nothing but an address."""
