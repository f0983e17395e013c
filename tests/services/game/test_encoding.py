"""What is joined from encoded pieces says the same as messages that are built field by field."""

from __future__ import annotations

import random

import pytest

from engine.event import TilePlaced
from engine.layout import Layout
from engine.match import Mode, Phase, evolve
from engine.seats import SEATS
from engine.tiles import End
from engine.view import View, choices_of, redact, view
from services.wire.events import event_to_bytes
from services.wire.tables import KIND, PHASE, PORT, SEAT, choices_to_bytes, question_to_bytes, table_to_pb
from spectacularbid.match.v1 import event_pb2, table_pb2
from tests.engine.randomplay import whole_match


def _tile(low: int, high: int) -> table_pb2.Tile:
    return table_pb2.Tile(low=low, high=high)


def _end(end: End | None) -> table_pb2.End | None:
    return (
        None if end is None else table_pb2.End(tile=_tile(end.tile.low, end.tile.high), port=PORT[end.port])
    )


def _open_ends(layout: Layout) -> list[table_pb2.OpenEnd]:
    return [table_pb2.OpenEnd(end=_end(end), value=end.value, counts=n) for end, n in layout.open_ends]


def _question(seen: View, sequence: int) -> table_pb2.Prompt:
    allowed, bid = seen.legal, seen.legal.bid
    legal = table_pb2.Legal(
        plays=[
            table_pb2.LegalPlay(tile=_tile(tile.low, tile.high), end=_end(end)) for tile, end in allowed.play
        ],
        draw=allowed.draw,
        pass_turn=allowed.pass_,
        accept=allowed.accept,
        decline=allowed.decline,
        bid=None if bid is None else table_pb2.BidRange(min=bid.minimum, max=bid.maximum, step=bid.step),
        start=bool(allowed.start),
        continue_round=bool(allowed.continue_),
        reveal=allowed.reveal is not None,
        resign=seen.seat is not None and seen.phase not in (Phase.AWAITING_START, Phase.OVER),
    )
    return table_pb2.Prompt(
        decision_id=seen.decision_id,
        turn=seen.turn,
        to_act=SEAT[seen.to_act],
        kind=KIND[seen.kind],
        legal=legal,
        phase=PHASE[seen.phase],
        sequence=sequence,
        awaiting_reveal=SEAT[seen.awaiting_reveal],
    )


@pytest.mark.parametrize("mode", [Mode.ONLINE, Mode.SAME_DEVICE])
def test_questions_placements_and_layouts_of_a_match_are_encoded_whole(mode: Mode) -> None:
    """An encoded message behind another one is both merged: nothing is lost, doubled or left over."""
    state, _, events = whole_match(random.Random(21), mode=mode)
    for sequence, event in enumerate(events, start=1):
        state = evolve(state, event)
        for seat in (*SEATS, None):
            seen = view(state, seat)
            encoded = question_to_bytes(state, sequence)
            encoded += choices_to_bytes(choices_of(state, seat), state.phase, seated=seat is not None)
            assert table_pb2.Prompt.FromString(encoded) == _question(seen, sequence)
        if isinstance(event, TilePlaced):
            layout = state.layout
            spinner = None if layout.spinner is None else _tile(layout.spinner.low, layout.spinner.high)
            placement = table_pb2.Placement(
                tile=_tile(event.tile.low, event.tile.high), end=_end(event.end), joined=PORT[event.joined]
            )
            placed = event_pb2.TilePlaced(
                seat=SEAT[event.seat],
                placement=placement,
                count=event.count,
                ends=_open_ends(layout),
                spinner=spinner,
            )
            told = event_pb2.MatchEvent(sequence=sequence, tile_placed=placed)
            encoded = event_to_bytes(sequence, redact(event, None, mode), state)
            assert event_pb2.MatchEvent.FromString(encoded) == told
            laid = table_to_pb(view(state, None)).layout
            assert laid.placements[-1] == placement
            assert len(laid.placements) == len(layout.placements)
            assert list(laid.ends) == _open_ends(layout)
            assert (laid.count, laid.HasField("spinner")) == (layout.total, spinner is not None)
