"""Random results, rulings, incidents, workers and crashes: the stored ladder is always the fold of what counts."""

from __future__ import annotations

import asyncio
import os
import random
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from matchmaker.ladder import Action
from services.storage import holds, ladder, ladderaudit, rulings
from services.storage.incidents import Incident, Kind, put_incidents
from services.storage.pool import TRANSIENT, Connection
from services.storage.refold import Summary
from services.storage.rulings import RefusedError, Ruling
from tests.services.storage.results import Fate, Finished, fold, mortal, put_result, reasons, stored

PLAYERS = [f"player-{number}" for number in range(6)]
ENGINES = ["game-0", "game-1", "game-2"]
ALLOWED = {
    ("", "hold"): "hold",
    ("", "reverse"): "reverse",
    ("release", "hold"): "hold",
    ("release", "reverse"): "reverse",
    ("hold", "release"): "release",
    ("hold", "reverse"): "reverse",
    ("reverse", "hold"): "hold",
}
"""What may be ruled after what."""


class World:
    """A ladder that things happen to, and what must have come of them."""

    def __init__(self, url: str, connection: Connection, seed: int) -> None:
        self.url = url
        self.connection = connection
        self.random = random.Random(seed)
        self.results: list[Finished] = []
        self.broken: set[str] = set()
        """Game processes whose results by time are held from some moment on."""
        self.deaths = self.refused = self.made = self.late = 0

    async def result(self) -> None:
        north, south = self.random.sample(PLAYERS, 2)
        winner, cause = self.random.choice(
            [
                ("north", "balance"),
                ("south", "resignation"),
                ("north", "time"),
                ("south", "time"),
                (None, "void"),
            ]
        )
        self.results.append(
            await put_result(
                self.connection,
                north,
                south,
                winner,
                cause,
                rated=self.random.random() < 0.9,
                engine=self.random.choice(ENGINES),
            )
        )

    async def incident(self) -> None:
        """Its window is long: everything by time on this process is doubtful, whether it is rated already or not."""
        engine = self.random.choice(ENGINES)
        if len(self.broken) == 2 or engine in self.broken:
            return
        self.broken.add(engine)
        incident = Incident.lasting(
            Kind.MASS_DISCONNECT, "game", 3600 * 10**9, "v1", engine_id=engine, ended_at=None
        )
        await put_incidents(self.connection, [incident])

    async def look(self, connection: Connection) -> None:
        """What a worker does, in whatever order the numbers came to it."""
        waiting = await ladder.undecided(connection, after=0, limit=100)
        if waiting and self.random.random() < 0.3:
            # As if earlier ones had been committed later.
            self.late += 1
            waiting = waiting[len(waiting) // 2 :]
        for ended in waiting:
            await ladder.decide(connection, ended)
        for holding in await holds.holdings(connection):
            await rulings.hold_overlooked(connection, holding.incident_id)

    async def look_and_die(self) -> None:
        connection = await mortal(Fate(self.url, self.random.randrange(1, 60), self.random.random() < 0.5))
        try:
            await self.look(connection)
        except TRANSIENT:
            self.deaths += 1
        finally:
            connection.terminate()

    async def looks(self) -> None:
        await asyncio.gather(*(self.look_and_die() for _ in range(self.random.randrange(1, 4))))

    async def rule(self, action: Action) -> None:
        await self.learn_holds()
        named = self.random.sample(self.results, min(len(self.results), self.random.randrange(1, 4)))
        ruling = Ruling("ada", "a test", action=action)
        allowed = all(
            result.rated and result.winner and (result.ruled, action.value) in ALLOWED for result in named
        )
        outcome = await self._rule_and_die(ruling, [result.match_id for result in named])
        stored = await self.connection.fetchval(
            "select exists (select from rating_ruling where ruling_id = $1)", ruling.ruling_id
        )
        if outcome == "made":
            assert stored
        elif outcome == "refused":
            assert not stored
            assert not allowed
            self.refused += 1
        if stored:
            assert allowed
            self.made += 1
            for result in named:
                result.ruled = ALLOWED[result.ruled, action.value]

    async def _rule_and_die(self, ruling: Ruling, match_ids: list[UUID]) -> str:
        connection = await mortal(Fate(self.url, self.random.randrange(1, 40), self.random.random() < 0.5))

        async def work() -> Summary:
            return await rulings.make_ruling(connection, ruling, match_ids)

        # Workers decide meanwhile; they wait for each other.
        made, _ = await asyncio.gather(work(), self.look_and_die(), return_exceptions=True)
        connection.terminate()
        if isinstance(made, RefusedError):
            return "refused"
        if isinstance(made, TRANSIENT):
            self.deaths += 1
            return "unknown"
        assert isinstance(made, Summary), made
        return "made"

    def doubtful(self, result: Finished) -> bool:
        return result.rated and result.cause == "time" and result.engine in self.broken and not result.ruled

    async def learn_holds(self) -> None:
        """What the service has held by itself: only what it may."""
        rows = await self.connection.fetch(
            "select match_id from rating_ruled join rating_ruling using (ruling_id) where automatic"
        )
        held = {row["match_id"] for row in rows}
        for result in self.results:
            if result.match_id in held and not result.ruled:
                assert self.doubtful(result)
                result.ruled = "hold"

    async def check(self) -> None:
        """Everything is decided, and the ladder is what it must be."""
        # Once at least: an incident may have become known since the last look.
        await self.look(self.connection)
        while await ladder.undecided(self.connection, after=0, limit=1):
            await self.look(self.connection)
        await self.learn_holds()
        assert not [result for result in self.results if self.doubtful(result)]
        assert await reasons(self.connection) == {result.match_id: result.reason for result in self.results}
        assert await stored(self.connection) == fold(self.results)
        audit = await ladderaudit.check(self.connection)
        assert (audit.differences, audit.matches, audit.undecided) == ([], len(self.results), 0)
        # As many revisions are kept as the decision says that there were.
        rows = await self.connection.fetch(
            """
            select d.revision, (select array_agg(r.revision order by r.revision) from rating_revision r
                                where r.match_id = d.match_id) as kept from rating_decision d
            """
        )
        assert all((row["kept"] or []) == list(range(1, row["revision"])) for row in rows)


# More of them at will: LADDER_SEEDS=100.
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(int(os.environ.get("LADDER_SEEDS", "2"))))
async def test_whatever_happens_the_stored_ladder_is_the_fold(database_url: str, seed: int) -> None:
    connection = await asyncpg.connect(database_url)
    world = World(database_url, connection, seed)
    steps: list[tuple[int, Any]] = [
        (50, world.result),
        (25, world.looks),
        (2, world.incident),
        (1, world.check),
        (5, lambda: world.rule(Action.HOLD)),
        (10, lambda: world.rule(Action.RELEASE)),
        (7, lambda: world.rule(Action.REVERSE)),
    ]
    try:
        await world.result()
        for _ in range(100):
            (step,) = world.random.choices([step for _, step in steps], [weight for weight, _ in steps])
            await step()
        await world.check()
    finally:
        await connection.close()
    # The seeds are such that all of it happens.
    assert min(world.deaths, world.refused, world.made, world.late) > 0
