"""Fuzz targets that play matches: records of every kind, stored events, and any commands at the engine itself."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from client import positions
from client.listing import listing
from engine.command import Bid, Command, Play
from engine.event import RoundDealt, TurnTimed
from engine.eventjson import event_from_json, event_to_json
from engine.legal import legal
from engine.match import RANKED, Auctioned, Match, Mode, Phase, deal_round, decide, evolve
from engine.playback import answer_to_json, play_back
from engine.record import record_lines
from engine.recordlines import MalformedRecordError, MatchLine, read_record
from engine.refusal import Refusal
from engine.seats import SEATS, BySeat
from engine.tiles import ALL_TILES, DOUBLE_SIX, ENDS, tile_set
from engine.verify import problems
from tests.engine.randomplay import _SIMPLE, commands, shuffled, whole_match
from tests.fuzz.mutation import mutate_bytes, mutate_json_bytes, mutate_lines
from tests.fuzz.target import Target

MATCH_ID: Final = "00000000-0000-4000-8000-000000000001"
EXAMPLE: Final = Path(__file__).parents[2] / "docs" / "example.jsonl"


def check_match(state: Match) -> None:
    """What must hold of every match at every moment: 300 points, 28 tiles."""
    assert sum(state.balances) == 300, state.balances
    assert all(balance >= 0 and balance % 5 == 0 for balance in state.balances), state.balances
    if state.round_no:
        placed = [placement.tile for placement in state.layout.placements]
        everything = (*state.hands.north, *state.hands.south, *state.boneyard, *placed)
        assert len(everything) == 28, everything
        assert tile_set(everything) == ALL_TILES, everything


def run_record(data: bytes) -> None:
    """A record is read, run, checked and written again; the written one is the same match."""
    record = read_record(data)
    answers = []
    try:
        for answer in play_back(record):
            json.dumps(answer_to_json(answer))
            check_match(answer.state)
            answers.append(answer)
    except MalformedRecordError:
        assert record.malformed is not None
    wrong = []
    try:
        wrong = list(problems(record))
    except MalformedRecordError:
        assert record.malformed is not None
    if not answers:
        return
    assert isinstance(answers[0].line, MatchLine)
    start, match_id, last = answers[0].line.start, answers[0].line.match_id, answers[-1].state
    events = [event for answer in answers for event in answer.events]
    instants = sum(event.elapsed_ns for event in events if isinstance(event, TurnTimed))
    if instants >= 2**62:
        # What is written has an end of time, too, and lines without a command may have come close to it.
        return
    lines = list(record_lines(start, events, {"match_id": match_id}))
    again = read_record("\n".join(lines).encode("utf-8", "surrogatepass"))
    assert again.malformed is None, again.malformed
    state = start
    for answer in play_back(again):
        assert answer.refusal is None, (answer.refusal, lines[answer.number - 1])
        state = answer.state
    if last.outcome is None or last.outcome.winner is not None:
        assert state == last, "the written record is another match"
    if not wrong and record.malformed is None:
        assert list(problems(again)) == [], "what was sound is not any more"


def run_study(data: bytes) -> None:
    """What a person is shown of a record can be printed anywhere, and moves no cursor."""
    try:
        study = positions.read(data)
    except MalformedRecordError:
        return
    for line in listing(study, SEATS):
        line.encode()
        assert line.isprintable(), f"a terminal would obey this: {line!r}"


def run_event(data: bytes) -> None:
    """A stored event is read or refused; what is read is written so that it reads the same."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return
    try:
        event = event_from_json(value)
    except ValueError:
        return
    assert event_from_json(json.loads(json.dumps(event_to_json(event)))) == event


def run_play(data: bytes) -> None:
    """Four bytes begin a match, three more are a command each: whatever they are, the engine holds.

    A first byte below 128 takes one of the legal commands, so that matches get somewhere.
    """
    if len(data) < 4:
        return
    rng = random.Random(data[1])
    north = 5 * (1 + data[2] % 59)
    state = Match.start(
        mode=Mode.SAME_DEVICE if data[0] & 1 else Mode.ONLINE,
        opening=Auctioned(SEATS[data[0] >> 2 & 1]) if data[0] & 2 else RANKED,
        balances=BySeat(north, 300 - north),
    )
    for at in range(4, len(data) - 2, 3):
        if state.phase is Phase.AWAITING_DEAL:
            state = _carried_out(state, deal_round(state, shuffled(rng), rng.randbytes(32)))
        allowed = list(commands(state, legal(state)))
        command = _command(data[at : at + 3], allowed)
        ruling = decide(state, command)
        if isinstance(ruling, Refusal):
            assert command not in allowed, f"{command} is listed and refused: {ruling}"
            continue
        assert command in allowed or command == _SIMPLE[-1](command.seat), f"{command} is not listed"
        state = _carried_out(state, ruling)


