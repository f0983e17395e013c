"""No parser takes more than its share of time for a long input: four times as long takes about four times the time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest

from client.listing import listing
from client.positions import read
from engine.playback import play_back
from engine.recordlines import read_record
from engine.seats import SEATS
from services.common import redaction
from services.common.names import NameFaultError, parse_name
from spectacularbid.match.v1 import match_service_pb2 as match_pb
from spectacularbid.match.v1 import table_pb2
from tests.fuzz.readers import PUBLIC
from tests.fuzz.records import EXAMPLE

SHORT_SECONDS: Final = 0.001
RATIO_MAX: Final = 9.0
"""Linear work has 4, quadratic 16."""

DEAL: Final = next(line for line in EXAMPLE.read_bytes().splitlines() if b'"deal"' in line)
REFUSED: Final = b'{"type":"command","seat":"north","command":"draw"}'
HEAD: Final = b'{"type":"match","format":1}'


def lines(line: bytes, number: int) -> bytes:
    return b"\n".join([HEAD, *[line] * number])


def redacted(piece: str) -> Callable[[int], object]:
    return lambda number: redaction.clean(piece * number)


def played(line: bytes) -> Callable[[int], object]:
    return lambda number: sum(1 for _ in play_back(read_record(lines(line, number))))


def studied(line: bytes) -> Callable[[int], object]:
    return lambda number: sum(len(text) for text in listing(read(lines(line, number)), SEATS))


def rounds_listed(number: int) -> int:
    study = read(lines(DEAL, 1))
    many = replace(study, positions=study.positions[-1:] * number, rounds=tuple(range(number)))
    return sum(len(text) for text in listing(many, ()))


def named(text: str) -> Callable[[int], object]:
    def parse(number: int) -> None:
        try:
            parse_name(text * number)
        except NameFaultError:
            return

    return parse


def created(number: int) -> None:
    deal = match_pb.ScriptedDeal(tiles=[table_pb2.Tile(low=n % 7, high=n // 7) for n in range(28)])
    request = match_pb.CreateMatchRequest(request_id="1", same_device=True, deals=[deal] * number)
    PUBLIC[match_pb.CreateMatchRequest](request)


WORK: Final[dict[str, tuple[Callable[[int], object], int]]] = {
    "tokens in a log line": (redacted("eyJ"), 500),
    "passwords in a log line": (redacted("://a:"), 500),
    "salts in a log line": (redacted("salt b'"), 500),
    "tiles in a log line": (redacted("low 1 high "), 500),
    "refused lines of a record": (played(REFUSED), 250),
    "deals of a record": (played(DEAL), 100),
    "refused lines listed": (studied(REFUSED), 100),
    "deals listed": (studied(DEAL), 100),
    "rounds listed": (rounds_listed, 2000),
    "nested JSON of a record": (lambda number: read_record(b"[" * number), 5000),
    "a long name": (named("ﷺ"), 100),
    "marks of a name": (named("a\u0301\u0327"), 100),
    "scripted deals": (created, 100),
    "keys of an object": (lambda n: read_record(json.dumps({str(k): k for k in range(n)}).encode()), 2000),
}


def seconds(work: Callable[[int], object], number: int) -> float:
    """Processor time, the least of three."""
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        work(number)
        best = min(best, time.process_time() - began)
    return best


@pytest.mark.parametrize("name", WORK)
def test_four_times_as_much_takes_about_four_times_as_long(name: str) -> None:
    work, number = WORK[name]
    while (short := seconds(work, number)) < SHORT_SECONDS and number < 100_000:
        number *= 4
    assert seconds(work, 4 * number) < RATIO_MAX * max(short, SHORT_SECONDS)
