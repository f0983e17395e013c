"""Events as one receiver may hear of them, as messages of spectacularbid.match.v1."""

from __future__ import annotations

from functools import cache
from typing import Final, assert_never

from engine.event import (
    BidMade,
    Continued,
    MatchEnded,
    OpeningWon,
    PointsMoved,
    Revealed,
    RoundBlocked,
    RoundWentOut,
    Started,
    TileDrawn,
    TilePlaced,
    TurnPassed,
    TurnTimed,
)
from engine.match import Match
from engine.seats import Seat
from engine.tiles import ENDS, End, Port, Tile
from engine.view import HandDealt, SeatEvent
from services.wire import tables
from services.wire.parts import Part
from services.wire.tables import MILLISECOND, SEAT
from spectacularbid.match.v1 import event_pb2 as pb
from spectacularbid.match.v1 import table_pb2

_TILE_PLACED: Final = Part(pb.MatchEvent, "tile_placed")
_TURN_TIMED: Final = Part(pb.MatchEvent, "turn_timed")
_NUMBERED: Final = tuple([pb.MatchEvent(sequence=number).SerializeToString() for number in range(1 << 11)])
"""An event without anything but its number, for the numbers of nearly all events."""


def event_to_pb(sequence: int, event: SeatEvent, after: Match, credited_ns: int = 0) -> pb.MatchEvent:
    """One redacted event with its number. Of the state after it, only public facts are read."""
    return pb.MatchEvent.FromString(event_to_bytes(sequence, event, after, credited_ns))


def event_to_bytes(sequence: int, event: SeatEvent, after: Match, credited_ns: int = 0) -> bytes:
    """The same, encoded."""
    numbered = (
        _NUMBERED[sequence]
        if sequence < len(_NUMBERED)
        else pb.MatchEvent(sequence=sequence).SerializeToString()
    )
    # The three that make up most of every match.
    if isinstance(event, TilePlaced):
        return numbered + _TILE_PLACED.of(_placed(event, after))
    if isinstance(event, TurnTimed):
        return numbered + _TURN_TIMED.of(_timed(event, credited_ns))
    if isinstance(event, TileDrawn):
        return numbered + _drawn(event, len(after.boneyard))
    message = pb.MatchEvent()
    _write(message, event, after)
    return numbered + message.SerializeToString()


def _timed(event: TurnTimed, credited_ns: int) -> bytes:
    """A TurnTimed, encoded."""
    seat, turn, elapsed_ns, _, charge_ns, bank_after_ns = event
    return pb.TurnTimed(
        seat=SEAT[seat],
        turn=turn,
        elapsed_ms=elapsed_ns // MILLISECOND,
        # Rounded against the display: the bank is rounded down, so what it paid is rounded up.
        charge_ms=-(-charge_ns // MILLISECOND),
        bank_ms=bank_after_ns // MILLISECOND,
        credited_ms=credited_ns // MILLISECOND,
    ).SerializeToString()


@cache
def _drawn(event: TileDrawn, boneyard: int) -> bytes:
    """A draw as a piece of a MatchEvent."""
    tile = None if event.tile is None else tables.tile_to_pb(event.tile)
    drawn = pb.TileDrawn(seat=SEAT[event.seat], boneyard=boneyard, tile=tile)
    return pb.MatchEvent(tile_drawn=drawn).SerializeToString()


def _write(message: pb.MatchEvent, event: SeatEvent, after: Match) -> None:
    """One of the less frequent events."""
    match event:
        case PointsMoved():
            moved, balances = message.points_moved, after.balances
            moved.transfer.CopyFrom(tables.transfer_to_pb(event))
            moved.balances.north = balances.north
            moved.balances.south = balances.south
        case Started():
            message.started.seat = SEAT[event.seat]
            message.started.contribution = event.contribution
        case Continued():
            message.continued.seat = SEAT[event.seat]
            message.continued.contribution = event.contribution
        case HandDealt():
            message.hand_dealt.CopyFrom(
                pb.HandDealt(
                    round=event.round_no,
                    hand=tables.tiles_to_pb(event.hand or ()),
                    commitment=event.commitment,
                    contributions=None
                    if event.contributions is None
                    else tables.contributions_to_pb(event.contributions),
                    next_commitment=event.next_commitment or "",
                    scripted=event.scripted,
                )
            )
        case Revealed():
            message.revealed.CopyFrom(
                pb.Revealed(seat=SEAT[event.seat], hand=tables.tiles_to_pb(event.hand or ()))
            )
        case BidMade():
            message.bid_made.seat = SEAT[event.seat]
            message.bid_made.amount = event.amount
        case OpeningWon():
            message.opening_won.seat = SEAT[event.seat]
            message.opening_won.price = event.price
            message.opening_won.discount = event.discount
        case TurnPassed():
            message.turn_passed.seat = SEAT[event.seat]
        case RoundWentOut():
            message.went_out.seat = SEAT[event.seat]
        case RoundBlocked():
            message.round_blocked.winner = SEAT[event.winner]
            message.round_blocked.hand_totals.CopyFrom(
                table_pb2.HandTotals(north=event.hand_totals.north, south=event.hand_totals.south)
            )
        case MatchEnded():
            message.match_ended.outcome.CopyFrom(tables.outcome_to_pb(event.outcome))
        case TilePlaced() | TurnTimed() | TileDrawn():
            raise AssertionError("has a function of its own")
        case _:
            assert_never(event)


# A placement is put together from what is encoded once; see `services.wire.tables`.


def _placed(event: TilePlaced, after: Match) -> bytes:
    """A TilePlaced, encoded."""
    seat, tile, end, joined, count = event
    pieces = [_placement(seat, tile, end, joined), _beside(count, after.layout.spinner)]
    pieces += [_OPEN_ENDS[each] for each in after.layout.open_ends]
    return b"".join(pieces)


@cache
def _placement(seat: Seat, tile: Tile, end: End | None, joined: Port | None) -> bytes:
    """Who placed which tile where, as a piece of a TilePlaced."""
    placement = tables.placement_to_pb(tile, end, joined)
    return pb.TilePlaced(seat=SEAT[seat], placement=placement).SerializeToString()


@cache
def _beside(count: int, spinner: Tile | None) -> bytes:
    """The count and the spinner after a placement, as a piece of a TilePlaced."""
    return pb.TilePlaced(
        count=count, spinner=None if spinner is None else tables.tile_to_pb(spinner)
    ).SerializeToString()


def _open_end(end: End, counts: int) -> bytes:
    """An open end as a piece of a TilePlaced."""
    return pb.TilePlaced(ends=[tables.open_end_to_pb(end, end.value, counts)]).SerializeToString()


# As in `engine.view`: what each counts once and, as the second line of an opening double, not at all.
_OPEN_ENDS: Final = {(end, counts): _open_end(end, counts) for end in ENDS for counts in {0, end.counts}}
