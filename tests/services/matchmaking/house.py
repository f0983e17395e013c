"""A real matchmaking process on a real PostgreSQL, and players and game processes that speak to it over gRPC."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from services.common.auth import TokenIssuer, write_new_keys
from services.storage.pool import Pool
from spectacularbid.identity.v1.guest_service_pb2_grpc import GuestServiceStub
from spectacularbid.identity.v1.player_service_pb2_grpc import PlayerServiceStub
from spectacularbid.internal.placement.v1 import placement_service_pb2 as placement_pb
from spectacularbid.internal.placement.v1.placement_service_pb2_grpc import PlacementServiceStub
from spectacularbid.ladder.v1.ladder_service_pb2_grpc import LadderServiceStub
from spectacularbid.matchmaking.v1 import matchmaking_service_pb2 as pb
from spectacularbid.matchmaking.v1.matchmaking_service_pb2_grpc import MatchmakingServiceStub
from tests.processes import Process, running

SECRET = "a secret of the tests"
SECONDS_MAX = 60.0
"""How long a wait may take: far more than anything needs, even on a busy machine."""


def reason(error: grpc.RpcError) -> tuple[grpc.StatusCode, str, dict[str, str]]:
    """Code, reason and metadata of a failed call."""
    status = rpc_status.from_call(error)  # type: ignore[arg-type]
    info = error_details_pb2.ErrorInfo()
    assert status is not None, error
    assert status.details[0].Unpack(info), error
    assert info.domain == "spectacularbid"
    return error.code(), info.reason, dict(info.metadata)


def retry_seconds(error: grpc.RpcError) -> float | None:
    """When the call may be repeated, as RetryInfo says."""
    status = rpc_status.from_call(error)  # type: ignore[arg-type]
    info = error_details_pb2.RetryInfo()
    assert status is not None, error
    found = [detail for detail in status.details if detail.Unpack(info)]
    return info.retry_delay.ToNanoseconds() / 1e9 if found else None


@dataclass
class Player:
    """A player with a token of her own."""

    player_id: str
    token: str
    matchmaking: MatchmakingServiceStub
    ladder: LadderServiceStub

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {self.token}"),)

    def seek(
        self, pool: pb.Pool.ValueType = pb.POOL_RATED, request_id: str | None = None, **limits: Any
    ) -> Seek:
        """A seek under this name or a new one; `limits` are further fields of SeekRequest."""
        request = pb.SeekRequest(request_id=request_id or str(uuid.uuid4()), pool=pool, **limits)
        return Seek(self.matchmaking.Seek(request, metadata=self.metadata))

    async def cancel(self) -> None:
        await self.matchmaking.CancelSeek(pb.CancelSeekRequest(), metadata=self.metadata)


class Seek:
    """One open seek stream."""

    def __init__(self, call: grpc.aio.UnaryStreamCall[Any, pb.SeekResponse]) -> None:
        self.call = call
        self._news = aiter(call)
        self.waiting: list[pb.Waiting] = []

    async def is_waiting(self) -> pb.Waiting:
        """The next news, which must be that it waits."""
        async with asyncio.timeout(SECONDS_MAX):
            news = await anext(self._news)
        assert news.HasField("waiting"), news
        self.waiting.append(news.waiting)
        return news.waiting

    async def matched(self) -> pb.Matched:
        """Wait for the match, and for the end of the stream after it. Raises what the stream ends with."""
        found = None
        async with asyncio.timeout(SECONDS_MAX):
            async for news in self._news:
                assert found is None, "nothing comes after the match"
                if news.HasField("waiting"):
                    self.waiting.append(news.waiting)
                else:
                    found = news.matched
        assert found is not None
        return found

    async def failed(self) -> tuple[grpc.StatusCode, str, dict[str, str]]:
        """Wait for the stream to fail."""
        with pytest.raises(grpc.RpcError) as error:
            await self.matched()
        return reason(error.value)

    async def ended(self) -> grpc.StatusCode:
        """Read whatever comes until the end, however the stream ends."""
        with suppress(grpc.RpcError, AssertionError):
            await self.matched()
        # A status comes only after the messages before it have been read.
        return await self.call.code()

    async def outcome(self) -> pb.Matched | tuple[grpc.StatusCode, str, dict[str, str]]:
        """Whatever comes."""
        try:
            return await self.matched()
        except grpc.RpcError as error:
            return reason(error)


@dataclass
class GameProcess:
    """Registers as a game process and confirms what it is told to load."""

    engine_id: str
    confirm: bool = True
    places: list[tuple[str, int]] = field(default_factory=list)
    welcome: asyncio.Event = field(default_factory=asyncio.Event)
    said: asyncio.Queue[placement_pb.RegisterRequest] = field(default_factory=asyncio.Queue)
    address: str = "127.0.0.1:1"
    leave: Callable[[], object] = bool
    """Ends its stream, as a crash would."""

    async def run(self, address: str, capacity: int) -> None:
        async def says() -> AsyncIterator[placement_pb.RegisterRequest]:
            yield placement_pb.RegisterRequest(
                hello=placement_pb.Hello(
                    engine_id=self.engine_id,
                    incarnation=uuid.uuid4().hex,
                    address=self.address,
                    capacity=capacity,
                )
            )
            while True:
                yield await self.said.get()

        async with grpc.aio.insecure_channel(address) as channel:
            call = PlacementServiceStub(channel).Register(
                says(), metadata=(("authorization", f"Bearer {SECRET}"),)
            )
            async for message in call:
                if message.HasField("welcome"):
                    self.welcome.set()
                else:
                    self.places.append((message.place.match_id, message.place.fence))
                    if self.confirm:
                        self.placed(message.place.match_id)

    def placed(self, match_id: str) -> None:
        self.said.put_nowait(placement_pb.RegisterRequest(placed=placement_pb.Placed(match_id=match_id)))

    def load(self, live_matches: int, *, accepting: bool) -> None:
        load = placement_pb.Load(live_matches=live_matches, accepting=accepting)
        self.said.put_nowait(placement_pb.RegisterRequest(load=load))


class House:
    """The processes of one test, its players and its database."""

    def __init__(self, stack: AsyncExitStack, database_url: str, folder: Path, pool: Pool) -> None:
        self.stack = stack
        self.database_url = database_url
        self.folder = folder
        self.pool = pool
        self.key_file, self.jwks_file = folder / "guest.pem", folder / "jwks.json"
        write_new_keys(self.key_file, self.jwks_file)
        self.issuer = TokenIssuer(self.key_file, "spectacular-bid-local", "spectacular-bid")
        self.address = self.internal = ""
        self.processes: list[Process] = []
        self.channel: grpc.aio.Channel

    def env(self, **more: object) -> dict[str, str]:
        return {
            "SPECTACULAR_BID_ENV": "test",
            "SPECTACULAR_BID_DATABASE_URL": self.database_url,
            "SPECTACULAR_BID_INTERNAL_SECRET": SECRET,
            "SPECTACULAR_BID_JWKS_FILE": str(self.jwks_file),
            "SPECTACULAR_BID_GUEST_KEY_FILE": str(self.key_file),
            "SPECTACULAR_BID_LISTEN": "127.0.0.1:0",
            "SPECTACULAR_BID_INTERNAL_LISTEN": "127.0.0.1:0",
            "SPECTACULAR_BID_METRICS_LISTEN": "127.0.0.1:0",
            # Everybody who seeks here has the address of this machine.
            "SPECTACULAR_BID_ADDRESS_LIMITS": "false",
            "SPECTACULAR_BID_CONNECTION_CALLS": "1000",
            **{f"SPECTACULAR_BID_{name.upper()}": str(value) for name, value in more.items()},
        }

    async def row(self, query: str, *arguments: object) -> asyncpg.Record:
        """The one row of a query."""
        row = await self.pool.fetchrow(query, *arguments)
        assert row is not None
        return row

    async def start(self, name: str = "matchmaking", *, ready: bool = True, **settings: object) -> Process:
        """A matchmaking process; players and game processes speak to the one started last."""
        process = await self.stack.enter_async_context(
            running("services.matchmaking", env=self.env(**settings), log_dir=self.folder / "logs", name=name)
        )
        self.processes.append(process)
        listening = await process.event("listening")
        self.address, self.internal = listening["public"], listening["internal"]
        self.channel = await self.stack.enter_async_context(grpc.aio.insecure_channel(self.address))
        if ready:
            await process.ready()
        return process

    def guests(self) -> GuestServiceStub:
        return GuestServiceStub(self.channel)

    def profiles(self) -> PlayerServiceStub:
        return PlayerServiceStub(self.channel)

    def player(self, name: str, *, bot: bool = False) -> Player:
        """A player who speaks to the process started last. The same name is the same player."""
        player_id = f"bot-{name}" if bot else f"player-{name}"
        token, _ = self.issuer.issue(player_id, name, bot=bot)
        return Player(player_id, token, MatchmakingServiceStub(self.channel), LadderServiceStub(self.channel))

    async def game(
        self,
        engine_id: str = "game-1",
        *,
        capacity: int = 1000,
        confirm: bool = True,
        address: str = "127.0.0.1:1",
    ) -> GameProcess:
        """A registered game process."""
        game = GameProcess(engine_id, confirm, address=address)
        running_game = await self.stack.enter_async_context(_background(game.run(self.internal, capacity)))
        game.leave = running_game.cancel
        welcome = asyncio.create_task(game.welcome.wait())
        async with asyncio.timeout(SECONDS_MAX):
            await asyncio.wait({welcome, running_game}, return_when=asyncio.FIRST_COMPLETED)
        if not welcome.done():
            welcome.cancel()
            await running_game
        return game

    async def finish(self, match_id: str, winner: str | None, cause: str = "resignation") -> None:
        """What a game process stores when a match ends."""
        async with self.pool.acquire() as connection, connection.transaction():
            await end_match(connection, match_id, winner, cause)


async def end_match(connection: Any, match_id: str, winner: str | None, cause: str) -> None:
    """Outcome and freed seats, inside the caller's transaction."""
    await connection.execute(
        """
        insert into match_outcome (match_id, winner, cause, fence, north_balance, south_balance)
        values ($1, $2, $3, 1, $4, 300 - $4)
        """,
        uuid.UUID(match_id),
        winner,
        cause,
        150 if cause != "balance" else 300 * (winner == "north"),
    )
    await connection.execute("delete from live_seat where match_id = $1", uuid.UUID(match_id))
    await connection.execute(
        "update match_owner set released_at = now() where match_id = $1", uuid.UUID(match_id)
    )


@asynccontextmanager
async def _background(work: Any) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def eventually(check: Callable[[], Awaitable[bool]]) -> None:
    """Wait until `check` holds: for what the database or another process does in its own time."""
    async with asyncio.timeout(SECONDS_MAX):
        while not await check():  # noqa: ASYNC110 - the event is in another process
            await asyncio.sleep(0.01)
