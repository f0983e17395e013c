"""Two bots find each other, play a rated match and are rated, while somebody watches."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from client.bots import greedy
from client.bots.account import HEADER, Account, minutes, seats, verdict
from client.bots.player import play
from client.connection import Backoff
from client.errors import CallError
from engine.seats import NORTH, SEATS

if TYPE_CHECKING:
    from collections.abc import Callable

    from client.match import News
    from client.session import Client, MatchHandle
    from client.table import TableState
    from spectacularbid.ladder.v1.ladder_service_pb2 import Rating, RatingDecision

_RATING_SECONDS_MAX: Final = 20.0


async def exhibition(one: Client, other: Client, tell: Callable[[str], None]) -> bool:
    """Seek, play and be rated; `tell` gets the account line by line. False when the match was not rated in time."""
    tell("Two bots are seeking an opponent …")
    first, second = await _paired(one, other)
    began = time.monotonic()
    account, titled = Account(), False

    def hear(news: News) -> None:
        nonlocal titled
        if not titled:
            tell(f"Match {news.table.match_id}: {seats(news.table)}.")
            if news.table.round_no:
                tell(f"It was cut off before and goes on in round {news.table.round_no}.")
            tell(HEADER)
            titled = True
        for line in account.lines(news):
            tell(line)

    async with asyncio.TaskGroup() as group:
        if second is not None:
            group.create_task(play(other.play(second), greedy.choose))
        table = await play(one.play(first), greedy.choose, hear)
    for line in _result(table, account.rounds, time.monotonic() - began):
        tell(line)
    if not table.rated:
        return True
    decision = await _decision(one, table.match_id)
    if decision is None:
        tell(f"No rating decision after {_RATING_SECONDS_MAX:.0f} s.")
        return False
    for line in _rating(table, decision):
        tell(line)
    return True


async def _paired(one: Client, other: Client) -> tuple[MatchHandle, MatchHandle | None]:
    """The match of the first bot, and the other's: the same one, unless somebody else came between them."""
    seeking = asyncio.create_task(other.seek())
    try:
        first = await one.seek()
        # When they were paired with each other, the other one hears of it at the same moment.
        done, _ = await asyncio.wait([seeking], timeout=5)
        return first, seeking.result() if done else None
    finally:
        seeking.cancel()


def _result(table: TableState, rounds: int, seconds: float) -> list[str]:
    banks = table.banks_ms
    figures = [
        f"{table.players[seat].name} {table.balances[seat]} points, {minutes(banks[seat])} left"
        for seat in SEATS
    ]
    return ["", verdict(table), f"  {'; '.join(figures)}.", f"  {rounds} rounds in {seconds:.1f} s."]


async def _decision(client: Client, match_id: str) -> RatingDecision | None:
    """The rating decision; it is made a moment after the end. None when it does not come."""
    backoff = Backoff(longest_seconds=0.5)
    give_up = time.monotonic() + _RATING_SECONDS_MAX
    while time.monotonic() < give_up:
        try:
            return await client.rating_decision(match_id)
        except CallError as error:
            if error.reason not in ("NO_DECISION", "MATCH_LIVE"):
                raise
        await asyncio.sleep(backoff.next_seconds())
    return None


def _rating(table: TableState, decision: RatingDecision) -> list[str]:
    if not decision.rated:
        return [f"Not rated: {decision.reason.replace('_', ' ')}."]
    lines = ["Ratings (mean - 2 x uncertainty):"]
    for seat in SEATS:
        before, after = (
            (decision.north_before, decision.north_after)
            if seat is NORTH
            else (decision.south_before, decision.south_after)
        )
        change = shown(after) - shown(before)
        lines.append(
            f"  {table.players[seat].name:<10} {shown(before):>5} -> {shown(after):>5}  ({change:+})"
            f"   {before.mu:.0f} ± {before.sigma:.0f} -> {after.mu:.0f} ± {after.sigma:.0f}"
        )
    return lines


def shown(rating: Rating) -> int:
    """The shown rating, in whole points."""
    return int((rating.mu - 2 * rating.sigma) // 1)
