"""The ladder with a million players and ten million finished matches: what its questions and decisions take.

`python -m tests.bench.ladder [--players N] [--matches N] [--keep DIR]`. The data (`tests/bench/ladder_data.py`) is loaded
into a real PostgreSQL, some ten minutes at full size; with `--keep` it stays in that folder and is found there by the next
run. Each question is asked of the real functions on one connection, and again over gRPC of real processes; each decision
is a match that ends, decided with its commit on the disk. One question at a time, each about another player.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import asyncpg
import grpc

from client.bots import easy, greedy
from client.bots.player import play
from engine.seats import BySeat
from services.storage import archiving, ladder, matches, newsfeed, overview, standings, strengths
from services.storage.pool import Connection
from services.storage.sessions import session_settings
from services.storage.standings import LadderKey
from services.wire import pages
from spectacularbid.ladder.v1 import ladder_service_pb2 as pb
from spectacularbid.ladder.v1.ladder_service_pb2_grpc import LadderServiceStub
from spectacularbid.match.v1 import match_service_pb2 as match_pb
from tests.bench.ladder_data import SAME_SHOWN, Sizes, loaded
from tests.bench.report import Report
from tests.bench.usage import family_seconds, postmaster_of
from tests.stack import Player, Stack, stack

PLAYERS: Final = 1_000_000
MATCHES: Final = 10_000_000
TIMES: Final = 300
"""Each question is asked so often, after a few times that do not count."""
WARM: Final = 20
PAGE: Final = 100
"""Rows of a page: the most that anybody may ask for."""
EACH_WAY: Final = 50
"""The most neighbours that anybody may ask for."""
MANY: Final = 100_000
"""Matches of the player who has many, at least, where there is one."""
FEW: Final = 10
WITH_LOGS: Final = 100
"""How many of the newest matches of the player with many have their logs still, copied from a match that was played."""
GOAL_MS: Final = 20.0
POLL_SECONDS: Final = 0.004

Question = Callable[[], Awaitable[Any]]
Used = Callable[[], float]
"""Processor seconds until now."""


class Places:
    """Whom to ask about: players of each kind, in another order with each run."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self.at: dict[str, list[LadderKey]] = {}
        self.many = self.few = ""
        self.matches = 0
        """Of the player with many."""
        self.deep: list[int] = []
        """Numbers of matches in the middle of the history of the player with many."""

    def __call__(self, where: str) -> LadderKey:
        """One of those who are there."""
        return self._dice.choice(self.at[where])

    async def find(self, connection: Connection) -> None:
        """Look everybody up."""
        ranked = await connection.fetchval("select count(*) from rating where rated_matches > 0")
        for where, offset in (("top", 0), ("middle", ranked // 2), ("bottom", max(0, ranked - TIMES))):
            self.at[where] = await self._keys(
                connection, "order by shown desc, player_id offset $1 limit $2", offset
            )
        self.at["tie"] = await self._keys(
            connection,
            f"and shown = {SAME_SHOWN} and player_id > 'guest-' || $1 order by player_id limit $2",
            "8",
        )
        self.many, self.matches = await connection.fetchrow(
            """
            select player_id, rated_matches from rating
            order by least(rated_matches, $1) desc, rated_matches, player_id limit 1
            """,
            MANY,
        ) or ("", 0)
        self.few = await connection.fetchval(
            "select player_id from rating where rated_matches > 0 order by abs(rated_matches - $1), player_id limit 1",
            FEW,
        )
        numbers = await connection.fetch(
            """
            select ended_no from match_outcome join match using (match_id) where north = $1 or south = $1
            order by ended_no
            """,
            self.many,
        )
        middle = len(numbers) // 2
        self.deep = [row["ended_no"] for row in numbers[middle : middle + TIMES]]

    async def _keys(self, connection: Connection, rest: str, first: object) -> list[LadderKey]:
        query = f"select shown, player_id from rating where rated_matches > 0 {rest}"  # noqa: S608 - constants
        return [LadderKey(*row) for row in await connection.fetch(query, first, TIMES)]

    def number(self) -> int:
        """A number from the middle of the long history."""
        return self._dice.choice(self.deep)


def questions(connection: Connection, places: Places) -> dict[str, Question]:
    """Asked of the functions."""

    def page(where: str) -> Question:
        return lambda: standings.leaderboard(connection, places(where), PAGE + 1)

    def around(where: str) -> Question:
        return lambda: standings.neighbourhood(connection, places(where).player_id, EACH_WAY)

    def history(who: str, before: Callable[[], int | None]) -> Question:
        return lambda: standings.results(connection, who, before(), PAGE + 1)

    return {
        "leaderboard, first page": lambda: standings.leaderboard(connection, None, PAGE + 1),
        "leaderboard, middle": page("middle"),
        "leaderboard, among equals": page("tie"),
        "leaderboard, last pages": page("bottom"),
        "around a player, top": around("top"),
        "around a player, middle": around("middle"),
        "around a player, among equals": around("tie"),
        "around a player, bottom": around("bottom"),
        "around a player, unranked": lambda: standings.neighbourhood(connection, "nobody", EACH_WAY),
        "profile": lambda: standings.standing(connection, places("middle").player_id),
        "history with ratings, many matches, newest": history(places.many, lambda: None),
        "history with ratings, many matches, middle": history(places.many, places.number),
        "history with ratings, few matches": history(places.few, lambda: None),
        "own matches, many": lambda: matches.list_matches(
            connection, places.many, live_only=False, before=None, limit=PAGE + 1
        ),
        "live matches of a player with many": lambda: matches.list_matches(
            connection, places.many, live_only=True, before=None, limit=PAGE + 1
        ),
        "strength for pairing": lambda: strengths.strength_of(connection, places.many),
    }


def calls(made: Stack, reader: Player, places: Places) -> dict[str, Question]:
    """The same over gRPC."""
    stub, metadata = LadderServiceStub(made.channel("matchmaking")), reader.metadata

    def page(key: Callable[[], LadderKey | None]) -> Question:
        def ask() -> Awaitable[Any]:
            token = pages.ladder_token(found) if (found := key()) else ""
            request = pb.GetLeaderboardRequest(page_size=PAGE, page_token=token)
            return stub.GetLeaderboard(request, metadata=metadata)

        return ask

    def around(where: str) -> Question:
        return lambda: stub.GetNeighbourhood(
            pb.GetNeighbourhoodRequest(player_id=places(where).player_id, each_way=EACH_WAY),
            metadata=metadata,
        )

    def history(who: str, token: Callable[[], str]) -> Question:
        return lambda: stub.ListMatches(
            pb.ListMatchesRequest(player_id=who, page_size=PAGE, page_token=token()), metadata=metadata
        )

    mine = Player(places.many, made.token(places.many))
    return {
        "leaderboard, first page": page(lambda: None),
        "leaderboard, middle": page(lambda: places("middle")),
        "leaderboard, among equals": page(lambda: places("tie")),
        "leaderboard, last pages": page(lambda: places("bottom")),
        "around a player, top": around("top"),
        "around a player, middle": around("middle"),
        "around a player, among equals": around("tie"),
        "around a player, bottom": around("bottom"),
        "around a player, unranked": lambda: stub.GetNeighbourhood(
            pb.GetNeighbourhoodRequest(each_way=EACH_WAY), metadata=metadata
        ),
        "profile": lambda: stub.GetPlayer(
            pb.GetPlayerRequest(player_id=places("middle").player_id), metadata=metadata
        ),
        "history with ratings, many matches, newest": history(places.many, str),
        "history with ratings, many matches, middle": history(
            places.many, lambda: pages.results_token(places.number())
        ),
        "history with ratings, few matches": history(places.few, str),
        "own matches, many": lambda: made.matches().ListMyMatches(
            match_pb.ListMyMatchesRequest(page_size=PAGE), metadata=mine.metadata
        ),
    }


async def timed(ask: Question, times: int, used: Used) -> list[float]:
    """What a row of the tables says of a question: p50, p95, p99 and the most, then the processor time of each, in ms."""
    spent, warm, before = [], min(WARM, times), 0.0
    for number in range(-warm, times):
        if number == 0:
            before = used()
        began = time.perf_counter()
        await ask()
        if number >= 0:
            spent.append((time.perf_counter() - began) * 1000)
    return [*percentiles(spent), (used() - before) * 1000 / times]


def percentiles(spent: Sequence[float]) -> list[float]:
    """p50, p95, p99 and the most."""
    ordered = sorted(spent)
    return [ordered[min(len(ordered) - 1, len(ordered) * each // 100)] for each in (50, 95, 99, 100)]


def ended_seconds(pid: int) -> float:
    """Processor time of the children of a process that have ended, such as vacuum's."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(") ")[2].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


async def end_match(connection: Connection, north: str, south: str) -> str:
    """A rated match that ends in this very moment."""
    match_id = uuid.uuid4()
    async with connection.transaction():
        await connection.execute(
            """
            insert into match (match_id, mode, rated, north, south, bank_ns, delay_ns, start_limit_ns, continue_limit_ns)
            values ($1, 'rated', true, $2, $3, 120000000000, 10000000000, 60000000000, 30000000000)
            """,
            *(match_id, north, south),
        )
        await connection.execute(
            "insert into match_owner (match_id, engine_id, fence, released_at) values ($1, 'game', 1, now())",
            match_id,
        )
        await connection.execute(
            """
            insert into match_outcome (match_id, winner, cause, fence, north_balance, south_balance)
            values ($1, 'north', 'resignation', 1, 150, 150)
            """,
            match_id,
        )
    return str(match_id)


async def decision(connection: Connection, places: Places, times: int) -> Question:
    """Decide about one more match, as the worker does: what waits is looked for, and decided with its commit."""
    for left in await ladder.undecided(connection, after=0, limit=1000):
        await ladder.decide(connection, left)
    for _ in range(WARM + times):
        await end_match(connection, places("middle").player_id, places("top").player_id)

    async def decide() -> None:
        first, *_ = await ladder.undecided(connection, after=0, limit=100)
        assert await ladder.decide(connection, first) == "rated"

    return decide


async def heard(
    made: Stack, connection: Connection, reader: Player, places: Places, times: int
) -> list[float]:
    """From the commit of an outcome until the decision can be read over gRPC: the percentiles."""
    stub, spent = LadderServiceStub(made.channel("matchmaking")), []
    for _ in range(times):
        match_id = await end_match(connection, places("middle").player_id, places("top").player_id)
        began = time.perf_counter()
        while True:
            try:
                await stub.GetRatingDecision(
                    pb.GetRatingDecisionRequest(match_id=match_id), metadata=reader.metadata
                )
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.NOT_FOUND:
                    raise
                # A player may not ask all the time.
                await asyncio.sleep(POLL_SECONDS)
            else:
                break
        spent.append((time.perf_counter() - began) * 1000)
    return percentiles(spent)


async def put_logs(made: Stack, many: str) -> None:
    """Give the newest matches of a player their logs back: that of a match that two bots play now."""
    north, south = await made.players(2)
    dice = random.Random(1)
    one, other = await made.client(north), await made.client(south)
    match_id = await made.create(BySeat(north, south))
    await asyncio.gather(
        play(one.play(match_id), greedy.choose),
        play(other.play(match_id), lambda table: easy.choose(table, dice)),
    )
    columns = [
        row["name"]
        for row in await made.pool.fetch(
            """
            select attname::text as name from pg_attribute
            where attrelid = 'match_log'::regclass and attnum > 0 and not attisdropped and attname <> 'match_id'
            """
        )
    ]
    names = ", ".join(columns)
    newest = [
        row["match_id"]
        for row in await made.pool.fetch(
            """
            select match_id from match join match_outcome using (match_id)
            where (north = $1 or south = $1) order by created_at desc limit $2
            """,
            many,
            WITH_LOGS,
        )
    ]
    await made.pool.execute("delete from match_archive where match_id = any($1::uuid[])", newest)
    await made.pool.execute(
        f"""
        insert into match_log (match_id, {names})
        select n.match_id, {names.replace("events", "l.events")}
        from match_log l cross join unnest($2::uuid[]) as n (match_id)
        where l.match_id = $1 and not exists (select from match_log x where x.match_id = n.match_id)
        """,  # noqa: S608 - names of columns
        *(uuid.UUID(match_id), newest),
    )
    # As this release keeps it with the decision.
    await made.pool.execute(
        """
        update rating_decision d set match_rounds = l.rounds, match_turns = l.turns, match_dealt_at = l.dealt_at
        from unnest($1::uuid[]) as n (match_id) cross join lateral match_length(n.match_id) l
        where d.match_id = n.match_id
        """,
        newest,
    )


async def whole(connection: Connection) -> list[tuple[str, float]]:
    """What looks at much: once each, in seconds."""

    async def candidates() -> None:
        after = 0
        while some := await archiving.candidates(connection, days=1, after=after, limit=200):
            after = some[-1].ended_no

    async def news() -> None:
        await newsfeed.stored_since(connection, (await newsfeed.stored_since(connection, None)).snapshot)

    found = []
    for what, ask in (
        ("operators' overview", lambda: overview.look(connection)),
        ("operators' news since the last look", news),
        ("looking for logs to be archived, when nearly all are", candidates),
    ):
        began = time.perf_counter()
        await ask()
        found.append((what, time.perf_counter() - began))
    return found


async def measure(report: Report, url: str, postmaster: int, folder: Path, times: int) -> None:
    """Everything."""
    connection = await asyncpg.connect(url, server_settings=session_settings("matchmaking", "bench"))
    places = Places(random.Random())
    await connection.execute("set statement_timeout = 0")
    report.progress("looking up whom to ask about")
    await places.find(connection)
    report.note(f"whoever has many matches has {places.matches:,}")
    columns = ("question", "p50 ms", "p95 ms", "p99 ms", "most ms", "processor ms")
    slowest = {}

    def row(what: str, found: Sequence[float]) -> tuple[str | float | None, ...]:
        slowest[what] = found[2]
        return (what, *found, *([None] * (len(columns) - 1 - len(found))))

    def server() -> float:
        return family_seconds(postmaster) + ended_seconds(postmaster)

    # One player asks here, as fast as it is answered.
    unlimited = {"PLAYER_CALLS_PER_SECOND": "1000000"}
    async with stack(folder, url, {"matchmaking": unlimited, "game": unlimited}) as made:
        began = time.perf_counter()
        await put_logs(made, places.many)
        report.progress(f"logs of {WITH_LOGS} matches: {time.perf_counter() - began:.0f} s")
        reader = Player("reader", made.token("reader"))
        await asyncio.sleep(1)
        services = [process.pid for process in made.processes.values()]

        def everybody() -> float:
            return server() + sum(map(family_seconds, services))

        rows = []
        for what, ask in calls(made, reader, places).items():
            report.progress(what)
            rows.append(row(what, await timed(ask, times, everybody)))
        spent = await heard(made, connection, reader, places, times)
        rows.append(row("decision, from the match's end until it is read", spent))
        report.table("Over gRPC, processor time of the services and PostgreSQL", columns, rows)
    rows = []
    asked = questions(connection, places)
    asked["rating decision with its commit"] = await decision(connection, places, times)
    for what, ask in asked.items():
        rows.append(
            row(f"{what} (function)", await timed(ask, times, lambda: time.process_time() + server()))
        )
    report.table("Of the functions, processor time of both ends of the connection", columns, rows)
    report.table("Once each", ("what", "seconds"), await whole(connection))
    worst = max(slowest, key=lambda what: slowest[what])
    report.note(f"the slowest p99 is {slowest[worst]:.1f} ms ({worst}); the goal is {GOAL_MS:.0f} ms")
    await connection.close()


def main() -> None:
    """Loads, measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--players", type=int, default=PLAYERS)
    parser.add_argument("--matches", type=int, default=MATCHES)
    parser.add_argument("--times", type=int, default=TIMES)
    parser.add_argument("--keep", type=Path, help="where the data stays, and is found again")
    options = parser.parse_args()
    report = Report("ladder")
    with ExitStack() as exits:
        temporary = Path(exits.enter_context(tempfile.TemporaryDirectory(prefix="spectacular-bid-bench-")))
        sizes = Sizes(options.players, options.matches)
        data = options.keep or temporary / "data"
        server = exits.enter_context(loaded(data, sizes, report.progress))
        report.note(
            f"{sizes.players:,} players, {sizes.matches:,} finished rated matches; commits wait for the disk"
        )
        asyncio.run(measure(report, server.url, postmaster_of(data), temporary, options.times))
    report.finish()


if __name__ == "__main__":
    main()
