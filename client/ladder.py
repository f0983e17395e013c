"""The ladder and a player's history as tables for a terminal of 80 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.cells import cell_len, set_cell_size
from rich.markup import escape
from rich.table import Table

from client.bots.exhibition import shown
from client.printable import printable
from client.wire import outcome_from_pb
from client.words import short_reason
from engine.seats import NORTH, SOUTH, BySeat, Seat

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from spectacularbid.ladder.v1.ladder_service_pb2 import FinishedMatch, Standing

LEGEND: Final = "± is the uncertainty; rating = mean - 2 × that; ? = provisional, little is known"
_NAME_WIDTH: Final = 20
_WORDS: Final = {"unrated_mode": "unrated", "void": "-", "cancelled": "-"}


def ladder_table(standings: Iterable[Standing], *, own: str = "") -> Table:
    """Standings, one a line; the player `own` has a mark."""
    table = _table(("", "left"), ("rank", "right"), ("player", "left"), ("rating", "right"), ("±", "right"))
    for title in ("played", "won"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("id", no_wrap=True)
    for standing in standings:
        table.add_row(
            ">" if standing.player.player_id == own else "",
            str(standing.rank) if standing.rank else "-",
            _name(standing.player.name),
            f"{standing.shown_rating}{'?' if standing.provisional else ' '}",
            f"{standing.rating.sigma:.0f}",
            str(standing.rated_matches),
            str(standing.wins),
            escape(standing.player.player_id),
        )
    return table


def history_table(
    matches: Iterable[FinishedMatch], player_id: str, now: datetime, *, ids: bool = False
) -> Table:
    """Finished matches as the player sees them, one a line; with their ids the lines are longer than 80 columns.

    `now` decides how much of a date is said.
    """
    table = _table(("ended", "left"), ("result", "left"), ("against", "left"))
    for title in ("points", "change", "time", "rds"):
        table.add_column(title, justify="right", no_wrap=True)
    if ids:
        table.add_column("match", no_wrap=True)
    for match in matches:
        seat = NORTH if match.north.player_id == player_id else SOUTH
        players = BySeat(match.north, match.south)
        points = BySeat(match.balances.north, match.balances.south)
        same_device = match.north.player_id == match.south.player_id
        table.add_row(
            _when(match.ended_at.ToDatetime(), now),
            escape(_result(match, seat, same_device=same_device)),
            "(same device)"
            if same_device
            else _name(players[seat.opponent].name, _NAME_WIDTH if ids else 16),
            f"{points[seat]}:{points[seat.opponent]}",
            rating_change(match, seat),
            _minutes(match.played_ms) if match.rounds else "-",
            str(match.rounds) if match.rounds else "-",
            *([escape(match.match_id)] if ids else []),
        )
    return table


def rating_change(match: FinishedMatch, seat: Seat) -> str:
    """By how many points the match moved the shown rating of the seat, or why it did not."""
    if not match.HasField("decision"):
        return "pending"
    made = match.decision
    if not made.rated:
        return _WORDS.get(made.reason, made.reason)
    before, after = (
        (made.north_before, made.north_after) if seat is NORTH else (made.south_before, made.south_after)
    )
    return f"{shown(after) - shown(before):+}"


def _table(*columns: tuple[str, str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for title, side in columns:
        table.add_column(title, justify="right" if side == "right" else "left", no_wrap=True)
    return table


def _result(match: FinishedMatch, seat: Seat, *, same_device: bool) -> str:
    if not match.outcome.cause:
        return "?"
    outcome = outcome_from_pb(match.outcome)
    if outcome.winner is None:
        return short_reason(outcome)
    who = f"{outcome.winner} won" if same_device else "won" if outcome.winner is seat else "lost"
    return f"{who}, {outcome.cause}"


def _name(name: str, width: int = _NAME_WIDTH) -> str:
    name = printable(name)
    # Some characters are two cells wide.
    return escape(name if cell_len(name) <= width else set_cell_size(name, width - 1).rstrip() + "…")


def _when(ended: datetime, now: datetime) -> str:
    return ended.strftime("%d %b %H:%M" if ended.year == now.year else "%d %b %Y")


def _minutes(milliseconds: int) -> str:
    minutes, seconds = divmod(milliseconds // 1000, 60)
    return f"{minutes}:{seconds:02}"
