"""Events as one receiver may hear of them, as messages of spectacularbid.match.v1."""

from __future__ import annotations

from typing import assert_never

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
from engine.view import HandDealt, OpenEnd, SeatEvent
from services.wire import tables
from services.wire.tables import MILLISECOND, SEAT
from spectacularbid.match.v1 import event_pb2 as pb
from spectacularbid.match.v1 import table_pb2


def event_to_pb(sequence: int, event: SeatEvent, after: Match, credited_ns: int = 0) -> pb.MatchEvent:
    """One redacted event with its number. Of the state after it, only public facts are read."""
    message = pb.MatchEvent(sequence=sequence)
    match event:
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
        case PointsMoved():
            message.points_moved.transfer.CopyFrom(tables.transfer_to_pb(event))
            message.points_moved.balances.CopyFrom(tables.balances_to_pb(after.balances))
        case TilePlaced():
            _placed(message.tile_placed, event, after)
        case TileDrawn():
            message.tile_drawn.seat = SEAT[event.seat]
            message.tile_drawn.boneyard = len(after.boneyard)
            if event.tile is not None:
                message.tile_drawn.tile.CopyFrom(tables.tile_to_pb(event.tile))
        case TurnPassed():
            message.turn_passed.seat = SEAT[event.seat]
        case RoundWentOut():
            message.went_out.seat = SEAT[event.seat]
        case RoundBlocked():
            message.round_blocked.winner = SEAT[event.winner]
            message.round_blocked.hand_totals.CopyFrom(
                table_pb2.HandTotals(north=event.hand_totals.north, south=event.hand_totals.south)
            )
        case TurnTimed():
            timed = message.turn_timed
            timed.seat = SEAT[event.seat]
            timed.turn = event.turn
            timed.elapsed_ms = event.elapsed_ns // MILLISECOND
            # Rounded against the display: the bank is rounded down, so what it paid is rounded up.
            timed.charge_ms = -(-event.charge_ns // MILLISECOND)
            timed.bank_ms = event.bank_after_ns // MILLISECOND
            timed.credited_ms = credited_ns // MILLISECOND
        case MatchEnded():
            message.match_ended.outcome.CopyFrom(tables.outcome_to_pb(event.outcome))
        case _:
            assert_never(event)
    return message


def _placed(message: pb.TilePlaced, event: TilePlaced, after: Match) -> None:
    message.seat = SEAT[event.seat]
    message.placement.CopyFrom(tables.placement_to_pb(event.tile, event.end, event.joined))
    message.count = event.count
    layout = after.layout
    message.ends.extend(
        tables.open_ends_to_pb(OpenEnd(end, end.value, counts) for end, counts in layout.open_ends)
    )
    if layout.spinner is not None:
        message.spinner.CopyFrom(tables.tile_to_pb(layout.spinner))
