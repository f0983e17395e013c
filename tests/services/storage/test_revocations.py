"""Whoever follows revocations misses none."""

from __future__ import annotations

import uuid

import asyncpg

from services.storage.revocations import NewRevocation, revocations_after, revoke


async def test_revocations_of_a_database_that_was_restored_are_not_missed(database_url: str) -> None:
    """Its numbers go on below those that a process has seen."""
    connection = await asyncpg.connect(database_url)
    try:
        assert await revocations_after(connection, 7, 60) == []
        for player_id in ("ann", "ben"):
            await revoke(connection, NewRevocation(uuid.uuid4(), player_id, "ada", "stolen", "operations"))
        numbers = [
            (each.revocation_no, each.player_id) for each in await revocations_after(connection, 0, 60)
        ]
        assert numbers == [(1, "ann"), (2, "ben")]
        assert [each.player_id for each in await revocations_after(connection, 1, 60)] == ["ben"]
        assert await revocations_after(connection, 2, 60) == []
        assert [each.player_id for each in await revocations_after(connection, 7, 60)] == ["ann", "ben"]
    finally:
        await connection.close()
