"""Who gets a name is settled by the database: one player a name, whoever asks at the same time."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from services.common.names import NameFaultError, neutral_name, parse_name
from services.storage import migrate as migration
from services.storage import players
from services.storage.players import NameRefused
from services.storage.pool import Pool


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Pool]:
    async with asyncpg.create_pool(database_url, min_size=8, max_size=8) as pool:
        yield pool


async def register(pool: Pool, player_id: str, name: str) -> NameRefused | None:
    async with pool.acquire() as connection, connection.transaction():
        await players.put_player(connection, player_id, "")
        return await players.register(connection, player_id, parse_name(name))


async def name_of(pool: Pool, player_id: str) -> tuple[str, bool]:
    profile = await players.get_profile(pool, player_id)
    assert profile is not None
    return profile.name, profile.registered


async def test_a_name_is_registered_once_and_for_good(pool: Pool) -> None:
    assert await register(pool, "a", "Ann") is None
    assert await register(pool, "a", "Ann") is None
    assert await register(pool, "a", "Anna") is NameRefused.CHOSEN
    assert await register(pool, "a", "ann") is NameRefused.CHOSEN
    assert await name_of(pool, "a") == ("Ann", True)
    assert await register(pool, "b", "Anna") is None, "the name that was refused is free"


@pytest.mark.parametrize(
    ("wanted", "refused"),
    [
        ("Phil", NameRefused.TAKEN),
        ("pHIL", NameRefused.TAKEN),
        ("PhiI", NameRefused.CONFUSABLE),
        ("PhII", NameRefused.CONFUSABLE),
        ("Phi1", NameRefused.CONFUSABLE),
        ("\u03a1hil", None),
    ],
)
async def test_names_of_others_are_refused(pool: Pool, wanted: str, refused: NameRefused | None) -> None:
    assert await register(pool, "a", "Phil") is None
    if refused is None:
        with pytest.raises(NameFaultError):
            parse_name(wanted)
        return
    assert await register(pool, "b", wanted) is refused
    assert await name_of(pool, "b") == (neutral_name("b"), False)
    assert await register(pool, "b", "Ben") is None, "nothing was changed by the refusal"


@pytest.mark.parametrize(
    "wanted",
    [("Zoë",) * 8, ("zoë", "ZOË") * 4, ("νικος", "ΝΙΚΟΣ") * 4, ("Bill", "BiII", "Bi1l", "BI11") * 2],
    ids=["same", "case", "case that looks different", "alike"],
)
async def test_of_many_who_want_a_name_at_once_exactly_one_gets_it(
    pool: Pool, wanted: tuple[str, ...]
) -> None:
    ids = [f"p{number}" for number in range(len(wanted))]
    answers = await asyncio.gather(*map(register, [pool] * len(ids), ids, wanted))
    assert answers.count(None) == 1
    names = [await name_of(pool, player_id) for player_id in ids]
    for player_id, name, answer, had in zip(ids, names, answers, wanted, strict=True):
        assert name == ((had, True) if answer is None else (neutral_name(player_id), False))


async def test_a_suggestion_is_taken_once_when_it_is_free_and_can_be_given_up(pool: Pool) -> None:
    await players.put_player(pool, "a", "Ann")
    await players.put_player(pool, "a", "Another")
    assert await name_of(pool, "a") == ("Ann", False)
    for player_id, suggestion in (("b", "ANN"), ("c", "A\u200bnn"), ("d", "admin"), ("e", "")):
        await players.put_player(pool, player_id, suggestion)
        assert await name_of(pool, player_id) == (neutral_name(player_id), False)
    await players.put_player(pool, "bot-greedy", "greedy", bot=True)
    assert await name_of(pool, "bot-greedy") == ("greedy", False)

    assert await register(pool, "a", "Amy") is None
    assert await name_of(pool, "a") == ("Amy", True)
    assert await register(pool, "b", "Ann") is None, "the name that was given up is free"


async def test_first_calls_at_once_agree_about_the_name(pool: Pool) -> None:
    for number in range(20):
        player_id, suggested = f"p{number}", [f"Ann {number}", "admin", f"Ben {number}", f"Cay {number}"]
        await asyncio.gather(*(players.put_player(pool, player_id, each) for each in suggested))
        name, _ = await name_of(pool, player_id)
        key = await pool.fetchval("select name_key from player_name where player_id = $1", player_id)
        assert key == (None if name == neutral_name(player_id) else parse_name(name).key)


async def test_names_from_before_keep_what_is_allowed_and_free(
    empty_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = sorted(migration.MIGRATIONS.glob("*.sql"))
    before = [file for file in everything if file.name < "20261130000030"]
    for file in before:
        shutil.copy(file, tmp_path)
    monkeypatch.setattr(migration, "MIGRATIONS", tmp_path)
    await asyncio.to_thread(migration.migrate, empty_database_url)
    old = {
        "a": "Zorn",
        "b": "zorn",
        "c": "Zom",
        "d": "Ann  Lee",
        "e": "Ann Lee",
        "f": "ADMIN",
        "g": "greedy",
        "h": "x",
        "i": "Zoë",
        "j": "1234",
        "k": "Player " + "0" * 12,
        "l": "Mimi 10",
        "m": "systern",
        "n": "Spectacular Bid",
        "o": "an\u200bn",
        "bot-greedy": "greedy",
    }
    async with asyncpg.create_pool(empty_database_url, min_size=1, max_size=1) as pool:
        for player_id, name in old.items():
            await pool.execute(
                "insert into player (player_id, name, bot) values ($1, $2, $3)",
                *(player_id, name, player_id.startswith("bot-")),
            )
        shutil.copy(everything[len(before)], tmp_path)
        await asyncio.to_thread(migration.migrate, empty_database_url)
        kept = {}
        for row in await pool.fetch("select * from player left join player_name using (player_id)"):
            if row["name_key"] is None:
                assert row["name"] == neutral_name(row["player_id"])
                continue
            parsed = parse_name(row["name"], house_bot=row["bot"])
            assert (row["name"], row["name_key"], row["skeleton"]) == (
                parsed.shown,
                parsed.key,
                parsed.skeleton,
            )
            kept[row["player_id"]] = row["name"]
        assert kept == {
            "a": "Zorn",
            "e": "Ann Lee",
            "l": "Mimi 10",
            "bot-greedy": "greedy",
        }
        assert await register(pool, "i", "Zoë") is None, "a name that was put off can be registered"
