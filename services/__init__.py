"""The three services and what they share."""

import os

# Every line that a process writes is JSON. gRPC's core would tell of each connection that it loses in a way of its own;
# it reads this when it is imported, so it is said before anybody can.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
# What comes in is read by the thread that hands it to us. By default threads of gRPC's event engine read it and wake that
# one: a seventh of what a move costs. A gRPC that knows these names no more says so in one line at the start, and goes its
# own way.
os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_listener,-event_engine_client")
