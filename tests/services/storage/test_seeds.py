"""What the deals of a match are drawn from is stored once, whoever opens the match."""

from __future__ import annotations

import asyncio
import secrets

import asyncpg
import pytest

from services.storage.pool import open_pool
from services.storage.seeds import seeds_of
from tests.services.storage.test_journal import new_match


async def test_the_first_seed_of_a_match_stands_and_other_matches_have_others(database_url: str) -> None:
    pool = await open_pool(database_url, name="test", size=4, wait_seconds=5)
    try:
        match_id, other = await new_match(pool), await new_match(pool)
        offered = [secrets.token_bytes(32) for _ in range(8)]
        # Two processes may open it at once.
        stored = await asyncio.gather(*(seeds_of(pool, {match_id: seed}) for seed in offered))
        answers = {found[match_id] for found in stored}
        assert len(answers) == 1
        assert answers < set(offered)
        both = await seeds_of(pool, {match_id: bytes(32), other: bytes(32)})
        assert both == {match_id: answers.pop(), other: bytes(32)}
        with pytest.raises(asyncpg.CheckViolationError):
            await seeds_of(pool, {await new_match(pool): bytes(31)})
    finally:
        await pool.close()
