"""The database itself refuses what no code of ours writes: each rule with a statement that breaks it, as the owner."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final
from uuid import UUID

import asyncpg
import pytest

from services.storage.pool import Connection

IDS: Final = {f"{name}()": f"'{UUID(int=number)}'" for number, name in enumerate(("live", "over", "new"), 1)}
"""How statements below name matches: a live rated one of ann and ben, a casual one of cas and dan that was lost on time,
and one to be made."""

MATCH: Final = """
    insert into match (match_id, mode, rated, north, south, bank_ns, delay_ns, start_limit_ns, continue_limit_ns)
    values ({values}, 120000000000, 10000000000, 1, 1)
"""
LOG: Final = """
    insert into match_log (match_id, revision, first_sequence, last_sequence, fence, events)
    values ({match_id}, {values})
"""
OUTCOME: Final = """
    insert into match_outcome (match_id, winner, cause, fence, north_balance, south_balance, evidence_id)
    values ({match_id}, {values})
"""
EVENT: Final = '\'[{"type": "started"}]\''


def match(values: str) -> str:
    return MATCH.format(values=f"new(), {values}")


def log(values: str, match_id: str = "live()") -> str:
    return LOG.format(match_id=match_id, values=values)


def outcome(values: str, match_id: str = "live()") -> str:
    return OUTCOME.format(match_id=match_id, values=values)


def sql(text: str) -> str:
    """With the ids of the matches in the place of their names."""
    for name, value in IDS.items():
        text = text.replace(name, value)
    return text


SETTING: Final = (
    "insert into player (player_id, name) select p, p from unnest(array['ann', 'ben', 'cas', 'dan', 'eve']) as p",
    "insert into player (player_id, name, bot) values ('bot-x', 'x', true), ('bot-y', 'y', true)",
    "begin",
    MATCH.format(values="live(), 'rated', true, 'ann', 'ben'"),
    "insert into live_seat (player_id, match_id) values ('ann', live()), ('ben', live())",
    "insert into match_owner (match_id, engine_id, fence) values (live(), 'game-0', 5)",
    log(f"1, 1, 1, 5, {EVENT}"),
    "commit",
    MATCH.format(values="over(), 'casual', false, 'cas', 'dan'"),
    """
    insert into clock_evidence (evidence_id, kind, match_id, engine_id, incarnation, policy_version, detail)
    values (over(), 'timeout', over(), 'game-0', 'i', 'v1', '{}')
    """,
    outcome("'north', 'time', 1, 150, 150, over()", "over()"),
    "insert into rating (player_id, mu, sigma, shown, rated_matches, wins) values ('ann', 1500, 350, 450, 0, 0)",
    """
    insert into rating_ruling (ruling_id, action, author, automatic, reason)
    values (live(), 'hold', 'ada', false, 'a look')
    """,
    "insert into rating_ruled (match_id, ruling_id) values (over(), live())",
    "insert into pool_order (pool, action, author, reason) values ('rated', 'pause', 'ada', 'a look')",
    "insert into process_order (engine_id, action, author, reason) values ('game-0', 'drain', 'ada', 'a look')",
)

BROKEN: Final = {
    "points that are not 300": outcome("'north', 'resignation', 1, 150, 145, null"),
    "points that are no multiple of five": outcome("'north', 'resignation', 1, 151, 149, null"),
    "points below zero": outcome("'north', 'resignation', 1, -5, 305, null"),
    "a win by balance over somebody with points": outcome("'north', 'balance', 1, 295, 5, null"),
    "a win by balance of the seat without points": outcome("'south', 'balance', 1, 300, 0, null"),
    "a void with a winner": outcome("'north', 'void', 1, 150, 150, null"),
    "a loss on time without evidence": outcome("'north', 'time', 1, 150, 150, null"),
    "a loss on time with the evidence of another match": outcome("'north', 'time', 1, 150, 150, over()"),
    "a second outcome": outcome("'south', 'time', 1, 150, 150, over()", "over()"),
    "another winner": "update match_outcome set winner = 'south' where match_id = over()",
    "other points": "update match_outcome set north_balance = 100, south_balance = 200",
    "other evidence": 'update clock_evidence set detail = \'{"seat": "north"}\'',
    "a rated mode that is not rated": match("'rated', false, 'bot-x', 'cas'"),
    "a casual match that is rated": match("'casual', true, 'bot-x', 'cas'"),
    "a rated match whose players are not seated": match("'rated', true, 'cas', 'dan'"),
    "a second live rated match": match("'rated', true, 'ann', 'cas'"),
    "a second seat": "insert into live_seat (player_id, match_id) values ('ann', over())",
    "a seat of a stranger": "insert into live_seat (player_id, match_id) values ('eve', live())",
    "a seat that is moved": "update live_seat set match_id = over() where player_id = 'ann'",
    "a seat that is free before the end": "delete from live_seat where player_id = 'ben'",
    "a no-show of a stranger": "insert into no_show (match_id, player_id) values (live(), 'eve')",
    "a fence that goes down": "update match_owner set fence = 4 where match_id = live()",
    "no events": log("2, 2, 2, 5, '[]'"),
    "events that are no list": log('2, 2, 2, 5, \'{"type": "started"}\''),
    "more events than numbers": log('2, 2, 2, 5, \'[{"type": "started"}, {"type": "started"}]\''),
    "more numbers than events": log(f"2, 2, 3, 5, {EVENT}"),
    "a log that begins in the middle": log(f"2, 1, 1, 5, {EVENT}"),
    "a first ruling that is not the first event": log(f"1, 4, 4, 5, {EVENT}", "over()"),
    "another ruling under the same number": log(f"1, 2, 2, 5, {EVENT}"),
    "a rating that is no number": "update rating set mu = 'NaN'",
    "a rating without end": "update rating set mu = '-infinity'",
    "an uncertainty that is no number": "update rating set sigma = 'NaN'",
    "more wins than matches": "update rating set wins = 1",
    "a decision of no number": """
        insert into rating_decision (match_id, rated, reason, model_version, north_mu_before, north_sigma_before,
            north_mu_after, north_sigma_after, south_mu_before, south_sigma_before, south_mu_after, south_sigma_after)
        values (over(), true, 'rated', 'v1', 1, 1, 'NaN', 1, 1, 1, 1, 1)
    """,
    "a ruling that is changed": "update rating_ruling set author = 'eve'",
    "a ruling that is forgotten": "delete from rating_ruled",
    "an order that is changed": "update pool_order set author = 'eve'",
    "an order that is forgotten": "delete from process_order",
    "a name with a line break": "update player set name = E'ann\\nben' where player_id = 'ann'",
    "a name that turns the line around": "update player set name = U&'ann\\202Eneb' where player_id = 'ann'",
    "a name with what nobody sees": "update player set name = U&'an\\200Bn' where player_id = 'ann'",
}
"""What no code of ours does, and the statement that does it. What is deferred is looked at when it would be committed."""

ALLOWED: Final = {
    "a casual match with a bot": match("'casual', false, 'bot-x', 'eve'"),
    "a rated match of bots": match("'rated', true, 'bot-x', 'bot-y'"),
    "an end": outcome("'north', 'balance', 5, 300, 0, null").replace(
        "insert", "with freed as (delete from live_seat where match_id = live()) insert", 1
    ),
    "a name of another script": "update player set name = U&'\\00C5sa \\03A9' where player_id = 'ann'",
    "a higher fence": "update match_owner set fence = 6",
    "an event more": log('2, 2, 3, 5, \'[{"type": "started"}, {"type": "started"}]\''),
}


@pytest.fixture
async def owner(database_url: str) -> AsyncIterator[Connection]:
    made = await asyncpg.connect(database_url)
    for statement in SETTING:
        await made.execute(sql(statement))
    yield made
    await made.close()


async def tried(connection: Connection, statement: str) -> str:
    """What the database says against a statement; empty when it takes it. Nothing of it stays."""
    attempt = connection.transaction()
    await attempt.start()
    try:
        done = await connection.execute(sql(statement))
        assert not done.endswith(" 0"), f"{statement}: nothing was there to break"
        await connection.execute("set constraints all immediate")
    except asyncpg.IntegrityConstraintViolationError as refused:
        return str(refused)
    finally:
        await attempt.rollback()
    return ""


async def test_what_breaks_a_rule_is_refused(owner: Connection) -> None:
    taken = [what for what, statement in BROKEN.items() if not await tried(owner, statement)]
    assert taken == []


async def test_what_breaks_no_rule_is_not(owner: Connection) -> None:
    refused = {what: await tried(owner, statement) for what, statement in ALLOWED.items()}
    assert refused == dict.fromkeys(ALLOWED, "")
