"""What operators order about game processes: it holds when it is acknowledged, and for whoever leads next."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from typer.testing import CliRunner

from services.ops.__main__ import app
from services.storage import ownership
from spectacularbid.internal.operations.v1 import operations_service_pb2 as pb
from tests.services.matchmaking.house import House, reason
from tests.services.matchmaking.test_pools import authorized, operator, token


async def drain(house: House, engine_id: str = "game-1", **fields: Any) -> pb.Game:
    async with operator(house) as calls:
        request = pb.DrainGameRequest(engine_id=engine_id, **{"reason": "kernel", **fields})
        return (await calls.DrainGame(request, **authorized(house))).game


async def resume(house: House, engine_id: str = "game-1") -> pb.Game:
    async with operator(house) as calls:
        request = pb.ResumeGameRequest(engine_id=engine_id, reason="done")
        return (await calls.ResumeGame(request, **authorized(house))).game


async def two_games(house: House, capacity: int = 1000) -> None:
    """Two registered game processes, with leases as processes of their own would have."""
    await house.start()
    for engine_id in ("game-1", "game-2"):
        await ownership.begin_lease(house.pool, engine_id, "first", f"{engine_id}:1", 600)
        await house.game(engine_id, capacity=capacity)


async def placed_on(house: House, pairs: int) -> set[str]:
    """Where so many new matches went."""
    known = {row["match_id"] for row in await house.pool.fetch("select match_id from match")}
    for number in range(pairs):
        players = [house.player(f"{len(known)}-{number}-{side}") for side in "ab"]
        await asyncio.gather(*(player.seek().matched() for player in players))
    rows = await house.pool.fetch("select match_id, engine_id from match_owner")
    return {row["engine_id"] for row in rows if row["match_id"] not in known}


async def refused(house: House, call: Any, *, roles: tuple[str, ...] = ("operator",)) -> tuple[Any, ...]:
    """What a call of this process says that it does not carry out."""
    async with operator(house) as calls:
        with pytest.raises(grpc.RpcError) as error:
            await call(calls, {"metadata": (("authorization", f"Bearer {token(house, *roles)}"),)})
    return reason(error.value)


def draining(engine_id: str, why: str = "kernel", *, force: bool = False) -> Any:
    request = pb.DrainGameRequest(engine_id=engine_id, reason=why, force=force)
    return lambda calls, options: calls.DrainGame(request, **options)


def resuming(engine_id: str, why: str = "done") -> Any:
    request = pb.ResumeGameRequest(engine_id=engine_id, reason=why)
    return lambda calls, options: calls.ResumeGame(request, **options)


async def test_nothing_is_placed_on_a_drained_process_whoever_leads(house: House) -> None:
    """Not even by a leader that was not there when it was ordered, and although the process itself still accepts."""
    await two_games(house)
    assert await placed_on(house, 4) == {"game-1", "game-2"}
    game = await drain(house)
    assert (game.engine_id, game.registered, game.accepting, game.live_matches) == ("game-1", True, False, 2)
    assert (game.order.action, game.order.author, game.order.reason) == ("drain", "op-ada", "kernel")
    assert await placed_on(house, 4) == {"game-2"}
    await house.start("next", ready=False)
    for call in (
        draining("game-2"),
        lambda calls, options: calls.GetGames(pb.GetGamesRequest(), **options),
        resuming("game-1"),
    ):
        assert (await refused(house, call))[:2] == (grpc.StatusCode.UNAVAILABLE, "TRY_AGAIN")
    await house.processes[0].terminate()
    await house.processes[1].ready()
    for engine_id in ("game-1", "game-2"):
        await house.game(engine_id)
    assert await placed_on(house, 4) == {"game-2"}
    assert (await resume(house)).accepting
    assert "game-1" in await placed_on(house, 4)


async def test_a_drain_that_makes_no_sense_or_finds_no_room_changes_nothing(house: House) -> None:
    """Of three matches one process has two, and the other room for one; by force it is drained all the same. What was
    ordered already is not ordered twice: the answer may have been lost."""
    await two_games(house, capacity=2)
    await placed_on(house, 3)
    busiest, other = (
        row["engine_id"]
        for row in await house.pool.fetch(
            "select engine_id from match_owner group by engine_id order by count(*) desc"
        )
    )
    denied = (grpc.StatusCode.PERMISSION_DENIED, "ROLE_MISSING")
    assert (await refused(house, draining(busiest), roles=()))[:2] == denied
    unknown = (grpc.StatusCode.NOT_FOUND, "GAME_PROCESS_NOT_FOUND")
    assert (await refused(house, draining("game-9")))[:2] == unknown
    malformed = (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED")
    assert (await refused(house, draining("no name")))[:2] == malformed
    assert (await refused(house, draining(busiest, " ")))[:2] == malformed
    assert (await refused(house, resuming(busiest, " ")))[:2] == malformed
    full = (grpc.StatusCode.FAILED_PRECONDITION, "NO_ROOM_ELSEWHERE", {"matches": "2", "room": "1"})
    assert await refused(house, draining(busiest)) == full
    assert (await resume(house, busiest)).order.action == ""
    assert await house.pool.fetchval("select count(*) from process_order") == 0
    first, again = [await drain(house, busiest, force=True) for _ in range(2)]
    assert first.order == again.order
    assert (await refused(house, draining(other)))[2] == {"matches": "1", "room": "0"}
    for _ in range(2):
        await resume(house, busiest)
    rows = await house.pool.fetch("select action from process_order order by order_no")
    assert [row["action"] for row in rows] == ["drain", "resume"]


async def test_the_command_lists_drains_and_resumes(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    await two_games(house)
    await ownership.begin_lease(house.pool, "game-0", "of last year", "game-0:1", -600)
    monkeypatch.setenv("SPECTACULAR_BID_OPERATOR_TOKEN", token(house, "operator"))
    monkeypatch.setenv("SPECTACULAR_BID_MATCHMAKING_ADDRESS", house.internal)

    async def command(*arguments: str, status: int = 0) -> str:
        result = await asyncio.to_thread(CliRunner().invoke, app, ["game", *arguments])
        assert result.exit_code == status, result.output
        return result.output

    assert "game-0" not in await command("list")
    assert "gone" in await command("list", "--all")
    said = await command("drain", "game-1", "--reason", "[red] kernel", "--wait")
    for word in ("game-1", "[red] kernel", "op-ada", "0 matches left on game-1"):
        assert word in said
    assert "nothing was changed" in await command("drain", "game-2", "--reason", "x", status=1)
    assert "op-ada" in await command("list")
    assert "takes no orders" in await command("list", "--address", house.address, status=2)
    assert "yes" in await command("resume", "game-1", "--reason", "done")
    said = await command("list")
    for word in ("drain", "resume", "done"):
        assert word in said
