"""The report on voids: who is far above the others, and who only looks like it."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import asyncpg
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from typer.testing import CliRunner

from engine.clock import SECOND
from matchmaker.chance import at_least
from services.ops.__main__ import app
from services.ops.voids import rate
from services.storage.incidents import Effect, Incident, Kind, Touched, put_incidents, put_touched
from services.storage.pool import Connection
from services.storage.voids import PlayerVoids, VoidFacts, get_void_facts
from tests.services.storage.results import put_result

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


@given(st.integers(0, 12), st.integers(0, 12), st.integers(0, 12), st.integers(0, 12))
@example(5, 1, 6, 1)
def test_the_chance_is_that_of_drawing_matches_blindly(a: int, b: int, drawn: int, wanted: int) -> None:
    """Against counting: so many of all the ways to draw have so many or more of the void matches."""
    marked, among = a, a + b
    drawn = min(drawn, among)
    ways = sum(
        math.comb(marked, hit) * math.comb(among - marked, drawn - hit)
        for hit in range(wanted, drawn + 1)
        if hit <= marked and drawn - hit <= among - marked
    )
    exact = Fraction(ways, math.comb(among, drawn))
    assert at_least(wanted, drawn=drawn, marked=marked, among=among) == pytest.approx(float(exact), abs=1e-12)


def facts(matches: int, *players: tuple[int, int], operators: int = 0) -> VoidFacts:
    """Players with so many matches and voids; each has `operators` declared voids besides."""
    told = tuple(
        PlayerVoids(
            f"p{n}",
            f"p{n}",
            played,
            Counter({"gap_too_long": void, "operator": operators}),
            near=0,
            credited_ns=0,
        )
        for n, (played, void) in enumerate(players)
    )
    # Each match has two seats.
    void = sum(void for _, void in players) // 2
    return VoidFacts(
        matches, Counter({"gap_too_long": void, "operator": operators * len(players) // 2}), told
    )


def marked(found: VoidFacts) -> list[str]:
    return [each.player.player_id for each in rate(found) if each.suspect]


QUIET = [(50, 0)] * 38


def test_a_player_far_above_the_others_is_marked_and_the_opponents_are_not() -> None:
    """Eight voids against eight others: each of those has one, which is nobody's habit."""
    opponents = [(50, 1)] * 8
    found = facts(1000, (50, 8), *opponents, *QUIET[8:])
    assert marked(found) == ["p0"]
    first = rate(found)[0]
    assert (first.voids, first.expected) == (8, 0)
    assert first.chance < 1e-9


@pytest.mark.parametrize(
    ("players", "why"),
    [
        ([(50, 0)] * 40, "nothing happened"),
        ([(50, 1)] * 40, "an outage that met all alike"),
        ([(50, 4), *[(50, 1)] * 36, *QUIET[:3]], "of forty players somebody is the unluckiest"),
        ([(2, 2), (50, 1), (50, 1), *QUIET], "two are one bad evening"),
        ([(500, 10), *[(50, 1)] * 40], "who plays ten times as much meets more"),
        ([(3, 3), (3, 3)], "there are no others to compare with"),
    ],
)
def test_what_chance_or_an_outage_explains_marks_nobody(players: Sequence[tuple[int, int]], why: str) -> None:
    matches = sum(played for played, _ in players) // 2
    assert marked(facts(matches, *players)) == [], why


def test_voids_that_a_person_declared_make_nobody_a_suspect() -> None:
    """No player can bring them about."""
    spared = facts(1000, *[(50, 0)] * 40, operators=5)
    assert marked(spared) == []
    assert [each.chance for each in rate(spared)] == [1.0] * 40
    # Nor do they hide one.
    players = [(50, 8), *[(50, 1)] * 8, *QUIET[8:]]
    with_them, without = (rate(facts(1000, *players, operators=number)) for number in (5, 0))
    assert [(each.expected, each.chance) for each in with_them] == [
        (each.expected, each.chance) for each in without
    ]


def test_a_long_history_is_no_trouble_for_the_figures() -> None:
    """Millions of matches: a figure, in no time, between the bounds."""
    assert 0 < at_least(60, drawn=10_000, marked=20_000, among=5_000_000) < 0.05
    assert at_least(30, drawn=10_000, marked=20_000, among=5_000_000) > 0.9


# From a database.


async def ended(
    connection: Connection,
    north: str,
    south: str,
    cause: str,
    *,
    at: datetime = NOON,
    detail: str = "",
    winner: str | None = None,
    engine: str = "game-1",
) -> str:
    """A match that ended then."""
    made = await put_result(
        connection, north, south, winner, cause, rated=False, engine=engine, detail=detail
    )
    await connection.execute("update match_outcome set ended_at = $2 where match_id = $1", made.match_id, at)
    return str(made.match_id)


async def credit(connection: Connection, match_id: str, seat: str, ns: int, revision: int) -> None:
    """A ruling that credited time."""
    await connection.execute(
        """
        insert into match_log (match_id, revision, first_sequence, last_sequence, fence, events, seat, credited_ns)
        values ($1, $2, $2, $2, 1, '[{}]', $3, $4)
        """,
        match_id,
        revision,
        seat,
        ns,
    )


