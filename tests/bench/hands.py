"""Whether the time of an answer depends on tiles that its receiver must not know: `python -m tests.bench.hands`.

Two positions that are equal for the viewer and differ in what is hidden are asked the same question in turn, thousands of
times, by the very functions that read a hand on the way to an answer. Everything else on that way (inbox, clock, journal,
network) is given no tile. What is compared is the mean without the slowest tenth, and the error is that of the difference.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import random
import statistics
import time
from collections.abc import Callable
from typing import Final

from engine.command import Command, Draw, Pass, Play, Start
from engine.eventjson import event_to_json
from engine.match import Match, Phase, deal_round, decide, legal, replay
from engine.refusal import Refusal
from engine.ruling import Ruling
from engine.seats import NORTH, SEATS, SOUTH
from engine.tiles import Tile, tile_set, tiles_of
from services.game.story import Audience, Story
from services.wire.commands import refusal_error, refused_to_pb
from tests.engine.randomplay import choose, shuffled
from tests.services.game.test_story import match_row

SAMPLES: Final = 20_000
KEPT: Final = 0.9
LAID: Final = 5
"""Tiles on the table."""
Question = Callable[[], object]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.hands", description=__doc__)
    parser.add_argument("--samples", type=int, default=SAMPLES, metavar="N")
    samples = parser.parse_args().samples
    fits, misses = positions()
    play = Play(NORTH, *legal(fits).play[0])
    theirs, nobodys = tiles_of(fits.south_hand)[0], fits.boneyard[0]
    end = play.end
    turned = [state._replace(to_act=SOUTH, drawn_tile=None) for state in (fits, misses)]
    print(f"{samples:,} answers each, microseconds; south's hand fits everywhere (A) or nowhere (B)")
    print(f"{'':68}{'A':>8}{'B':>8}{'differ':>9}{'error':>7}")
    rows: list[tuple[str, Question, Question]] = [
        (
            "north plays a tile that is south's (A), or in the boneyard (B)",
            refused(fits, Play(NORTH, theirs, end)),
            refused(fits, Play(NORTH, nobodys, end)),
        ),
        *(
            (f"north's {what}, refused", refused(fits, command), refused(misses, command))
            for what, command in (("draw", Draw(NORTH)), ("pass", Pass(NORTH)))
        ),
        *(
            (
                f"north's {what} in south's turn, refused",
                refused(turned[0], command),
                refused(turned[1], command),
            )
            for what, command in (("draw", Draw(NORTH)), ("play", play))
        ),
        *(
            (f"snapshot for {name} in south's turn", snapshot(turned[0], to), snapshot(turned[1], to))
            for name, to in (("north", Audience.NORTH), ("a spectator", Audience.SPECTATOR))
        ),
        (
            "north's play carried out, until north's news is made",
            carried_out(fits, play, Audience.NORTH),
            carried_out(misses, play, Audience.NORTH),
        ),
        (
            "the same, with south's news made before north's",
            carried_out(fits, play, Audience.SOUTH, Audience.NORTH),
            carried_out(misses, play, Audience.SOUTH, Audience.NORTH),
        ),
    ]
    for what, one, other in rows:
        _print(what, *_compared(one, other, samples))


def positions() -> tuple[Match, Match]:
    """A turn of north that north sees alike; after north's first play, all of south's tiles fit, or none of them."""
    rng = random.Random(3)
    while True:
        state = _opened(rng)
        if state.to_act is not NORTH or state.phase is not Phase.PLAYING or len(legal(state).play) < 2:
            continue
        after = replay(state, _accepted(decide(state, Play(NORTH, *legal(state).play[0]))))
        values = {end.value for end, _ in after.layout.open_ends}
        hidden = [*tiles_of(state.south_hand), *state.boneyard]
        fitting = [tile for tile in hidden if {tile.low, tile.high} & values]
        others = [tile for tile in hidden if tile not in fitting]
        size = state.south_hand.bit_count()
        if min(len(fitting), len(others)) >= size:
            return tuple(_holding(state, hand[:size], hidden) for hand in (fitting, others))  # type: ignore[return-value]


def _opened(rng: random.Random) -> Match:
    """A match some plays into its first round."""
    state = Match.start()
    for seat in SEATS:
        state = replay(state, _accepted(decide(state, Start(seat))))
    state = replay(state, _accepted(deal_round(state, shuffled(rng), bytes(32))))
    while state.to_act is not None and len(state.layout.placements) < LAID:
        state = replay(state, _accepted(decide(state, choose(state, legal(state), rng))))
    return state


def _holding(state: Match, hand: list[Tile], hidden: list[Tile]) -> Match:
    return state._replace(
        south_hand=tile_set(hand), boneyard=tuple(tile for tile in hidden if tile not in hand)
    )


def _accepted(ruling: Ruling) -> tuple:  # type: ignore[type-arg]
    assert not isinstance(ruling, Refusal), ruling
    return ruling


# What is asked


def refused(state: Match, command: Command) -> Question:
    """From the command to the refusal as it is sent."""

    def answer() -> bytes:
        ruling = decide(state, command)
        assert isinstance(ruling, Refusal)
        return refused_to_pb(refusal_error(ruling)).SerializeToString()

    return answer


def snapshot(state: Match, audience: Audience) -> Question:
    """A whole table as it is sent."""

    def answer() -> bytes:
        story = Story(match_row())
        story.state = state
        return story.snapshot(audience, None)

    return answer


def carried_out(state: Match, command: Command, *audiences: Audience) -> Question:
    """From the command to the news for these audiences, in this order; without the time on disk."""

    def answer() -> list[bytes]:
        story = Story(match_row())
        story.state = state
        events = _accepted(decide(state, command))
        json.dumps([event_to_json(event) for event in events])
        story.tell(events, 0)
        return [story.prompt(audience, None) for audience in audiences]

    return answer


# What comes of it


def _compared(one: Question, other: Question, samples: int) -> tuple[list[float], list[float]]:
    """Both in turn, in an order that nothing follows; microseconds."""
    took: tuple[list[float], list[float]] = ([], [])
    order, questions = random.Random(1), (one, other)
    gc.collect()
    gc.disable()
    try:
        for number in range(2 * samples + 200):
            which = order.randrange(2)
            began = time.perf_counter_ns()
            questions[which]()
            lasted = time.perf_counter_ns() - began
            if number >= 200:
                took[which].append(lasted / 1000)
    finally:
        gc.enable()
    return took


def _print(what: str, one: list[float], other: list[float]) -> None:
    kept = [sorted(took)[: int(len(took) * KEPT)] for took in (one, other)]
    means = [statistics.fmean(took) for took in kept]
    error = math.sqrt(sum(statistics.variance(took) / len(took) for took in kept))
    print(f"{what:68}{means[0]:>8.2f}{means[1]:>8.2f}{means[0] - means[1]:>+9.3f}{error:>7.3f}")


if __name__ == "__main__":
    main()
