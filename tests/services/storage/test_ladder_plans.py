"""What is asked of a large ladder reads about as many rows as the answer has, by the indexes that are there for it."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import asyncpg
import pytest

from services.storage import archiving, ladder, overview
from services.storage.pool import Connection
from tests.bench.ladder import PAGE, Places, end_match, questions
from tests.bench.ladder_data import Sizes, fill

SIZES: Final = Sizes(players=1_000, matches=6_000)
"""Small for a ladder, and many times what any answer has. One player has about a thousand matches."""
ROWS_MAX: Final = 2 * (PAGE + 1)
"""Of one scan: a page of one more than fits, of the matches of either seat."""
COUNTS: Final = "rating_count"
"""Read as a whole: there are as many rows as different ratings, not as many as players."""

INDEXES: Final = {
    "leaderboard, first page": {"rating_shown"},
    "leaderboard, middle": {"rating_shown"},
    "leaderboard, among equals": {"rating_shown"},
    "leaderboard, last pages": {"rating_shown"},
    "around a player, top": {"rating_shown", "rating_pkey"},
    "around a player, middle": {"rating_shown", "rating_pkey"},
    "around a player, among equals": {"rating_shown", "rating_pkey"},
    "around a player, bottom": {"rating_shown", "rating_pkey"},
    "around a player, unranked": {"rating_pkey"},
    "profile": {"player_pkey", "rating_pkey"},
    "history with ratings, many matches, newest": {"match_north", "match_south", "rating_decision_pkey"},
    "history with ratings, many matches, middle": {"match_north", "match_south", "match_outcome_order"},
    "history with ratings, few matches": {"match_north", "match_south", "match_outcome_pkey"},
    "own matches, many": {"match_north", "match_south"},
    "live matches of a player with many": {"live_seat_pkey"},
    "strength for pairing": {"match_north", "match_south"},
}


class Watched:
    """A connection that also notes the plan of each question."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.plans: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        asked = getattr(self._connection, name)
        if name not in ("fetch", "fetchrow", "fetchval"):
            return asked

        async def ask(query: str, *args: Any) -> Any:
            if (
                query.split(maxsplit=1)[0].lower() in ("select", "with", "(select")
                and "for update" not in query
            ):
                plan = await self._connection.fetchval(f"explain (analyze, format json) {query}", *args)
                self.plans.append((" ".join(query.split()), json.loads(plan)[0]["Plan"]))
            return await asked(query, *args)

        return ask

    def scans(self) -> Iterator[tuple[str, str | None, float]]:
        """Each scan of a table: its name, that of the index, and how many rows were read."""
        for _, plan in self.plans:
            yield from _scans(plan)


def _scans(node: dict[str, Any]) -> Iterator[tuple[str, str | None, float]]:
    if "Relation Name" in node or "Index Name" in node:
        kept = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        yield node.get("Relation Name", ""), node.get("Index Name"), kept * node["Actual Loops"]
    for part in node.get("Plans", ()):
        yield from _scans(part)


@dataclass(frozen=True)
class Large:
    """A database with a large ladder, and whom to ask about."""

    url: str
    places: Places


@pytest.fixture(scope="module")
def large_ladder(new_database: Callable[[], str]) -> Large:
    made = Large(new_database(), Places(random.Random(7)))

    async def make() -> None:
        connection = await asyncpg.connect(made.url)
        await fill(connection, SIZES, lambda _: None)
        await made.places.find(connection)
        await connection.close()

    asyncio.run(make())
    return made


@pytest.fixture
async def connection(large_ladder: Large) -> AsyncIterator[Connection]:
    # Small tables are read as a whole where that is cheaper: what is asked here is whether there is another way.
    off = dict.fromkeys(("enable_seqscan", "enable_hashjoin", "enable_mergejoin"), "off")
    made = await asyncpg.connect(large_ladder.url, server_settings=off)
    yield made
    await made.close()


def check(watched: Watched, indexes: set[str], rows_max: float = ROWS_MAX) -> None:
    """By these indexes, and no scan of more rows."""
    scans = list(watched.scans())
    assert scans
    assert indexes <= {index for _, index, _ in scans}, watched.plans
    large = [
        scan for scan in scans if scan[2] > rows_max and scan[0] != COUNTS and scan[1] != f"{COUNTS}_shown"
    ]
    assert not large, watched.plans


@pytest.mark.parametrize("question", INDEXES)
async def test_a_question_to_a_large_ladder_reads_what_it_answers(
    connection: Connection, large_ladder: Large, question: str
) -> None:
    assert large_ladder.places.matches > 3 * ROWS_MAX
    watched = Watched(connection)
    await questions(watched, large_ladder.places)[question]()  # type: ignore[arg-type]
    check(watched, INDEXES[question])


def test_every_question_of_the_benchmark_has_its_indexes_here() -> None:
    assert set(questions(None, Places(random.Random(7)))) == set(INDEXES)  # type: ignore[arg-type]


async def test_a_decision_in_a_large_ladder_reads_a_few_rows(connection: Connection) -> None:
    """From looking for what waits, as a new leader does, to the decision."""
    one, other = await connection.fetch("select player_id from rating order by rated_matches desc limit 2")
    await end_match(connection, one["player_id"], other["player_id"])
    watched = Watched(connection)
    (ended,) = await ladder.undecided(watched, after=0, limit=100)  # type: ignore[arg-type]
    assert await ladder.decide(watched, ended) == "rated"  # type: ignore[arg-type]
    check(watched, {"rating_due_pkey", "match_outcome_pkey", "rating_decision_pkey"}, rows_max=10)
    assert await ladder.undecided(connection, after=0, limit=100) == []


async def test_what_operators_see_first_does_not_grow_with_the_history(connection: Connection) -> None:
    watched = Watched(connection)
    await overview.look(watched)  # type: ignore[arg-type]
    check(watched, {"match_outcome_order", "match_outcome_time"}, overview.OUTCOMES_LOOKED_AT)


async def test_logs_to_be_moved_are_looked_for_in_parts(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archiving, "NUMBERS_AT_ONCE", 1_000)
    watched = Watched(connection)
    assert await archiving.candidates(watched, days=1, after=0, limit=200) == []  # type: ignore[arg-type]
    check(watched, {"match_outcome_order"}, rows_max=1_000)
    assert len(watched.plans) > SIZES.matches // 1_000
