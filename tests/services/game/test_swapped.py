"""Everything a viewer may not know is exchanged, and what the viewer gets stays the same, byte for byte.

Equal bytes have equal sizes, and an order that does not depend on what is hidden. The times of answers are measured by
`python -m tests.bench.hands`.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from engine.command import Accept, Bid, Command, Continue, Decline, Draw, Pass, Play, Reveal, Start
from engine.deal import Deal
from engine.event import Event, RoundDealt, TileDrawn
from engine.match import Match, Mode, Phase, decide, evolve
from engine.refusal import Refusal
from engine.seats import SEATS, Seat
from engine.tiles import DOUBLE_SIX, Tile, tile_set, tiles_of
from engine.view import redact
from services.game.story import Audience, Story
from services.wire.commands import refusal_error, refused_to_pb
from services.wire.events import event_to_pb
from tests.engine import randomplay
from tests.services.game.test_story import match_row

VIEWERS = (Audience.NORTH, Audience.SOUTH, Audience.SPECTATOR)
HIDING = (Phase.AUCTION, Phase.OPENING, Phase.PLAYING, Phase.SETTLED)


def exchanged(state: Match, viewer: Seat | None, rng: random.Random) -> Match:
    """The same for this viewer, and otherwise dealt anew: other hands, boneyard, what is drawn or must be opened with."""
    others = [seat for seat in SEATS if seat is not viewer]
    hidden = [*state.boneyard, *(tile for seat in others for tile in tiles_of(state.hand(seat)))]
    rng.shuffle(hidden)
    other = state._replace(boneyard=tuple(hidden[: len(state.boneyard)]))
    hidden = hidden[len(state.boneyard) :]
    for seat in others:
        hand, hidden = hidden[: state.hand(seat).bit_count()], hidden[state.hand(seat).bit_count() :]
        held = tile_set(hand)
        other = other._replace(north_hand=held) if seat is Seat.NORTH else other._replace(south_hand=held)
        if state.to_act is seat and hand:
            other = other._replace(
                drawn_tile=rng.choice([None, *hand]), forced_tile=rng.choice([None, *hand])
            )
    return other


def exchanged_event(event: Event, viewer: Seat | None, rng: random.Random) -> Event:
    """What happened, had other tiles been where the viewer cannot see them."""
    if isinstance(event, TileDrawn) and event.seat is not viewer:
        return replace_tile(event, rng.choice(DOUBLE_SIX))
    if isinstance(event, RoundDealt):
        mine = () if viewer is None else event.deal.hand(viewer)
        rest = [tile for tile in DOUBLE_SIX if tile not in mine]
        rng.shuffle(rest)
        order = {
            None: rest,
            Seat.NORTH: [*mine, *rest],
            Seat.SOUTH: [*rest[:7], *mine, *rest[7:]],
        }[viewer]
        return replace(event, deal=Deal.from_shuffle(order), salt=rng.randbytes(32))
    return event


def replace_tile(event: TileDrawn, tile: Tile) -> TileDrawn:
    return TileDrawn(event.seat, tile)


def attempts(state: Match, seat: Seat, rng: random.Random) -> list[Command]:
    """Commands of all kinds, most of them not allowed now."""
    ends = [end for end, _ in state.layout.open_ends]
    tile = rng.choice(DOUBLE_SIX)
    return [
        *(Start(seat), Continue(seat), Reveal(seat), Draw(seat), Pass(seat), Accept(seat), Decline(seat)),
        *(Bid(seat, rng.randrange(0, 60)), Play(seat, tile), Play(seat, tile, rng.choice(ends or [None]))),
    ]


def answered(state: Match, command: Command) -> bytes | None:
    """The refusal as it is sent; None when it is none."""
    ruling = decide(state, command)
    return refused_to_pb(refusal_error(ruling)).SerializeToString() if isinstance(ruling, Refusal) else None


def told(story: Story, viewer: Audience) -> tuple[bytes, bytes]:
    return story.snapshot(viewer, None), story.prompt(viewer, None)


@pytest.mark.parametrize("seed", range(2))
def test_nothing_a_viewer_gets_depends_on_what_is_hidden_from_it(seed: int) -> None:
    """After each event of random matches: the event, the snapshot, the prompt, and refusals of the viewer's commands."""
    rng = random.Random(seed)
    story = Story(match_row())
    seen = {"views": 0, "refusals": 0, "drawn": 0, "dealt": 0}
    for _, ruling in randomplay.steps(story.state, rng, match_id="m"):
        for event in ruling:
            story.tell([event], 0)
            state = story.state
            if state.phase not in HIDING:
                continue
            viewer = rng.choice(VIEWERS)
            seat = viewer.seat
            other = exchanged(state, seat, rng)
            here = told(story, viewer)
            story.state = other
            assert told(story, viewer) == here, type(event).__name__
            story.state = state
            changed = exchanged_event(event, seat, rng)
            message, instead = (
                event_to_pb(1, redact(each, seat), after).SerializeToString(deterministic=True)
                for each, after in ((event, state), (changed, other))
            )
            assert message == instead, type(event).__name__
            seen["views"] += 1
            seen["drawn"] += changed is not event and isinstance(event, TileDrawn)
            seen["dealt"] += isinstance(event, RoundDealt)
            if seat is None:
                continue
            for command in attempts(state, seat, rng):
                refused = answered(state, command)
                if refused is not None:
                    assert answered(other, command) == refused, command
                    seen["refusals"] += 1
    assert seen["views"] > 100
    assert seen["refusals"] > 500
    assert seen["drawn"] > 5
    assert seen["dealt"] > 1


def test_the_places_of_hidden_tiles_are_told_by_no_refusal() -> None:
    """Each tile that is not in the hand is refused alike, wherever it lies."""
    state = randomplay.start(random.Random(1))
    for state, _ in randomplay.steps(state, random.Random(1)):  # noqa: B020
        if state.to_act is not None and state.phase is Phase.PLAYING:
            break
    else:
        pytest.fail("no turn")
    seat = state.to_act
    assert seat is not None
    assert state.mode is Mode.ONLINE
    ends = [end for end, _ in state.layout.open_ends]
    elsewhere = [*tiles_of(state.hand(seat.opponent)), *state.boneyard]
    answers = {answered(state, Play(seat, tile, end)) for tile in elsewhere for end in ends}
    assert len(answers) == 1
    assert len(elsewhere) > 14


def test_the_exchange_finds_what_it_looks_for() -> None:
    """A view that held the size of a suit in the other hand would differ."""
    rng = random.Random(2)
    found = 0
    for state, ruling in randomplay.steps(randomplay.start(rng), rng):
        for event in ruling:
            after = evolve(state, event)
            if after.phase in HIDING:
                other = exchanged(after, Seat.NORTH, rng)
                found += tiles_of(other.south_hand) != tiles_of(after.south_hand)
                assert other.north_hand == after.north_hand
                assert len(other.boneyard) == len(after.boneyard)
            state = after
    assert found > 50
