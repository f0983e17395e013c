"""The account of a match while it is played: one line a round, made from the events anyone at the table sees."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from client.wire import outcome_from_pb, some_seat_from_pb, tile_from_pb
from client.words import why_nobody_won
from engine.outcome import Cause, Outcome
from engine.seats import NORTH, SOUTH, BySeat, Seat

if TYPE_CHECKING:
    from client.match import News
    from client.table import TableState
    from engine.tiles import Tile
    from spectacularbid.match.v1.event_pb2 import MatchEvent

_ROW: Final = "{:>3} {:<31} {:>9} {:<14} {:>7} {:>9}"

HEADER: Final = _ROW.format("#", "opening", "won n/s", "ended", "points", "banks").rstrip()
"""The titles above the lines: at most 78 characters wide, as every line is."""


@dataclass(slots=True)
class _Round:
    number: int
    opener: Seat | None = None
    tile: Tile | None = None
    bids: list[int] = field(default_factory=list)
    price: int | None = None
    won: BySeat[int] = field(default_factory=lambda: BySeat(0, 0))
    ended: str = ""


class Account:
    """Turns the news of one match into lines."""

    def __init__(self) -> None:
        self.rounds = 0
        """Rounds that have begun."""
        self._round: _Round | None = None
        self._balances = BySeat(0, 0)
        self._banks_ms = BySeat(0, 0)

    def lines(self, news: News) -> list[str]:
        """The lines these news complete: one when a round has ended, or the match in the middle of one."""
        lines = []
        if news.snapshot and not news.events:
            self._balances, self._banks_ms = news.table.balances, news.table.banks_ms
        for event in news.events:
            # What settles a round comes with its end; the first thing after that is a press of Continue.
            if event.WhichOneof("kind") in ("continued", "hand_dealt"):
                lines += self._finished()
            self._take(event)
        return lines + self._finished()

    def _finished(self) -> list[str]:
        played = self._round
        if played is None or not played.ended:
            return []
        self._round = None
        won = f"{_signed(played.won.north)} {_signed(played.won.south):>4}"
        points = f"{self._balances.north}:{self._balances.south}"
        banks = f"{minutes(self._banks_ms.north)} {minutes(self._banks_ms.south)}"
        return [_ROW.format(played.number, _opening(played), won, played.ended, points, banks)]

    def _take(self, event: MatchEvent) -> None:
        match event.WhichOneof("kind"):
            case "hand_dealt":
                self._round = _Round(event.hand_dealt.round)
                self.rounds += 1
            case "turn_timed":
                timed = event.turn_timed
                self._banks_ms = self._banks_ms.put(some_seat_from_pb(timed.seat), timed.bank_ms)
            case "points_moved":
                balances = event.points_moved.balances
                self._balances = BySeat(balances.north, balances.south)
        if self._round is not None:
            _note(self._round, event)


def _note(played: _Round, event: MatchEvent) -> None:
    match event.WhichOneof("kind"):
        case "bid_made":
            played.bids.append(event.bid_made.amount)
        case "opening_won":
            played.price = event.opening_won.price
        case "tile_placed" if played.opener is None:
            played.opener = some_seat_from_pb(event.tile_placed.seat)
            played.tile = tile_from_pb(event.tile_placed.placement.tile)
        case "points_moved":
            transfer = event.points_moved.transfer
            to = some_seat_from_pb(transfer.to)
            played.won = played.won.put(to, played.won[to] + transfer.moved)
        case "went_out":
            played.ended = f"{some_seat_from_pb(event.went_out.seat)} went out"
        case "round_blocked":
            totals = event.round_blocked.hand_totals
            played.ended = f"blocked {totals.north}:{totals.south}"
        case "match_ended":
            played.ended = _end(outcome_from_pb(event.match_ended.outcome))


def _end(outcome: Outcome) -> str:
    if outcome.winner is None:
        return str(outcome.cause)
    loser = outcome.winner.opponent
    return {
        Cause.BALANCE: f"{loser} at 0",
        Cause.TIME: f"{loser} late",
        Cause.RESIGNATION: f"{loser} resigns",
    }[outcome.cause]


def _opening(played: _Round) -> str:
    tile = "" if played.tile is None else f" [{played.tile}]"
    if played.opener is None:
        return f"bids {_bids(played.bids)}" if played.bids else ""
    if played.price is None:
        double = played.tile is not None and played.tile.is_double
        return f"{played.opener}{tile}, {'highest double' if double else 'heaviest tile'}"
    if not played.bids:
        return f"{played.opener}{tile}, no bid"
    return f"bids {_bids(played.bids)}: {played.opener} for {played.price}{tile}"


def _bids(bids: list[int]) -> str:
    return " ".join(map(str, bids)) if len(bids) <= 2 else f"{bids[0]}-{bids[-1]}"


def _signed(won: int) -> str:
    return f"+{won}" if won else "0"


def minutes(milliseconds: int) -> str:
    """A bank as minutes and seconds; rounded down, so never more than there is."""
    return f"{milliseconds // 60_000}:{milliseconds // 1000 % 60:02}"


def verdict(table: TableState) -> str:
    """How the match ended, in one sentence."""
    assert table.outcome is not None, "the match is over"
    outcome, players = table.outcome, table.players
    if outcome.winner is None:
        why = why_nobody_won(outcome)
        return f"The match is {outcome.cause}{f': {why}' if why else ''}. Nobody wins, nothing is rated."
    winner, loser = players[outcome.winner].name, players[outcome.winner.opponent].name
    how = {
        Cause.BALANCE: f"{loser} has no points left",
        Cause.TIME: f"{loser} ran out of time",
        Cause.RESIGNATION: f"{loser} resigned",
    }[outcome.cause]
    return f"{winner} ({outcome.winner}) wins: {how}."


def seats(table: TableState) -> str:
    """Who sits where."""
    return f"north is {table.players[NORTH].name}, south is {table.players[SOUTH].name}"
