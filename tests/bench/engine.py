"""How fast the rules and the messages made of them are, some of it beside the PyPI package `dominoes`.

`python -m tests.bench.engine [SECONDS]`. All play random games in one process, in short turns one after the other, so that
whatever else the machine does hits all of them; the best turn of each counts, as that is the one least disturbed. What
is measured is processor time for each step of a game.

What is compared with the package:

* A chosen move, and what is legal then. Ours: decide, evolve and legal. Theirs: make_move, which finds the valid moves of
  whoever is next. The games were chosen before; as theirs change in place, fresh copies are made outside the turn.
* The same with choosing, and with dealing wherever a round begins. Ours commits to each deal (SHA-256), theirs does not.
* The same with every position kept, as search, replay and a room that stores before it tells need it. Ours are values, so
  that is what they do anyhow; theirs copies the game before each move, as its own search does.

Ours is a match: auctions, a score for each placement, a spinner with four arms and draws are in it. Theirs is one round of
the block game on a line with two ends.
"""

from __future__ import annotations

import copy
import gc
import json
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Any, Final
from uuid import UUID

from client.wire import command_to_pb
from engine.command import Command
from engine.event import Event
from engine.eventjson import event_from_json, events_to_text
from engine.match import Match, Phase, deal_round, decide, evolve, legal, replay
from engine.playback import play_back
from engine.record import record_lines
from engine.recordlines import read_record
from engine.refusal import Refusal
from engine.seats import NORTH, SOUTH
from engine.view import choices_of, redact, view
from services.wire.commands import command_from_pb, payload_hash
from services.wire.events import event_to_bytes
from services.wire.tables import choices_to_bytes, question_to_bytes
from spectacularbid.match.v1 import match_service_pb2 as pb
from tests.bench.report import Report
from tests.engine.randomplay import choose, shuffled, whole_match

SALT: Final = bytes(32)
SECONDS: Final = 12.0
STEPS: Final = 900
"""In one turn, some 5 ms. As many on both sides: a shorter turn would more likely be left alone."""
GAMES: Final = 40
"""Of the package, in one turn: as many steps."""
MATCHES: Final = 2
OVER: Final = Phase.OVER
AWAITING_DEAL: Final = Phase.AWAITING_DEAL

Step = tuple[Command | None, tuple[Event, ...]]
Turn = Callable[[], int]
"""Works for a moment; the steps it took."""

CHOSEN: Final = "a chosen move, and what is legal then"
WHOLE: Final = "the same with dealing and choice"
KEPT: Final = "the same with every position kept"


@dataclass(frozen=True, slots=True)
class Course:
    """Something that is measured."""

    name: str
    whose: str
    unit: str
    prepared: Callable[[], Turn]
    """Makes what a turn needs; not measured."""


def play_match(rng: random.Random) -> int:
    """One random match; how many commands it took."""
    state = Match.start()
    commands = 0
    while (phase := state.phase) is not OVER:
        if phase is AWAITING_DEAL:
            ruling = deal_round(state, shuffled(rng), SALT)
        else:
            ruling = decide(state, choose(state, legal(state), rng))
            commands += 1
        assert not isinstance(ruling, Refusal)
        state = replay(state, ruling)
    return commands


def recorded(rng: random.Random) -> list[Step]:
    """A random match as its commands and events, to be run again without choosing and dealing."""
    state, steps = Match.start(), list[Step]()
    while state.phase is not OVER:
        command = None if state.phase is AWAITING_DEAL else choose(state, legal(state), rng)
        ruling = deal_round(state, shuffled(rng), SALT) if command is None else decide(state, command)
        assert not isinstance(ruling, Refusal)
        steps.append((command, ruling))
        state = replay(state, ruling)
    return steps


def run_match(steps: Iterable[Step]) -> int:
    """One recorded match through decide, evolve and legal; how many commands it took."""
    state = Match.start()
    commands = 0
    for command, events in steps:
        if command is None:
            state = replay(state, events)
        else:
            ruling = decide(state, command)
            assert not isinstance(ruling, Refusal)
            state = replay(state, ruling)
            legal(state)
            commands += 1
    return commands


