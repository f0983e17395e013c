"""Generated messages to our types and back: the only place where messages are built and read."""
