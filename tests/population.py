"""Seekers by the hundred on real processes, and what became of each of them, as the database has it.

Two processes of matchmaking (a leader and a standby), clock, game process and PostgreSQL are real; each seeker is a
client of the library with a connection of its own. Some cancel at random moments, and leaders are killed.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import asyncpg

from client.errors import CallError
from client.session import Client, MatchHandle
from tests.proxy import Proxy
from tests.stack import HOST, Player, Stack

PROCESSES: Final = ("matchmaking", "matchmaking-1")
SECONDS_MAX: Final = 120.0
"""How long anything may take before it counts as never."""


@dataclass
class Seeker:
    """One player who seeks once, and perhaps thinks better of it."""

    player: Player
    waited: float = 0.0
    """From seeking to being told, in seconds."""
    match: MatchHandle | None = None
    seek_ended: str = ""
    """The reason with which the seek ended, when it ended without a match."""
    cancelled: bool = False
    """Whether the cancel was answered with OK."""

    async def seek(self, addresses: str) -> None:
        """Seeks until there is an answer."""
        began = time.monotonic()
        async with Client(addresses, self.player.token, patience_seconds=SECONDS_MAX) as client:
            try:
                self.match = await client.seek()
            except CallError as error:
                self.seek_ended = error.reason
            self.waited = time.monotonic() - began

    async def seek_and_cancel(self, addresses: str, after_seconds: float) -> None:
        """Seeks, and cancels after a while, whatever is going on then."""
        seeking = asyncio.create_task(self.seek(addresses))
        await asyncio.sleep(after_seconds)
        async with Client(addresses, self.player.token, patience_seconds=SECONDS_MAX) as client:
            while not seeking.done():
                try:
                    await client.cancel_seek()
                except CallError as error:
                    if error.reason == "ALREADY_MATCHED":
                        break
                    if error.reason != "NO_SEEK":
                        raise
                    # Not open yet, or the answer to a cancel that worked was lost with the leader.
                    await asyncio.sleep(0.05)
                else:
                    self.cancelled = True
                    break
        await seeking


@dataclass
class Report:
    """What a population saw."""

    seekers: list[Seeker] = field(default_factory=list)
    seconds: float = 0.0
    """From the first seek to the last answer."""
    kills: int = 0
    recovered: list[float] = field(default_factory=list)
    """From each kill to the next match made, in seconds; where leaders are killed again and again, to the answer of the
    last of those who waited."""
    told_early: int = 0
    """Matches whose players were told before a game process had confirmed them."""
    faults: list[str] = field(default_factory=list)
    """What is not as it must be."""

    @property
    def matched(self) -> list[Seeker]:
        """Those who were told a match."""
        return [seeker for seeker in self.seekers if seeker.match is not None]

    @property
    def cancelled(self) -> int:
        """How many seeks ended by being cancelled."""
        return sum(seeker.seek_ended == "SEEK_CANCELLED" for seeker in self.seekers)


class Town:
    """The processes, and which of those of matchmaking leads."""

    def __init__(self, stack: Stack, proxy: Proxy) -> None:
        self.stack = stack
        self._proxy = proxy
        self.leader = PROCESSES[0]
        self.report = Report()

    @property
    def addresses(self) -> str:
        """What clients are told."""
        return ",".join(self.stack.address(name) for name in PROCESSES)

    def follow_leader(self) -> None:
        """Game processes find who leads, as they would behind a balancer that looks at readiness."""
        self._proxy.aim((HOST, self.stack.ports[self.leader.replace("matchmaking", "placement")]))

    async def kill_leader(self) -> None:
        """SIGKILL for the one that leads; the other leads then, and the dead one comes back as its standby."""
        dead = self.leader
        (heir,) = (name for name in PROCESSES if name != dead)
        killed_at = await self.stack.pool.fetchval("select clock_timestamp()")
        self.stack.processes[dead].kill()
        self.report.kills += 1
        self.leader = heir
        await self.stack.processes[heir].event("lead_taken", seconds_max=SECONDS_MAX)
        self.follow_leader()
        self.report.told_early += _told_early(self.stack, dead)
        self._killed_at = killed_at
        await self.stack.launch(dead)

    async def next_match(self) -> None:
        """Wait for the first match after the last kill."""
        async with asyncio.timeout(SECONDS_MAX):
            while True:
                seconds = await self.stack.pool.fetchval(
                    "select extract(epoch from min(created_at) - $1)::float8 from match where created_at > $1",
                    self._killed_at,
                )
                if seconds is not None:
                    self.report.recovered.append(seconds)
                    return
                await asyncio.sleep(0.05)


def _told_early(stack: Stack, name: str) -> int:
    return sum(
        line["event"] == "match_told_before_placed"
        for line in stack.processes[name].events()
        if "event" in line
    )


@asynccontextmanager
async def town(folder: Path, database_url: str) -> AsyncIterator[Town]:
    """Everything is up: one leads, one stands by, the game process is registered."""
    async with AsyncExitStack() as exits:
        pool = await exits.enter_async_context(asyncpg.create_pool(database_url, min_size=1, max_size=4))
        made = Stack(folder, database_url, exits, _pool=pool)
        proxy = await exits.enter_async_context(Proxy(HOST, 0))
        made.extra["game"] = {"MATCHMAKING_ADDRESS": proxy.address, "CAPACITY": "100000"}
        for name in PROCESSES:
            made.address(name.replace("matchmaking", "placement"))
        found = Town(made, proxy)
        found.follow_leader()
        await made.start("clock", "matchmaking")
        await made.launch("matchmaking-1")
        await made.processes["matchmaking-1"].event("listening")
        await made.start("game")
        await made.processes["game"].event("placement_registered")
        yield found


async def rush(
    town: Town, seekers: int, *, seed: int, cancel: float, kill: bool, spread_seconds: float
) -> Report:
    """So many seek within `spread_seconds`; a share of them cancels within about that time; the leader is killed when
    a random part of the matches is made."""
    chance = random.Random(seed)
    report = town.report = Report([Seeker(player) for player in await town.stack.players(seekers)])
    before = await _matches(town)
    began = time.monotonic()

    async def one(seeker: Seeker, arrives: float, cancels: float | None) -> None:
        await asyncio.sleep(arrives)
        if cancels is None:
            await seeker.seek(town.addresses)
        else:
            await seeker.seek_and_cancel(town.addresses, cancels)

    async def strike() -> None:
        wanted = chance.uniform(0.1, 0.7) * seekers / 2
        while await _matches(town) - before < wanted:  # noqa: ASYNC110 - the event is in the database
            await asyncio.sleep(0.02)
        await town.kill_leader()
        await town.next_match()

    tasks = [
        asyncio.create_task(
            one(
                seeker,
                chance.uniform(0, spread_seconds),
                chance.expovariate(1 / max(0.1, spread_seconds / 4)) if chance.random() < cancel else None,
            )
        )
        for seeker in report.seekers
    ]
    striking = asyncio.create_task(strike()) if kill else None
    await _all_answered(town, report, tasks)
    report.seconds = time.monotonic() - began
    if striking is not None:
        await striking
    report.told_early += _told_early(town.stack, town.leader)
    report.faults = await faults(town.stack, report, before)
    return report


async def kills(town: Town, times: int, *, seed: int, batch: int) -> Report:
    """The leader is killed so often, each time at a random moment while it makes the matches of a batch; the next one
    has to bring that batch to its end."""
    chance = random.Random(seed)
    report = town.report = Report()
    before = await _matches(town)
    began = time.monotonic()
    for _ in range(times):
        arriving = [Seeker(player) for player in await town.stack.players(batch)]
        report.seekers += arriving
        made = await _matches(town)
        tasks = [asyncio.create_task(seeker.seek(town.addresses)) for seeker in arriving]
        # A leader that makes no matches is not what is looked for.
        while await _matches(town) == made and not all(task.done() for task in tasks):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.005)
        await asyncio.sleep(chance.uniform(0, 0.1))
        struck = time.monotonic()
        await town.kill_leader()
        await _all_answered(town, report, tasks)
        report.recovered.append(time.monotonic() - struck)
    report.seconds = time.monotonic() - began
    report.told_early += _told_early(town.stack, town.leader)
    report.faults = await faults(town.stack, report, before)
    return report


async def _all_answered(town: Town, report: Report, tasks: list[asyncio.Task[None]]) -> None:
    """Everybody has an answer; of an odd number the last one gets a partner."""
    try:
        async with asyncio.timeout(SECONDS_MAX):
            pending = set(tasks)
            while pending:
                done, pending = await asyncio.wait(pending, timeout=1.0)
                for task in done:
                    task.result()
                if len(pending) == 1 and await town.stack.pool.fetchval("select count(*) from seek") == 1:
                    (player,) = await town.stack.players(1)
                    report.seekers.append(Seeker(player))
                    pending.add(asyncio.create_task(report.seekers[-1].seek(town.addresses)))
                    tasks.append(next(iter(pending)))
    except TimeoutError:
        report.faults.append("somebody was not answered")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _matches(town: Town) -> int:
    return int(await town.stack.pool.fetchval("select count(*) from match"))


async def faults(stack: Stack, report: Report, matches_before: int) -> list[str]:
    """Everything that is not as it must be: each seeker is in exactly one match, or has cancelled and is in none."""
    found = list(report.faults)
    ids = [seeker.player.player_id for seeker in report.seekers]
    rows = await stack.pool.fetch(
        """
        select m.match_id::text, m.north, m.south, x.match_id is not null as over,
               (select count(*) from live_seat s where s.match_id = m.match_id) as seats
        from match m left join match_outcome x using (match_id)
        where m.north = any($1) or m.south = any($1)
        """,
        ids,
    )
    places = Counter(player for row in rows for player in (row["north"], row["south"]))
    by_id = {row["match_id"]: row for row in rows}
    for seeker in report.seekers:
        name, matches = seeker.player.player_id, places[seeker.player.player_id]
        if seeker.match is not None:
            row = by_id.get(seeker.match.match_id)
            if row is None or row[seeker.match.seat.value] != name:
                found.append(f"{name} was told a match that is not there, or another seat")
            if matches != 1:
                found.append(f"{name} was told a match and is in {matches}")
            if seeker.cancelled:
                found.append(f"{name} was told that the seek was cancelled, and a match")
        elif seeker.seek_ended == "SEEK_CANCELLED":
            if matches:
                found.append(f"{name} has cancelled and is in {matches} matches")
        else:
            found.append(f"{name} was lost: {seeker.seek_ended or 'no answer'}, in {matches} matches")
    for row in rows:
        if row["north"] == row["south"]:
            found.append(f"{row['match_id']} is against oneself")
        if not row["over"] and row["seats"] != 2:
            found.append(f"{row['match_id']} is live with {row['seats']} seats")
    told = len(report.matched)
    made = int(await stack.pool.fetchval("select count(*) from match")) - matches_before
    if 2 * made != told:
        found.append(f"{made} matches were made and {told} players told")
    left = int(await stack.pool.fetchval("select count(*) from seek"))
    if left:
        found.append(f"{left} seeks are open that nobody has")
    unowned = int(
        await stack.pool.fetchval(
            "select count(*) from match m where not exists (select from match_owner o where o.match_id = m.match_id)"
        )
    )
    if unowned:
        found.append(f"{unowned} matches belong to no game process")
    return found


def percentile(values: list[float], percent: float) -> float:
    """The value that so many of a hundred do not exceed; 0 of nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] if ordered else 0.0