def _carried_out(state: Match, ruling: object) -> Match:
    assert isinstance(ruling, tuple), ruling
    for event in ruling:
        assert event_from_json(json.loads(json.dumps(event_to_json(event)))) == event
        state = evolve(state, event)
        check_match(state)
    return state


def _command(three: bytes, allowed: list[Command]) -> Command:
    op, first, second = three
    if op < 128 and allowed:
        return allowed[first % len(allowed)]
    seat = SEATS[op & 1]
    kind = op >> 1 & 15
    if kind < len(_SIMPLE):
        return _SIMPLE[kind](seat)
    if kind < 12:
        amount = int.from_bytes(three[1:], "big", signed=True)
        return Bid(seat, amount * 10**12 if kind == 8 else amount)
    tile = DOUBLE_SIX[first % 28]
    return Play(seat, tile, (None, *ENDS)[second % (len(ENDS) + 1)])


def record_seeds() -> Iterator[bytes]:
    """The beginning of the example in several lengths, and two whole matches on one device and online."""
    lines = EXAMPLE.read_bytes().splitlines()
    for length in (1, 3, 6, 12, 30, 60):
        yield b"\n".join(lines[:length])
    for seed, mode in ((1, Mode.ONLINE), (2, Mode.SAME_DEVICE)):
        first, _, events = whole_match(
            random.Random(seed), mode=mode, waits_ns_max=14_000_000_000 * (seed == 1)
        )
        yield "\n".join(record_lines(first, events[:60])).encode()
    for seed in (3, 4):
        first, _, events = whole_match(random.Random(seed), match_id=MATCH_ID)
        ends = [at for at, event in enumerate(events) if isinstance(event, RoundDealt)][:3]
        yield "\n".join(record_lines(first, events[: ends[-1] + 2], {"match_id": MATCH_ID})).encode()
    untimed = [json.loads(line) for line in lines[:25]]
    yield b"\n".join(
        json.dumps({k: v for k, v in line.items() if k not in ("at_ms", "at_ns")}).encode()
        for line in untimed
    )
    yield b'{"type":"match","format":1,"opening":{"auction":{"jockey":"north"}},"mode":"same_device"}'
    yield b'{"type":"match","format":1,"outcome":{"winner":null,"cause":"void","detail":"operator"}}\n{"type":"clock","at_ms":5}'


def event_seeds() -> Iterable[bytes]:
    """One event of each type."""
    found: dict[str, bytes] = {}
    for seed, mode in ((1, Mode.ONLINE), (2, Mode.SAME_DEVICE), (3, Mode.ONLINE), (4, Mode.ONLINE)):
        match_id = MATCH_ID if seed > 2 else ""
        _, _, events = whole_match(
            random.Random(seed), mode=mode, waits_ns_max=14_000_000_000, match_id=match_id
        )
        for event in events:
            drawn = isinstance(event, RoundDealt) and event.contributions is not None
            key = type(event).__name__ + str(getattr(event, "end", "")).partition(" ")[2] + str(drawn)
            found.setdefault(key, json.dumps(event_to_json(event)).encode())
    assert len(found) >= 13, sorted(found)
    return found.values()


def play_seeds() -> Iterator[bytes]:
    """Matches that get somewhere, online and on one device, from either opening."""
    for first in range(8):
        rng = random.Random(first)
        steps = b"".join(bytes((rng.choice((0, 0, 0, 200 + first)), *rng.randbytes(2))) for _ in range(60))
        yield bytes((first, first, rng.choice((29, 1, 58)), 0)) + steps


ENGINE: Final = (
    *(
        "engine.auction",
        "engine.evolution",
        "engine.layout",
        "engine.legal",
        "engine.ruling",
        "engine.points",
    ),
    "engine.state",
)

TARGETS: Final = (
    Target(
        "record",
        run_record,
        mutate_lines,
        record_seeds,
        ("engine.recordlines", "engine.fields", "engine.playback", "engine.verify", "engine.record"),
        size_max=20_000,
        weight=3,
    ),
    Target(
        "study",
        run_study,
        mutate_lines,
        record_seeds,
        ("client.positions", "client.listing", "client.narration", "client.publictable"),
        size_max=20_000,
        weight=2,
    ),
    Target("event", run_event, mutate_json_bytes, event_seeds, ("engine.eventjson", "engine.outcome")),
    Target("play", run_play, mutate_bytes, play_seeds, ENGINE, weight=2),
)
