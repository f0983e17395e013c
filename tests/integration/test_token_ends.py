"""Tokens that end while streams run: by their time, by an operator, by a key that is gone. Time is never gained by it."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import grpc
import pytest

from client.errors import CallError, from_rpc
from client.session import CASUAL, Client
from engine.command import Start
from engine.seats import NORTH, SOUTH
from services.common.auth import TokenIssuer, write_new_keys
from services.storage import revocations
from services.storage.revocations import NewRevocation, OtherRevocationError
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.matchmaking.v1 import matchmaking_service_pb2 as seek_pb
from spectacularbid.matchmaking.v1.matchmaking_service_pb2_grpc import MatchmakingServiceStub
from tests.authority import replace
from tests.integration.operators import ops
from tests.roles import url_as
from tests.seats import Table, eventually, new_id
from tests.stack import AUDIENCE, ISSUER, Player, Stack

pytestmark = pytest.mark.asyncio(loop_scope="session")


def streams(made: Stack, table: Table, player: Player) -> dict[str, Any]:
    """A stream of each kind: Play and Watch of a match, and a seek."""
    metadata = player.metadata
    watched = pb.WatchRequest(match_id=table.match_id)
    play = made.matches().Play(metadata=metadata)
    seeks = MatchmakingServiceStub(made.channel("matchmaking"))
    wanted = seek_pb.SeekRequest(request_id=new_id(), pool=seek_pb.POOL_CASUAL, highest_rating=-90_000)
    return {
        "Play": play,
        "Watch": made.matches().Watch(watched, metadata=metadata),
        "Seek": seeks.Seek(wanted, metadata=metadata),
    }


async def begun(table: Table, opened: dict[str, Any]) -> None:
    """Each has said something."""
    await opened["Play"].write(pb.PlayRequest(join=pb.WatchRequest(match_id=table.match_id)))
    for call in opened.values():
        assert await call.read() is not grpc.aio.EOF


async def reasons(calls: Iterable[Any]) -> list[str]:
    """What the streams end with."""

    async def one(call: Any) -> str:
        try:
            while await call.read() is not grpc.aio.EOF:
                pass
        except grpc.aio.AioRpcError as error:
            return from_rpc(error).reason
        return ""

    async with asyncio.timeout(30):
        return list(await asyncio.gather(*map(one, calls)))


async def refused(made: Stack, player: Player) -> str:
    """Why calls with the token are refused; empty when none is. Both processes say the same, or the test waits for it."""
    said: list[str] = []

    async def agreed() -> bool:
        said.clear()
        async with Client(
            made.address("matchmaking"), player.token, game_address=made.address("game")
        ) as client:
            for ask in (client.profile(), anext(client.my_matches(), None)):
                try:
                    await ask
                except CallError as error:
                    said.append(error.reason)
                else:
                    said.append("")
        return len(set(said)) == 1

    await eventually(agreed)
    return said[0]


async def test_a_stream_ends_when_its_token_does_and_the_clock_runs_on(shared: Stack) -> None:
    """What was sent before is carried out; the client library comes back with a new token, and nobody is credited."""
    table = await Table.create(shared, start=False)
    north = table.players.north
    seconds = 2
    said_before = len(shared.processes["game"].events())
    short = Player(north.player_id, shared.token(north.player_id, seconds=seconds))
    spectator = shared.spectator()
    watcher = Player(spectator.player_id, shared.token(spectator.player_id, seconds=seconds))
    renewed = []

    async def renew() -> str:
        renewed.append(time.time())
        return north.token

    opened = streams(shared, table, watcher)
    del opened["Seek"]
    await begun(table, opened)
    client = Client(
        shared.address("matchmaking"), short.token, game_address=shared.address("game"), renew=renew
    )
    async with client, client.play(table.match_id) as play:
        await anext(play)
        began = await shared.state(table.match_id)
        await play.submit(Start(NORTH))
        assert await reasons(opened.values()) == ["TOKEN_EXPIRED", "TOKEN_EXPIRED"]
        assert await refused(shared, short) == "TOKEN_EXPIRED"

        async def attached_again() -> bool:
            return play.reattached > 0 and play.attached

        await eventually(attached_again)
        assert len(renewed) == 1
        await table.do(Start(SOUTH))
        assert began.decision_id < (await shared.state(table.match_id)).decision_id
        view = await table.view(NORTH)
        assert view.prompt.clock.credited_ms == 0
    game = shared.processes["game"].events()[said_before:]
    assert [line for line in game if line["event"] in ("mass_disconnect", "call_failed")] == []


async def test_the_client_library_asks_for_another_token_and_not_without_end(shared: Stack) -> None:
    """Calls and seeks go on with it; one that is no good either is not asked for again at once."""
    (ann,) = await shared.players(1)
    expired = shared.token(ann.player_id, seconds=-5)
    asked: list[str] = []

    def another(token: str) -> Callable[[], Awaitable[str]]:
        async def renew() -> str:
            asked.append(token)
            return token

        return renew

    server = shared.address("matchmaking")
    async with Client(server, expired, renew=another(ann.token)) as client:
        profiles = await asyncio.gather(*(client.profile() for _ in range(5)))
        assert [profile.player_id for profile in profiles] == 5 * [ann.player_id]
    assert asked == [ann.token], "five calls that fail at once ask for one token"
    async with Client(server, expired, renew=another(ann.token)) as client:
        waits = asyncio.Event()
        seeking = asyncio.create_task(client.seek(CASUAL, highest=-90_000, waiting=lambda _: waits.set()))
        async with asyncio.timeout(30):
            await waits.wait()
        await client.cancel_seek()
        with pytest.raises(CallError, match="SEEK_CANCELLED"):
            await seeking
    asked.clear()
    worse = shared.token(ann.player_id, seconds=-4)
    async with Client(server, expired, renew=another(worse)) as client:
        for _ in range(2):
            with pytest.raises(CallError, match="TOKEN_EXPIRED"):
                await client.profile()
    assert asked == [worse]


async def test_an_operator_revokes_tokens_and_a_key_goes_while_streams_run(
    shared: Stack, tmp_path: Path
) -> None:
    """All of them end on every process; the act is kept; a newer token opens again, one of the gone key never."""
    table = await Table.create(shared, start=False)
    ann, other = await shared.players(2)
    stranger = shared.spectator()
    old_file = shared.folder / "jwks.json"
    old = old_file.read_bytes()
    write_new_keys(tmp_path / "second.pem", tmp_path / "second.json")
    second = TokenIssuer(tmp_path / "second.pem", ISSUER, AUDIENCE)
    keyed = Player(other.player_id, second.issue(other.player_id, "x")[0])
    keys = [
        key for text in (old, (tmp_path / "second.json").read_bytes()) for key in json.loads(text)["keys"]
    ]
    try:
        replace(old_file, json.dumps({"keys": keys}).encode())

        async def known() -> bool:
            return await refused(shared, keyed) == ""

        await eventually(known)
        of_ann, of_keyed = streams(shared, table, ann), streams(shared, table, keyed)
        of_stranger = streams(shared, table, stranger)
        for opened in (of_ann, of_keyed, of_stranger):
            await begun(table, opened)
        replace(old_file, old)
        said = await ops(shared, "player", "revoke-tokens", ann.player_id, "--reason", "stolen")
        assert said.startswith(f"tokens of {ann.player_id} issued up to ")
        assert await reasons(of_ann.values()) == 3 * ["TOKEN_REVOKED"]
        assert await reasons(of_keyed.values()) == 3 * ["TOKEN_INVALID"]
        assert await refused(shared, ann) == "TOKEN_REVOKED"
        assert await refused(shared, keyed) == "TOKEN_INVALID"
        assert not any(call.done() for call in of_stranger.values())
        for call in of_stranger.values():
            call.cancel()

        async def opens_again() -> bool:
            return await refused(shared, Player(ann.player_id, shared.token(ann.player_id))) == ""

        await eventually(opens_again)
    finally:
        replace(old_file, old)
    acts = json.loads(await ops(shared, "acts", "--json", "--limit", "5"))
    (act,) = [each for each in acts if each["subject"] == ann.player_id]
    assert (act["author"], act["action"], act["reason"], act["via"], act["database_user"]) == (
        *("ada", "player revoke-tokens", "stolen", "operations", ""),
    )


async def test_who_may_revoke_and_whom(shared: Stack) -> None:
    """No player may; nothing is revoked without a reason; an unknown player is said to be one; one effect for one id."""
    ann, ben = await shared.players(2)
    await ops(shared, "player", "revoke-tokens", ann.player_id, "--reason", " ", status=2)
    await ops(shared, "player", "revoke-tokens", "Nobody!", "--reason", "x", status=2)
    env = {"SPECTACULAR_BID_OPERATOR_TOKEN": ben.token}
    said = await ops(shared, "player", "revoke-tokens", ann.player_id, "--reason", "x", status=1, env=env)
    assert "the token lacks the role operator" in said
    assert await refused(shared, ann) == ""
    said = await ops(shared, "player", "revoke-tokens", "never-here", "--reason", "x")
    assert "no player never-here has ever been here" in said
    straight = ("--database-url", url_as("operator", shared.database_url), "--author", "eve")
    await ops(shared, "player", "revoke-tokens", ben.player_id, "--reason", "leader is down", *straight)
    row = await shared.pool.fetchrow("select * from token_revocation where player_id = $1", ben.player_id)
    assert row is not None
    assert (row["via"], row["author"], row["database_user"]) == (
        "database",
        "eve",
        "spectacular_bid_operator",
    )
    again = NewRevocation(row["revocation_id"], ben.player_id, "eve", "asked twice", "operations")
    async with shared.pool.acquire() as connection:
        assert (await revocations.revoke(connection, again)).at == row["at"]
        with pytest.raises(OtherRevocationError):
            await revocations.revoke(connection, dataclasses.replace(again, player_id=ann.player_id))
        kept = await connection.fetchval(
            "select count(*) from token_revocation where player_id = any($1)", [ann.player_id, ben.player_id]
        )
    assert kept == 1
