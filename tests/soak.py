"""Play many random matches and check every invariant after every event: `python -m tests.soak --matches 20000`.

Both cores work, progress is shown, totals are printed; the exit status is 1 when anything was violated, and the
seed of each such match is named. `--seed` makes another set of matches.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from functools import reduce
from itertools import islice
from operator import or_
from typing import TYPE_CHECKING

from engine.clock import SECOND
from engine.event import PointsMoved, RoundBlocked, RoundDealt, TilePlaced, TurnTimed
from engine.legal import NOTHING
from engine.match import Cause, Match, Mode, Phase, decide, evolve, legal, replay
from engine.playback import play_back
from engine.record import event_from_json, event_to_json, record_lines
from engine.recordlines import read_record
from engine.refusal import Refusal
from engine.seats import SEATS
from engine.tiles import ALL_TILES, Tile, tile_set
from engine.verify import problems
from engine.view import redact, view
from tests.engine import naive, randomplay

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.event import Event

CHUNK = 20
"""Matches a worker plays before it reports."""
TIMED_EVERY = 2
"""Every second match is played on the clock, with waits that lose some of them."""
LOOKS = 0.1
"""At how many of the questions the views are looked at, which takes longer than all the rest."""
VIEWERS = (*SEATS, None)


class ViolationError(AssertionError):
    """An invariant does not hold."""


def require(holds: bool, what: str) -> None:
    """Complain unless it holds."""
    if not holds:
        raise ViolationError(what)


def check_state(state: Match) -> None:
    """What holds after every event (rules 1.1 to 1.4, 2.1)."""
    balances, layout = state.balances, state.layout
    require(balances.north + balances.south == 300, "300 points")
    require(all(b >= 0 and b % 5 == 0 for b in balances), "balances are multiples of five, never negative")
    require(all(bank >= 0 for bank in state.banks), "banks are never negative")
    if state.round_no:
        on_table = [placement.tile for placement in layout.placements]
        piles = (state.north_hand, state.south_hand, tile_set(state.boneyard), tile_set(on_table))
        require(sum(piles) == ALL_TILES and reduce(or_, piles) == ALL_TILES, "28 tiles, each once")


def check_layout(state: Match) -> None:
    """What holds after every placement (rules 3.1 to 3.6), against the graph of the joins."""
    layout = state.layout
    graph = naive.Graph(layout.placements)
    ends = {(end.tile.text, end.port.value): end.value for end in layout.ends}
    require(graph.open_ends() == ends, "open ends as the graph has them")
    require(graph.count() == layout.total, "the count as the graph has it")
    require(sum(counts for _, counts in layout.open_ends) == layout.total, "counts add up")


def check_question(state: Match, rng: random.Random) -> None:
    """What holds between two commands: something is legal, the list is complete, views keep secrets."""
    allowed = legal(state)
    if state.decision_kind is not None:
        require(allowed != NOTHING, "something is legal while a decision is open")
    listed = {(tile.text, end and end.text) for tile, end in allowed.play}
    require(len(listed) == len(allowed.play), "no play is listed twice")
    require(naive.plays(state) == listed, "plays as the graph has them")
    tried = randomplay.anything(rng)
    ruling = decide(state, tried)
    refusal = ruling if isinstance(ruling, Refusal) else None
    require(naive.first_reason(state, tried) == refusal, f"the first reason against {tried}")
    if rng.random() < LOOKS:
        check_views(state)


def check_views(state: Match) -> None:
    """Nobody sees what they may not (rule 2.4)."""
    table = {placement.tile for placement in state.layout.placements}
    for seat in VIEWERS:
        seen = view(state, seat)
        hand = set(seen.hand or ())
        own = set() if seat is None else set(state.hands[seat])
        require(hand <= own, "a view holds the own hand only")
        if seat is not state.to_act:
            require(not seen.legal.play, "only the seat to act has plays")
        require({placement.tile for placement in seen.placements} == table, "the layout is public")


def check_log(first: Match, last: Match, events: list[Event], rng: random.Random) -> None:
    """What holds of a whole match: stored, told and recorded, it is the same match."""
    stored = [event_from_json(json.loads(json.dumps(event_to_json(event)))) for event in events]
    require(stored == events, "stored events come back")
    require(replay(first, stored) == last, "replay equals live")
    for seat in VIEWERS:
        known: set[Tile] = set()
        for event in events:
            told = redact(event, seat, first.mode)
            if isinstance(event, RoundDealt):
                known = set() if seat is None else set(event.deal.hand(seat))
            if isinstance(told, TilePlaced):
                known.add(told.tile)
            tile = getattr(told, "tile", None)
            require(
                tile is None or tile in known or getattr(told, "seat", None) is seat, "told its own tiles"
            )
    if rng.random() > LOOKS:
        return
    record = read_record("\n".join(record_lines(first, events)).encode())
    answers = list(play_back(record))
    require(answers[-1].state == last, "the record replays to the same match")
    require(not list(problems(record)), "the record verifies")


def soak_one(seed: int) -> Counter[str]:
    """One match; what happened in it."""
    rng = random.Random(seed)
    mode = Mode.SAME_DEVICE if seed % 7 == 0 else Mode.ONLINE
    waits = 13 * SECOND if seed % TIMED_EVERY == 0 else 0
    first = state = randomplay.start(rng, mode=mode)
    events: list[Event] = []
    totals = Counter(matches=1)
    for at, caused in randomplay.steps(first, rng, waits_ns_max=waits):
        require(at == state, "a step begins where the last one ended")
        check_question(state, rng)
        for event in caused:
            bank = state.banks
            state = evolve(state, event)
            check_state(state)
            if isinstance(event, TilePlaced):
                check_layout(state)
            totals["points"] += event.moved if isinstance(event, PointsMoved) else 0
            totals["rounds"] += isinstance(event, RoundDealt)
            totals["blocked"] += isinstance(event, RoundBlocked)
            if isinstance(event, TurnTimed):
                require(
                    bank[event.seat] - event.charge_ns == state.banks[event.seat], "the bank pays the charge"
                )
        events += caused
        totals["commands"] += 1
    require(state.outcome is not None and state.phase is Phase.OVER, "the match ends")
    cause = state.outcome.cause if state.outcome else Cause.VOID
    if cause is Cause.BALANCE:
        require(0 in tuple(state.balances), "the loser has nothing left")
    totals[f"won by {cause}"] += 1
    totals["events"] += len(events)
    check_log(first, state, events, rng)
    return totals


def soak_chunk(seeds: range) -> tuple[Counter[str], list[str]]:
    """Some matches in one worker: what happened, and what was violated."""
    totals: Counter[str] = Counter()
    violations = []
    for seed in seeds:
        try:
            totals += soak_one(seed)
        except Exception as error:  # noqa: BLE001 - every failure is a finding, and the seed must be told
            violations.append(f"seed {seed}: {type(error).__name__}: {error}")
    return totals, violations


def chunks(first: int, count: int) -> Iterator[range]:
    """The seeds in portions."""
    for begin in range(first, first + count, CHUNK):
        yield range(begin, min(begin + CHUNK, first + count))


def main(arguments: list[str] | None = None) -> int:
    """Run the soak; 0 when nothing was violated, else 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--matches", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1, help="the first of the seeds, one a match")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    totals: Counter[str] = Counter()
    violations: list[str] = []
    began = shown = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(options.workers) as pool:
        for counted, found in pool.imap_unordered(soak_chunk, chunks(options.seed, options.matches)):
            totals += counted
            violations += found
            for violation in found:
                print(violation, flush=True)
            now = time.monotonic()
            if now - shown >= 1 or totals["matches"] + len(violations) == options.matches:
                shown = now
                done = totals["matches"] + len(violations)
                rate = done / (now - began)
                left = (options.matches - done) / rate if rate else 0
                line = f"{done:,} of {options.matches:,} matches, {totals['commands']:,} commands, {left:.0f} s left"
                print(line, flush=True)
    spent = time.monotonic() - began
    print(f"\n{len(violations)} violations in {options.matches:,} matches, {spent:.0f} s")
    for name, count in sorted(totals.items()):
        print(f"  {name:<20} {count:>14,}")
    for violation in islice(violations, 20):
        print(violation)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
