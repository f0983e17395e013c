"""`python -m tests.bench [PART ...]`: every benchmark, or those that are named, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

PARTS: Final = {
    "path": "the whole path on one core, as fast as it goes and in an open loop, beside its floor",
    "processes": "several game processes, and a model of larger machines",
    "floor": "grpc.aio alone through as many hops as a move",
    "engine": "the rules alone, beside another domino package",
    "room": "a command's way through a room, without network and disk",
    "commits": "group commits of PostgreSQL, ours beside the same rows without any check",
    "clock": "lateness of timeouts and cost of verdicts",
    "memory": "memory of live matches, and what they cost while nobody moves",
    "watchers": "what many who watch cost, and what players notice of them",
    "growthcurve": "what a command and all beside it cost, with more matches and with longer ones",
    "ladder": "a ladder of 1,000,000 players and 10,000,000 matches, loaded first: its questions and decisions",
    "takeover": "a game process with many matches is killed: until another one plays them all",
    "recovery": "a match from its log, by the length of the log",
    "coldstart": "each process from its start until it is ready",
    "lateness": "losses on time with 10,000 clocks armed, under load",
    "flood": "one hostile client at full speed on each rpc, while 50 honest matches are played",
}


def main(wanted: list[str]) -> int:
    """Runs them one after the other; the status is that of the first that failed."""
    unknown = [part for part in wanted if part not in PARTS]
    if unknown:
        sys.stderr.write(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}\n")
        return 2
    for part in wanted or PARTS:
        sys.stdout.write(f"\n== {part}: {PARTS[part]}\n")
        sys.stdout.flush()
        status = subprocess.run([sys.executable, "-m", f"tests.bench.{part}"], check=False).returncode
        if status:
            return status
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
