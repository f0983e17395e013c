"""`python -m engine replay [FILE]` runs a match record, `python -m engine verify RECORD` checks one."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from engine.playback import answer_to_json, play_back
from engine.recordlines import DealLine, MalformedRecordError, read_record
from engine.verify import problems

if TYPE_CHECKING:
    from collections.abc import Sequence

OK: Final = 0
WRONG: Final = 1
UNREADABLE: Final = 2


def replay_file(path: str | None) -> int:
    """Print one JSON object for each line of a record. 0 when it could be read to its end, else 2."""
    for answer in play_back(read_record(_read(path))):
        sys.stdout.write(json.dumps(answer_to_json(answer), separators=(",", ":")) + "\n")
    return OK


def verify_file(path: str | None) -> int:
    """Print what is wrong with a record, or that nothing is. 0 when it is all right, 1 when not, 2 when unreadable."""
    record = read_record(_read(path))
    status = OK
    for problem in problems(record):
        print(problem)
        status = WRONG
    if status == WRONG:
        return status
    deals = [line for _, line in record.lines if isinstance(line, DealLine)]
    print(f"ok: {len(record.lines)} lines, {_kinds(deals)}, every command legal")
    return OK


def _kinds(deals: Sequence[DealLine]) -> str:
    """How many deals there are, and what is proven of them."""
    drawn = sum(line.contributions is not None for line in deals)
    scripted = sum(line.scripted for line in deals)
    parts = [f"{len(deals)} deals as committed"]
    if drawn:
        parts.append(f"{drawn} drawn from a seed committed to before and what the players added")
    if scripted:
        parts.append(f"{scripted} scripted by a test configuration")
    return ", ".join(parts)


def _read(path: str | None) -> bytes:
    return sys.stdin.buffer.read() if path in (None, "-") else Path(str(path)).read_bytes()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the result is the exit status."""
    parser = argparse.ArgumentParser(prog="python -m engine", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    replay = commands.add_parser("replay", help="run a record, print what each line causes")
    replay.add_argument(
        "file", nargs="?", metavar="FILE", help="a match record; standard input when left out"
    )
    verify = commands.add_parser("verify", help="check the deals, the commands and the outcome of a record")
    verify.add_argument("file", metavar="RECORD", help="a match record; - is standard input")
    options = parser.parse_args(arguments)
    try:
        status = replay_file(options.file) if options.command == "replay" else verify_file(options.file)
        sys.stdout.flush()
    except MalformedRecordError as error:
        sys.stdout.flush()
        print(error, file=sys.stderr)
        return UNREADABLE
    except BrokenPipeError:
        # Whoever reads us has seen enough. Without this the interpreter complains once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except OSError as error:
        print(error, file=sys.stderr)
        return UNREADABLE
    return status


if __name__ == "__main__":
    sys.exit(main())
