"""Random but legal play: whole matches for properties, for the soak and for the benchmark."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine.command import Accept, Bid, Command, Continue, Decline, Draw, Pass, Play, Resign, Reveal, Start
from engine.deal import Deal
from engine.match import (
    RANKED,
    BidRange,
    Legal,
    Match,
    Mode,
    Opening,
    Phase,
    deal_round,
    decide,
    draw_round,
    evolve,
    expire,
    legal,
    timed,
)
from engine.refusal import Refusal
from engine.seats import SEATS, BySeat
from engine.shuffle import NOTHING, offered, seed_commitment
from engine.tiles import DOUBLE_SIX, ENDS

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from engine.event import Event

BIDS = 0.6
"""How often a random seat bids where it may."""


def bids(allowed: BidRange) -> range:
    """The amounts of a range of bids."""
    return range(allowed.minimum, allowed.maximum + 1, allowed.step)


def commands(state: Match, allowed: Legal) -> Iterator[Command]:
    """Every legal command but Resign, one after the other."""
    seat = state.to_act
    yield from (Start(pressing) for pressing in allowed.start)
    yield from (Continue(pressing) for pressing in allowed.continue_)
    if allowed.reveal is not None:
        yield Reveal(allowed.reveal)
    if seat is None:
        return
    yield from (Play(seat, tile, end) for tile, end in allowed.play)
    if allowed.draw:
        yield Draw(seat)
    if allowed.pass_:
        yield Pass(seat)
    if allowed.accept:
        yield Accept(seat)
    if allowed.decline:
        yield Decline(seat)
    if allowed.bid is not None:
        yield from (Bid(seat, amount) for amount in bids(allowed.bid))


def choose(state: Match, allowed: Legal, rng: random.Random) -> Command:
    """A random legal command. There is always one while a decision is open."""
    seat = state.to_act
    if seat is None:
        return _press(allowed)
    plays = allowed.play
    if plays:
        return Play(seat, *plays[int(rng.random() * len(plays))])
    if allowed.draw:
        return Draw(seat)
    if allowed.pass_:
        return Pass(seat)
    # In the auction: most often the word that ends it, so that auctions neither explode nor bore.
    if allowed.bid is not None and rng.random() < BIDS:
        steps_up = int(rng.random() ** 4 * len(bids(allowed.bid)))
        return Bid(seat, bids(allowed.bid)[steps_up])
    return Accept(seat) if allowed.accept else Decline(seat)


def _press(allowed: Legal) -> Command:
    if allowed.start:
        return Start(allowed.start[0])
    if allowed.continue_:
        return Continue(allowed.continue_[0])
    assert allowed.reveal is not None, "something is legal"
    return Reveal(allowed.reveal)


def anything(rng: random.Random) -> Command:
    """A random command, most likely an illegal one."""
    seat = rng.choice(SEATS)
    number = rng.randrange(20)
    if number < len(_SIMPLE):
        return _SIMPLE[number](seat)
    if number < 12:
        return Bid(seat, rng.randrange(-5, 330))
    return Play(seat, rng.choice(DOUBLE_SIX), rng.choice((None, *ENDS)))


_SIMPLE = (Start, Continue, Reveal, Accept, Decline, Draw, Pass, Resign)


def shuffled(rng: random.Random) -> Deal:
    """A random deal."""
    order = list(DOUBLE_SIX)
    rng.shuffle(order)
    return Deal.from_shuffle(order)


def start(rng: random.Random, *, mode: Mode = Mode.ONLINE, opening: Opening = RANKED) -> Match:
    """A match with random balances."""
    north = rng.choice((150, 150, 5 * rng.randint(1, 59)))
    return Match.start(balances=BySeat(north, 300 - north), mode=mode, opening=opening)


def steps(
    state: Match, rng: random.Random, *, waits_ns_max: int = 0, match_id: str = ""
) -> Iterator[tuple[Match, tuple[Event, ...]]]:
    """Play to the end: each state with the events that lead out of it.

    With `waits_ns_max`, every turn is timed after a random wait, and may be lost. With `match_id`, deals are drawn from
    seeds that are committed to a round before, and from what the seats add to them, now and then nothing.
    """
    seed, contributions = rng.randbytes(32), NOTHING
    while state.phase is not Phase.OVER:
        if state.phase is Phase.AWAITING_DEAL and match_id:
            following = rng.randbytes(32)
            committed = seed_commitment(match_id, state.round_no + 2, following)
            ruling = draw_round(state, match_id, seed, contributions, committed)
            seed = following
        elif state.phase is Phase.AWAITING_DEAL:
            ruling = deal_round(state, shuffled(rng), rng.randbytes(32))
        else:
            command = choose(state, legal(state), rng)
            if match_id and isinstance(command, Start | Continue):
                command = replace(command, contribution=rng.randbytes(rng.choice((0, 1, 32))))
            ruling = decide(state, command)
            if waits_ns_max and state.budget_ns is not None and not isinstance(ruling, Refusal):
                waited = int(rng.random() * waits_ns_max)
                late = waited >= state.budget_ns
                ruling = expire(state) if late else (timed(state, command, waited), *ruling)
        assert not isinstance(ruling, Refusal), f"a listed command was refused: {ruling}"
        yield state, ruling
        contributions = offered(contributions, ruling)
        for event in ruling:
            state = evolve(state, event)


def whole_match(
    rng: random.Random, *, mode: Mode = Mode.ONLINE, waits_ns_max: int = 0, match_id: str = ""
) -> tuple[Match, Match, list[Event]]:
    """The first state, the last one, and all events between them."""
    first = state = start(rng, mode=mode)
    events: list[Event] = []
    for _, caused in steps(first, rng, waits_ns_max=waits_ns_max, match_id=match_id):
        events += caused
    for event in events:
        state = evolve(state, event)
    return first, state, events
