"""Players made of code, on top of the client library."""
