"""What happened in a match, in words: one short line an event of the engine, for records that are stepped through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

from client.words import why_nobody_won
from engine.clock import MILLISECOND
from engine.event import (
    BidMade,
    Continued,
    MatchEnded,
    OpeningWon,
    PointsMoved,
    Reason,
    Revealed,
    RoundBlocked,
    RoundDealt,
    RoundWentOut,
    Started,
    TileDrawn,
    TilePlaced,
    TurnPassed,
    TurnTimed,
)
from engine.outcome import Cause

if TYPE_CHECKING:
    from engine.event import Event
    from engine.outcome import Outcome
    from engine.seats import BySeat

_REASONS: Final = {
    Reason.SCORE: "for the count",
    Reason.AUCTION: "for the opening",
    Reason.BLOCKED: "for the blocked round",
}


def told(event: Event, names: BySeat[str]) -> str:
    """One event in words, as those read them who may see everything; a drawn tile is named."""
    match event:
        case Started():
            return f"{names[event.seat]} presses Start"
        case Continued():
            return f"{names[event.seat]} presses Continue"
        case RoundDealt():
            return f"round {event.round_no} is dealt"
        case Revealed():
            return f"{names[event.seat]} reveals the hand"
        case BidMade():
            return f"{names[event.seat]} bids {event.amount}"
        case OpeningWon():
            waived = f" ({event.discount} waived)" if event.discount else ""
            price = f"for {event.price} points{waived}" if event.price else "free of charge"
            return f"{names[event.seat]} opens {price}"
        case PointsMoved():
            capped = f" of {event.due}" if event.moved != event.due else ""
            return f"{event.moved}{capped} points to {names[event.to]} {_REASONS[event.reason]}"
        case TilePlaced():
            where = "opens with" if event.end is None else "plays"
            end = "" if event.end is None else f" at {event.end}"
            return f"{names[event.seat]} {where} [{event.tile}]{end}: counts {event.count}"
        case TileDrawn():
            return f"{names[event.seat]} draws{'' if event.tile is None else f' [{event.tile}]'}"
        case TurnPassed():
            return f"{names[event.seat]} passes"
        case RoundWentOut():
            return f"{names[event.seat]} goes out"
        case RoundBlocked():
            totals = event.hand_totals
            return f"the round is blocked, {totals.north} to {totals.south} pips in hand"
        case TurnTimed():
            used, paid = (seconds(ns // MILLISECOND) for ns in (event.elapsed_ns, event.charge_ns))
            return f"{names[event.seat]} took {used}" + (f", {paid} from the bank" if event.charge_ns else "")
        case MatchEnded():
            return ending(event.outcome, names)
        case _:
            assert_never(event)


def ending(outcome: Outcome, names: BySeat[str]) -> str:
    """How a match ended, in one line without a full stop."""
    if outcome.winner is None:
        why = why_nobody_won(outcome)
        return f"the match is {outcome.cause}{f': {why}' if why else ''}"
    winner, loser = names[outcome.winner], names[outcome.winner.opponent]
    how = {
        Cause.BALANCE: f"{loser} has no points left",
        Cause.TIME: f"{loser} ran out of time",
        Cause.RESIGNATION: f"{loser} resigned",
    }[outcome.cause]
    return f"{winner} wins: {how}"


def seconds(milliseconds: int) -> str:
    """A length of time with one decimal, rounded down: `13.2 s`."""
    return f"{milliseconds // 1000}.{milliseconds % 1000 // 100} s"
