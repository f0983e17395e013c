"""The three services and what they share."""

import os

# Every line that a process writes is JSON. gRPC's core would tell of each connection that it loses in a way of its own;
# it reads this when it is imported, so it is said before anybody can.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