def incident(ended_at: datetime | None, *, seconds: float = 5.0, engine: str | None = None) -> Incident:
    began = (ended_at or NOON) - timedelta(seconds=seconds)
    made = Incident.lasting(Kind.STALL, "game/game-1", SECOND, "v1", engine_id=engine)
    return Incident(
        made.incident_id, made.kind, made.noticed_by, began, ended_at, made.policy_version, engine_id=engine
    )


async def players_of(connection: Connection, since: datetime) -> dict[str, PlayerVoids]:
    return {each.player_id: each for each in (await get_void_facts(connection, since)).players}


async def test_voids_reasons_and_credit_are_those_of_each_player(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        await ended(connection, "ann", "bob", "void", detail="gap_too_long")
        await ended(connection, "cat", "ann", "void", detail="gap_too_long")
        await ended(connection, "ann", "cat", "void", detail="operator")
        played = await ended(connection, "ann", "bob", "resignation", winner="north")
        await credit(connection, played, "north", 2 * SECOND, 1)
        await credit(connection, played, "south", 3 * SECOND, 2)
        await credit(connection, played, "north", SECOND, 3)
        # A match that was never begun is none, and what is longer ago is not asked about.
        await ended(connection, "ann", "bob", "cancelled", detail="north")
        await ended(connection, "ann", "bob", "void", detail="gap_too_long", at=NOON - timedelta(days=1))
        found = await get_void_facts(connection, NOON - timedelta(hours=1))
        assert (found.matches, found.voids) == (4, Counter(gap_too_long=2, operator=1))
        ann, bob, cat = found.players
        assert (ann.matches, ann.voids, ann.credited_ns) == (
            4,
            Counter(gap_too_long=2, operator=1),
            3 * SECOND,
        )
        assert (bob.matches, bob.voids, bob.credited_ns) == (2, Counter(gap_too_long=1), 3 * SECOND)
        assert (cat.matches, cat.voids) == (2, Counter(gap_too_long=1, operator=1))
    finally:
        await connection.close()


@pytest.mark.parametrize(
    ("made", "near"),
    [
        (incident(NOON - timedelta(seconds=60)), 1),
        (incident(NOON - timedelta(seconds=60.001)), 0),
        (incident(NOON + timedelta(seconds=3)), 1),
        (incident(NOON + timedelta(seconds=6)), 0),
        (incident(NOON, seconds=0.9), 0),
        (incident(None), 1),
        (incident(NOON, engine="game-1"), 1),
        (incident(NOON, engine="game-2"), 0),
    ],
)
async def test_a_loss_on_time_is_near_an_incident_that_concerned_it(
    database_url: str, made: Incident, near: int
) -> None:
    """Up to 60 s after it, or during it; the loser's alone; not one of another process, nor a hiccup."""
    connection = await asyncpg.connect(database_url)
    try:
        await put_incidents(connection, [made])
        await ended(connection, "ann", "bob", "time", winner="north")
        await ended(connection, "bob", "ann", "resignation", winner="south")
        found = await players_of(connection, NOON - timedelta(hours=1))
        assert (found["ann"].near, found["bob"].near) == (0, near)
    finally:
        await connection.close()


async def test_an_incident_of_another_process_that_touched_the_match_concerned_it(database_url: str) -> None:
    """A match that was taken up from the process that was at fault."""
    connection = await asyncpg.connect(database_url)
    try:
        match_id = await ended(connection, "ann", "bob", "time", winner="south")
        await put_touched(
            connection, [(match_id, Touched(incident(NOON, engine="game-2"), Effect.CREDITED, SECOND))]
        )
        found = await players_of(connection, NOON - timedelta(hours=1))
        assert (found["ann"].near, found["bob"].near) == (1, 0)
    finally:
        await connection.close()


async def test_the_command_shows_players_reasons_and_a_mark(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        for n in range(6):
            await ended(connection, "ann", f"other-{n}", "void", detail="gap_too_long")
            for _ in range(5):
                await ended(connection, f"other-{n}", f"other-{(n + 1) % 6}", "resignation", winner="north")
    finally:
        await connection.close()
    env = {"SPECTACULAR_BID_DATABASE_URL": database_url}
    since = (NOON - timedelta(hours=1)).isoformat()
    shown = await asyncio.to_thread(CliRunner().invoke, app, ["voids", "--since", since], env=env)
    assert shown.exit_code == 0, shown.output
    head, _, *rows = shown.output.splitlines()
    assert head.endswith("36 matches of 7 players, 6 void (16.67%): gap_too_long 6")
    assert rows[0].split() == [
        *("!", "ann", "ann", "6", "6", "100.0%", "0.00"),
        *(f"{1 / math.comb(36, 6):.2g}", "0", "0.0", "gap_too_long", "6"),
    ]
    assert [row.split()[0] for row in rows[1:]] == [f"other-{n}" for n in range(6)]
    few = await asyncio.to_thread(
        CliRunner().invoke, app, ["voids", "--since", since, "--limit", "1"], env=env
    )
    assert few.output.splitlines()[-1] == "and 6 more players"
    nothing = await asyncio.to_thread(
        CliRunner().invoke, app, ["voids", "--since", (NOON + timedelta(days=1)).isoformat()], env=env
    )
    assert nothing.output.strip().endswith("0 matches of 0 players, 0 void")
    wrong = await asyncio.to_thread(CliRunner().invoke, app, ["voids", "--since", "yesterday"], env=env)
    assert wrong.exit_code == 2
