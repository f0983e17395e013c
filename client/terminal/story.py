"""What happened at the table, in one line an event, for whoever looks on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from client.bots.account import verdict
from client.wire import outcome_from_pb, some_seat_from_pb, tile_from_pb
from client.words import why_nobody_won
from engine.outcome import Cause

if TYPE_CHECKING:
    from client.match import News
    from client.table import TableState, Transfer
    from engine.outcome import Outcome
    from engine.seats import Seat
    from spectacularbid.match.v1.event_pb2 import MatchEvent

_REASONS: Final = {"score": "for the count", "auction": "for the opening", "blocked": "for the blocked round"}


def who(table: TableState, seat: Seat) -> str:
    """A seat as the one who looks on calls it: `You`, the player's name, or the seat where both have the same."""
    if table.seat is seat:
        return "You"
    if table.players.north.name == table.players.south.name:
        return str(seat).capitalize()
    return table.players[seat].name


def lines(news: News) -> list[str]:
    """A line for each event worth one, in order."""
    told = [_line(news.table, event) for event in news.events]
    return [line for line in told if line]


def _line(table: TableState, event: MatchEvent) -> str:
    match event.WhichOneof("kind"):
        case "started":
            return f"{who(table, some_seat_from_pb(event.started.seat))} pressed Start"
        case "hand_dealt":
            return f"Round {event.hand_dealt.round} is dealt"
        case "bid_made":
            return f"{who(table, some_seat_from_pb(event.bid_made.seat))} bid {event.bid_made.amount}"
        case "opening_won":
            won = event.opening_won
            return f"{who(table, some_seat_from_pb(won.seat))} won the opening for {won.price or 'nothing'}"
        case "tile_placed":
            placed = event.tile_placed
            tile = tile_from_pb(placed.placement.tile)
            return f"{who(table, some_seat_from_pb(placed.seat))} placed [{tile}]: count {placed.count}"
        case "points_moved":
            transfer = event.points_moved.transfer
            return f"{who(table, some_seat_from_pb(transfer.to))} received {transfer.moved} points"
        case "tile_drawn":
            drawn = event.tile_drawn
            what = f"[{tile_from_pb(drawn.tile)}]" if drawn.HasField("tile") else "a tile"
            return f"{who(table, some_seat_from_pb(drawn.seat))} drew {what}"
        case "turn_passed":
            return f"{who(table, some_seat_from_pb(event.turn_passed.seat))} passed"
        case "went_out":
            return f"{who(table, some_seat_from_pb(event.went_out.seat))} went out"
        case "round_blocked":
            totals = event.round_blocked.hand_totals
            return f"The round is blocked: north holds {totals.north}, south {totals.south}"
        case "match_ended":
            return ended(table, outcome_from_pb(event.match_ended.outcome))
        case _:
            return ""


def ended(table: TableState, outcome: Outcome) -> str:
    """How a match ended, as the one who looks on would say it."""
    if outcome.winner is None:
        why = why_nobody_won(outcome)
        return f"The match is {outcome.cause}{f': {why}' if why else ''}. Nothing is rated."
    if table.seat is None:
        return verdict(table) if table.outcome is not None else f"{who(table, outcome.winner)} won"
    won = outcome.winner is table.seat
    loser = outcome.winner.opponent
    has = "you have" if loser is table.seat else f"{who(table, loser)} has"
    how = {
        Cause.BALANCE: f"{has} no points left",
        Cause.TIME: f"{has} run out of time",
        Cause.RESIGNATION: f"{has} resigned",
    }[outcome.cause]
    return f"{'You won' if won else 'You lost'}: {how}."


def transfer_line(table: TableState, transfer: Transfer | None) -> str:
    """The last transfer in words; when less moved than was due, that too (rule 1.2)."""
    if transfer is None:
        return ""
    payer = who(table, transfer.to.opponent)
    reason = _REASONS.get(str(transfer.reason), "")
    short = "" if transfer.moved == transfer.due else f", {transfer.due} were due"
    to = "you" if transfer.to is table.seat else who(table, transfer.to)
    return (
        f"{transfer.moved} points from {'you' if payer == 'You' else payer} to {to} {reason}{short}".rstrip()
    )
