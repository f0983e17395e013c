"""Rulings of random matches as a game process stores them, and matches for them to belong to."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, Final

from engine.event import Event, TurnTimed
from engine.eventjson import event_to_json
from engine.match import Match, Phase, deal_round, decide, evolve, legal
from engine.refusal import Refusal
from services.storage.entry import COLUMNS, Entry, Judged
from services.storage.pool import Connection
from tests.engine.randomplay import choose, shuffled

ENGINE: Final = "game"
SALT: Final = bytes(32)
TURN_NS: Final = 1_234_567_890
BANK_NS: Final = 120 * 10**9


def rulings(match_id: str, rng: random.Random, rounds: int = 1) -> list[Entry]:
    """The log of a random match that goes on after so many rounds, or is over before, as far as that."""
    state, entries, sequence, now = Match.start(), list[Entry](), 0, rng.randrange(10**15)
    while state.phase is not Phase.OVER and state.round_no <= rounds:
        command = choose(state, legal(state), rng)
        timed, turn = state.to_act, state.turn
        ruling = decide(state, command)
        assert not isinstance(ruling, Refusal)
        events: list[Event] = list(ruling)
        judged = None
        if timed is not None:
            events.insert(0, TurnTimed(timed, turn, TURN_NS, TURN_NS, 0, BANK_NS))
            judged = _judged(turn, now := now + 2 * TURN_NS)
        for event in events:
            state = evolve(state, event)
        if state.phase is Phase.AWAITING_DEAL:
            dealt = deal_round(state, shuffled(rng), SALT)
            assert not isinstance(dealt, Refusal)
            events += dealt
            for event in dealt:
                state = evolve(state, event)
        entries.append(
            Entry(
                match_id=match_id,
                revision=len(entries) + 1,
                first_sequence=sequence + 1,
                last_sequence=sequence + len(events),
                fence=1,
                events=json.dumps([event_to_json(event) for event in events], separators=(",", ":")),
                seat=command.seat.value,
                request_id=rng.randbytes(16).hex(),
                request_hash=rng.randbytes(32),
                judged=judged,
            )
        )
        sequence += len(events)
    return entries


def _judged(turn: int, now: int) -> Judged:
    return Judged(
        turn=turn,
        start_ns=now,
        arrive_ns=now + TURN_NS,
        start_raw_ns=now + 55,
        read_raw_ns=now + TURN_NS + 99,
        timeline_id="4d2a0d0c5b9c4b0f9f0e",
        carried_ns=0,
        elapsed_ns=TURN_NS,
        consumed_ns=TURN_NS,
        charge_ns=0,
        bank_after_ns=BANK_NS,
        credited_ns=0,
        clock_id="4d2a0d0c5b9c4b0f",
        policy_version="1",
    )


async def owned_matches(connection: Connection, number: int, engine_id: str = ENGINE) -> list[str]:
    """New casual matches of two players each, owned under fence 1."""
    ids = [uuid.uuid4() for _ in range(number)]
    names = [f"bench-{match_id.hex[:20]}-{seat}" for match_id in ids for seat in ("north", "south")]
    await connection.execute(
        "insert into player (player_id, name) select n, left(n, 32) from unnest($1::text[]) n", names
    )
    await connection.execute(
        """
        insert into match (match_id, mode, rated, north, south, bank_ns, delay_ns, start_limit_ns, continue_limit_ns)
        select m, 'casual', false, n, s, 120000000000, 10000000000, 60000000000, 30000000000
        from unnest($1::uuid[], $2::text[], $3::text[]) as t (m, n, s)
        """,
        ids,
        names[::2],
        names[1::2],
    )
    await connection.execute(
        "insert into match_owner (match_id, engine_id, fence) select m, $2, 1 from unnest($1::uuid[]) m",
        ids,
        engine_id,
    )
    return [str(match_id) for match_id in ids]


def groups(logs: Sequence[Sequence[Entry]], size: int) -> Iterator[list[Entry]]:
    """The rulings of these logs in groups of so many different matches, each log in order, for as long as there are any."""
    places = [0] * len(logs)
    first = 0
    while True:
        chosen = [(first + number) % len(logs) for number in range(size)]
        if any(places[number] == len(logs[number]) for number in chosen):
            return
        yield [logs[number][places[number]] for number in chosen]
        for number in chosen:
            places[number] += 1
        first = (first + size) % len(logs)


def records(entries: Sequence[Entry]) -> list[tuple[Any, ...]]:
    """The same rows by themselves, with the columns of `COLUMNS`."""
    return [
        tuple(getattr(entry if hasattr(entry, name) else entry.judged, name, None) for name, _ in COLUMNS)
        for entry in entries
    ]


async def copy_logs(connection: Connection, logs: Sequence[Sequence[Entry]]) -> None:
    """Stores whole logs as they are."""
    entries = [entry for log in logs for entry in log]
    await connection.copy_records_to_table(
        "match_log", columns=[name for name, _ in COLUMNS], records=records(entries)
    )


def long_match(length: int, match_id: str) -> list[Entry]:
    """The first so many rulings of a random match that has as many: one in some dozens has 1,000."""
    for seed in count():
        log = rulings(match_id, random.Random(seed), rounds=length)
        if len(log) >= length:
            return log[:length]
    raise AssertionError
