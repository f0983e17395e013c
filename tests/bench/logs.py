"""`python -m tests.bench.logs`: what a line of the log costs, and what share of a core the lines of commands take.

The lines of commands are put together and written in one go, so many of them for each write.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time

from prometheus_client import CollectorRegistry

from services.common import logs
from services.common.tracing import NoTracer
from services.game.answers import Answered
from services.game.course import Courses
from services.game.livetime import Stamp
from services.game.metrics import CommandMetrics, Result, Stage

LINES = 20_000
ROUNDS = 5
COMMANDS_A_SECOND = 1_000
TOGETHER = (1, 20)
LINE: dict[str, object] = {
    "match_id": "c1ae8cd5-2c75-49f4-830e-4c71504e98c2",
    "player_id": "guest-5d0cbb0c2a1ff0bd3c11",
    "request_id": "0f9a5f6e-5d4f-4d0c-9d0e-6a3f2f9d2b11",
    "decision_no": 12,
    "kind": "play",
    "result": "applied",
    "revision": 13,
    "elapsed_ns": 4_201_933_011,
    "charged_ns": 0,
    "queue_ms": 0.21,
    "verdict_ms": 0.93,
    "commit_ms": 2.04,
    "publish_ms": 0.05,
    "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
}


def best(write: object, lines: int = LINES) -> float:
    """Microseconds a line, the best round: what else the machine does is not the line's."""
    assert callable(write)
    rounds = []
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(lines):
            write()
        rounds.append((time.process_time() - began) / lines * 1e6)
    return min(rounds)


async def of_commands(together: int) -> float:
    """Microseconds a command's line, when so many are written in one turn of the loop."""
    courses = Courses(CommandMetrics(CollectorRegistry()), NoTracer())
    texts = {name: str(LINE[name]) for name in ("match_id", "player_id", "request_id", "kind")}
    course = courses.begin(Stamp(0, 0, 0, 0), decision_id=12, **texts)
    course.revision, course.elapsed_ns, course.charged_ns = 13, 4_201_933_011, 0
    for stage in Stage:
        course.reached(stage)

    def write() -> None:
        for _ in range(together):
            logs.write_frequent("command", course._line(Result.APPLIED, Answered(b"", 4, 5)))
        logs.flush()

    return best(write, LINES // together) / together


def main() -> None:
    """Measures and prints."""
    talk = sys.stdout
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        sys.stdout = nowhere
        logs.configure("info")
        log = logs.get_logger()
        told = [asyncio.run(of_commands(together)) for together in TOGETHER]
        other = best(lambda: log.info("command", **LINE))
        left_out = best(lambda: log.debug("command", **LINE))
        bare = best(lambda: nowhere.write(json.dumps(LINE) + "\n"))
        sys.stdout = talk
    print(
        f"a line with so many fields: {other:.1f} us; {other / bare:.1f} times json.dumps alone ({bare:.1f} us)"
    )
    for together, price in zip(TOGETHER, told, strict=True):
        print(f"a line of a command, {together} in a write: {price:.1f} us")
    print(f"a line below the level: {left_out:.2f} us")
    print(f"at {COMMANDS_A_SECOND} commands a second: {told[-1] * COMMANDS_A_SECOND / 1e4:.1f} % of a core")


if __name__ == "__main__":
    main()