def our_courses(rng: random.Random) -> Iterator[Course]:
    """What our rules are measured at."""

    def repeated(name: str, unit: str, work: Turn) -> Course:
        def turn() -> int:
            steps = 0
            while steps < STEPS:
                steps += work()
            return steps

        return Course(name, "ours", unit, lambda: turn)

    matches = [recorded(rng) for _ in range(MATCHES)]
    states = [Match.start()]
    for _, caused in matches[0]:
        states.append(replay(states[-1], caused))
    first, _, events = whole_match(rng, waits_ns_max=10**9)
    record = "\n".join(record_lines(first, events)).encode()
    stored = [events_to_text((event,)) for event in events]

    def legal_lists() -> int:
        for state in states:
            legal(state)
        return len(states)

    def views() -> int:
        for state in states:
            for seat in (NORTH, SOUTH, None):
                view(state, seat)
        return 3 * len(states)

    def record_run() -> int:
        return sum(1 for _ in play_back(read_record(record)))

    def written() -> int:
        for event in events:
            events_to_text((event,))
        return len(events)

    def recovered() -> int:
        state = first
        for text in stored:
            for event in json.loads(text):
                state = evolve(state, event_from_json(event))
        return len(stored)

    after = list(zip(events, islice(accumulate(events, evolve, initial=first), 1, None), strict=True))
    requests = [
        (_request(command), command.seat) for match in matches for command, _ in match if command is not None
    ]

    def told() -> int:
        for number, (event, state) in enumerate(after):
            event_to_bytes(number, redact(event, None), state)
        return len(after)

    def asked() -> int:
        for state in states:
            for seat in (NORTH, SOUTH, None):
                question_to_bytes(state, 6)
                choices_to_bytes(choices_of(state, seat), state.phase, seated=seat is not None)
        return len(states)

    def heard() -> int:
        for request, seat in requests:
            command_from_pb(request, seat)
            payload_hash(request, seat)
        return len(requests)

    yield repeated(CHOSEN, "commands", lambda: run_match(rng.choice(matches)))
    yield repeated(WHOLE, "commands", lambda: play_match(rng))
    yield repeated(KEPT, "commands", lambda: run_match(rng.choice(matches)))
    yield repeated("legal lists", "lists", legal_lists)
    yield repeated("views", "views", views)
    yield repeated("a record, read and run again", "lines", record_run)
    yield repeated("events to what is stored", "events", written)
    yield repeated("recovery: what is stored to the state", "events", recovered)
    yield repeated("redacted and encoded for one receiver", "events", told)
    yield repeated("the question for three receivers, seen and encoded", "states", asked)
    yield repeated("a request read, and its hash", "requests", heard)


def _request(command: Command) -> pb.SubmitRequest:
    return pb.SubmitRequest(
        match_id=str(UUID(int=6)), request_id="request 6", decision_id=6, command=command_to_pb(command)
    )


def peer_courses(rng: random.Random) -> Iterator[Course]:
    """What the package is measured at; nothing when it is not installed."""
    try:
        import dominoes
    except ImportError:
        return

    def chosen() -> tuple[Any, list[int]]:
        game = dominoes.Game.new()
        fresh, moves = copy.deepcopy(game), list[int]()
        while game.result is None:
            moves.append(rng.randrange(len(game.valid_moves)))
            game.make_move(*game.valid_moves[moves[-1]])
        return fresh, moves

    games = [chosen() for _ in range(GAMES)]

    def ready(*, kept: bool) -> Turn:
        fresh = [(copy.deepcopy(game), moves) for game, moves in games[: GAMES // 10 if kept else GAMES]]

        def turn() -> int:
            for given, moves in fresh:
                game = given
                for number in moves:
                    if kept:
                        game = copy.deepcopy(game)
                    game.make_move(*game.valid_moves[number])
            return sum(len(moves) for _, moves in fresh)

        return turn

    def played() -> int:
        plies = 0
        for _ in range(GAMES):
            game = dominoes.Game.new()
            while game.result is None:
                valid = game.valid_moves
                game.make_move(*valid[int(rng.random() * len(valid))])
                plies += 1
        return plies

    whose = "dominoes 6.1.0"
    yield Course(CHOSEN, whose, "plies", lambda: ready(kept=False))
    yield Course(WHOLE, whose, "plies", lambda: played)
    yield Course(KEPT, whose, "plies", lambda: ready(kept=True))


def measure(seconds: float = SECONDS) -> dict[Course, float]:
    """Steps a second of processor time: the best turn of each course within so many seconds of it."""
    rng = random.Random(6)
    courses = [*our_courses(rng), *peer_courses(rng)]
    best = dict.fromkeys(courses, 0.0)
    ends = time.process_time() + seconds
    while time.process_time() < ends:
        for course in courses:
            turn = course.prepared()
            gc.collect()
            began = time.process_time()  # time given to other processes is nobody's
            steps = turn()
            best[course] = max(best[course], steps / (time.process_time() - began))
    return best


def main(seconds: float = SECONDS) -> None:
    """Measure, and print and keep the table."""
    report = Report("engine")
    best = measure(seconds)
    theirs = {course.name: found for course, found in best.items() if course.whose != "ours"}
    rows = []
    for course, found in best.items():
        over = found / theirs[course.name] if course.whose == "ours" and course.name in theirs else None
        rows.append((course.name, course.whose, f"{course.unit}/s", found, 1e6 / found, over))
        if over is not None:
            report.ratio(f"{course.name}, over dominoes 6.1.0", over, better="higher")
    columns = ("what", "whose", "unit", "a second", "µs each", "over theirs")
    report.table("The rules, processor time of one core", columns, rows)
    if not theirs:
        report.note("The package dominoes 6.1.0 is not installed: nothing to compare with.")
    report.finish()


if __name__ == "__main__":
    main(*map(float, sys.argv[1:2]))
