"""Hidden means hidden: what a seat or a spectator is shown and told, scanned for what they may not know."""

from __future__ import annotations

import random
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.command import Draw, Pass, Reveal
from engine.deal import Deal
from engine.event import Continued, Event, Revealed, RoundDealt, Started, TileDrawn, TilePlaced
from engine.legal import NOTHING
from engine.match import Match, Mode, Phase, replay
from engine.seats import NORTH, SEATS, SOUTH, Seat
from engine.tiles import Tile, tile_set
from engine.view import HandDealt, redact, redact_for_device, view
from tests.engine import randomplay
from tests.engine.tables import SALT, accepted, after, deal, dealt, endgame, layout, play, started

if TYPE_CHECKING:
    from collections.abc import Iterator

seeds = st.integers(0, 2**32).map(random.Random)
whole_matches = settings(max_examples=30, deadline=None)
VIEWERS = (NORTH, SOUTH, None)


def everything_in(thing: Any) -> Iterator[Any]:
    """The thing and all that can be reached from it."""
    yield thing
    if isinstance(thing, Tile | str | int | bytes | None):
        return
    if isinstance(thing, tuple | list):
        for part in thing:
            yield from everything_in(part)
    elif is_dataclass(thing):
        for field in fields(thing):
            yield from everything_in(getattr(thing, field.name))
    else:
        for name in type(thing).__slots__:
            yield from everything_in(getattr(thing, name))


def tiles_in(thing: Any) -> set[Tile]:
    """All tiles in a view or an event; anything secret in another shape fails the test at once."""
    parts = list(everything_in(thing))
    # What players add to a deal is public; salts and seeds are not.
    public = {b""}
    if isinstance(thing, HandDealt):
        public |= set(thing.contributions or ())
    elif isinstance(thing, Started | Continued):
        public.add(thing.contribution)
    assert {part for part in parts if isinstance(part, bytes)} <= public
    assert not any(isinstance(part, Deal | RoundDealt | Match) for part in parts)
    return {part for part in parts if isinstance(part, Tile)}


def on_table(state: Match) -> set[Tile]:
    return {placement.tile for placement in state.layout.placements}


@whole_matches
@given(seeds, st.sampled_from(Mode))
def test_a_view_holds_the_own_hand_and_the_table_and_no_other_tile(rng: random.Random, mode: Mode) -> None:
    """Rules 2.4 and 7.4."""
    for number, (state, _) in enumerate(randomplay.steps(randomplay.start(rng, mode=mode), rng)):
        if number % 7:
            continue  # looking into every corner of a view takes long
        for seat in VIEWERS:
            seen = view(state, seat)
            own: set[Tile] = set()
            if seat is not None and (mode is Mode.ONLINE or state.to_act is seat):
                own = set(state.hands[seat])
            assert tiles_in(seen) <= on_table(state) | own
            assert own == set(seen.hand or ())
            if state.to_act is not None and seat is not state.to_act:
                assert seen.legal == NOTHING


@whole_matches
@given(seeds, st.integers(0, 120))
def test_a_view_does_not_depend_on_what_is_hidden(rng: random.Random, steps: int) -> None:
    """FC-55: deal the hidden tiles anew among the other hand and the boneyard, and the view stays the same."""
    state = randomplay.start(rng)
    for number, (current, _) in enumerate(randomplay.steps(state, rng)):
        state = current
        if number == steps:
            break
    for seat in VIEWERS:
        if seat is None:
            hidden = [*state.hands.north, *state.hands.south, *state.boneyard]
        else:
            hidden = [*state.hands[seat.opponent], *state.boneyard]
        rng.shuffle(hidden)
        other = state
        for holder in SEATS if seat is None else (seat.opponent,):
            size = len(state.hands[holder])
            hand, hidden = tile_set(hidden[:size]), hidden[size:]
            other = other._replace(north_hand=hand) if holder is NORTH else other._replace(south_hand=hand)
        other = other._replace(boneyard=tuple(hidden))
        if seat is None or state.to_act is not seat:
            # What the seat to act has drawn or must open with is its secret too.
            other = other._replace(forced_tile=None, drawn_tile=None)
        assert view(state, seat) == view(other, seat)


@whole_matches
@given(seeds, st.sampled_from(Mode))
def test_a_seat_is_told_one_thing_for_each_event_and_no_secret(rng: random.Random, mode: Mode) -> None:
    """FC-53: one redacted event for every event; its tiles are the own ones and those that were placed."""
    known: dict[Seat | None, set[Tile]] = {seat: set() for seat in VIEWERS}
    first = randomplay.start(rng, mode=mode)
    for state, events in randomplay.steps(first, rng, waits_ns_max=13 * 10**9, match_id="m"):
        for event in events:
            for seat in VIEWERS:
                told = redact(event, seat, mode)
                if isinstance(event, RoundDealt):
                    known[seat] = set() if seat is None else set(event.deal.hand(seat))
                if isinstance(event, TilePlaced):
                    known[seat].add(event.tile)
                if isinstance(event, TileDrawn) and event.seat is seat:
                    assert event.tile is not None
                    known[seat].add(event.tile)
                assert tiles_in(told) <= known[seat]
            if mode is Mode.SAME_DEVICE:
                told = redact_for_device(event)
                allowed = on_table(state) | (set(state.hands[state.to_act]) if state.to_act else set())
                if isinstance(event, Revealed):
                    allowed |= set(state.hands[event.seat])
                    assert set(event.hand or ()) == set(state.hands[event.seat])
                if isinstance(event, TileDrawn) and event.tile is not None:
                    allowed.add(event.tile)
                if isinstance(event, TilePlaced):
                    allowed.add(event.tile)
                assert tiles_in(told) <= allowed


def test_fc_53_three_drawn_tiles_are_three_counts() -> None:
    """FC-53: the opponent learns that three were drawn, and then the placed one."""
    state = endgame("0|2", "3|3", table=layout(("1|4", None)), boneyard="0|0 2|2 1|1")
    told: list[object] = []
    for command in (Draw(NORTH), Draw(NORTH), Draw(NORTH), play(NORTH, "1|1", "1|4 low")):
        events = accepted(state, command)
        told += [redact(event, SOUTH) for event in events]
        state = replay(state, events)
    assert told[:3] == [TileDrawn(NORTH, None)] * 3
    assert tiles_in(told) == {Tile.parse("1|1"), Tile.parse("1|4")}
    seen = view(state, SOUTH)
    assert (seen.hand_counts.north, seen.boneyard_count) == (3, 0)


def test_a_deal_is_told_as_the_own_hand_and_a_commitment() -> None:
    the_deal = deal("6|6")
    event = RoundDealt(1, the_deal, SALT, "c")
    assert redact(event, NORTH) == HandDealt(1, the_deal.north, "c")
    assert redact(event, SOUTH) == HandDealt(1, the_deal.south, "c")
    assert redact(event, None) == HandDealt(1, None, "c")
    assert redact(event, NORTH, Mode.SAME_DEVICE) == redact_for_device(event) == HandDealt(1, None, "c")


def test_a_shared_device_shows_a_hand_after_reveal_and_until_the_turn_ends() -> None:
    """Rules 6.5 and 7.4: no clock runs and nothing is legal but Reveal before it."""
    state = dealt(started(mode=Mode.SAME_DEVICE), deal("6|6"))
    assert (state.to_act, state.awaiting_reveal) == (None, NORTH)
    assert [view(state, seat).hand for seat in SEATS] == [None, None]
    assert view(state, NORTH).legal.reveal is NORTH
    assert not view(state, SOUTH).legal.anything
    events = accepted(state, Reveal(NORTH))
    assert events == (Revealed(NORTH, state.hands.north),)
    assert redact_for_device(events[0]) == events[0]
    assert redact(events[0], SOUTH, Mode.SAME_DEVICE) == Revealed(NORTH, None)
    revealed = replay(state, events)
    assert (revealed.to_act, revealed.turn) == (NORTH, 1)
    assert view(revealed, NORTH).hand == state.hands.north
    assert view(revealed, SOUTH).hand is None
    played = after(revealed, play(NORTH, "6|6"))
    assert [view(played, seat).hand for seat in SEATS] == [None, None]
    assert (played.to_act, played.awaiting_reveal, played.turn) == (None, SOUTH, 1)


def test_both_hand_totals_are_public_after_a_block_and_hands_are_not() -> None:
    """Rule 4.6."""
    settled = after(endgame("1|2", "3|4", passes=1), Pass(NORTH))
    for seat in VIEWERS:
        seen = view(settled, seat)
        assert seen.phase is Phase.SETTLED
        assert list(seen.hand_totals or ()) == [3, 7]
    assert tiles_in(view(settled, None)) == on_table(settled)


def test_every_event_is_redacted() -> None:
    """A new kind of event must be thought about: `redact` knows each by name."""
    assert len(get_args(Event)) == 14
