"""The stack under test as seen from outside: its addresses, guests to play with, calls that are repeated where safe."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import grpc

from client.conformance.check import BrokenError, NotHereError, expect
from client.connection import persist
from client.errors import CallError, UnreachableError, from_rpc
from spectacularbid.identity.v1 import guest_service_pb2
from spectacularbid.identity.v1.guest_service_pb2_grpc import GuestServiceStub
from spectacularbid.identity.v1.player_service_pb2_grpc import PlayerServiceStub
from spectacularbid.ladder.v1.ladder_service_pb2_grpc import LadderServiceStub
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1.match_service_pb2_grpc import MatchServiceStub
from spectacularbid.matchmaking.v1 import matchmaking_service_pb2
from spectacularbid.matchmaking.v1.matchmaking_service_pb2_grpc import MatchmakingServiceStub
from spectacularbid.rules.v1.rules_service_pb2_grpc import RulesServiceStub

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from client.conformance.played import Played

T = TypeVar("T")
Metadata = tuple[tuple[str, str], ...]

CALL_SECONDS: Final = 20.0
"""How long one attempt of a call may take, and the next message of a stream that owes one."""
PATIENCE_SECONDS: Final = 30.0
"""How long a call that is answered with UNAVAILABLE is repeated."""
_FIRST_PATIENCE_SECONDS: Final = 5.0
"""The same for the very first call: whoever mistyped the address wants to hear it soon."""
CASUAL: Final = matchmaking_service_pb2.POOL_CASUAL


@dataclass(frozen=True, slots=True)
class Guest:
    """Somebody who was made for a check."""

    player_id: str
    name: str
    metadata: Metadata


def new_id() -> str:
    """A request id."""
    return str(uuid.uuid4())


class Bench:
    """A stack, by address. An async context manager: connections are closed at its end."""

    def __init__(
        self, server: str, game: str | None = None, credentials: grpc.ChannelCredentials | None = None
    ) -> None:
        """`server` answers for matchmaking, ladder and guests, `game` for matches; without it the same address is tried,
        and then whatever a match of matchmaking says."""
        self.server = server
        self._game = game
        self._credentials = credentials
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._finding = asyncio.Lock()
        self._playing = asyncio.Lock()
        self._played: Played | None = None
        self.queue = asyncio.Lock()
        """Held by whoever seeks: two checks must not be each other's opponents."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for channel in self._channels.values():
            await channel.close()

    # Addresses.

    def channel(self, address: str) -> grpc.aio.Channel:
        """One connection to an address, shared by all checks."""
        return self._connected(address, address)

    def _connected(self, name: str, address: str, *more: tuple[str, int]) -> grpc.aio.Channel:
        if name not in self._channels:
            # Repeats are a check's own business: a channel that repeats by itself would hide what it is to see.
            options = [("grpc.enable_retries", 0), ("grpc.max_reconnect_backoff_ms", 1000), *more]
            self._channels[name] = (
                grpc.aio.insecure_channel(address, options)
                if self._credentials is None
                else grpc.aio.secure_channel(address, self._credentials, options)
            )
        return self._channels[name]

    @property
    def seeks(self) -> MatchmakingServiceStub:
        """Matchmaking."""
        return MatchmakingServiceStub(self.channel(self.server))

    @property
    def ladder(self) -> LadderServiceStub:
        """The ladder."""
        return LadderServiceStub(self.channel(self.server))

    @property
    def players(self) -> PlayerServiceStub:
        """Names."""
        return PlayerServiceStub(self.channel(self.server))

    @property
    def rules(self) -> RulesServiceStub:
        """The rules as they are explained to players."""
        return RulesServiceStub(self.channel(self.server))

    def matches(self, address: str) -> MatchServiceStub:
        """The game process at an address."""
        return MatchServiceStub(self.channel(address))

    def slow_matches(self, address: str) -> MatchServiceStub:
        """The same over a connection of its own that takes next to nothing which is not read."""
        return MatchServiceStub(
            self._connected(
                f"{address} slowly",
                address,
                ("grpc.http2.lookahead_bytes", 1024),
                ("grpc.http2.bdp_probe", 0),
            )
        )

    async def answers(self) -> None:
        """Find out whether there is anybody at all. Raises UnreachableError."""
        stub = GuestServiceStub(self.channel(self.server))
        with suppress(CallError):
            request = guest_service_pb2.CreateGuestRequest()
            await self.ask(stub.CreateGuest, request, None, patience_seconds=_FIRST_PATIENCE_SECONDS)

    async def game(self) -> str:
        """Where any game process answers."""
        async with self._finding:
            if self._game is None:
                self._game = await self._find_game()
            return self._game

    async def _find_game(self) -> str:
        guest = await self.guest()
        try:
            request = pb.ListMyMatchesRequest(live_only=True)
            await self.ask(self.matches(self.server).ListMyMatches, request, guest)
        except CallError as error:
            if error.code is not grpc.StatusCode.UNIMPLEMENTED:
                raise
        else:
            return self.server
        # Another address: matchmaking says which, to whoever is matched.
        async with self.queue:
            matched = await self.pair()
            (match_id, address), (one, _) = matched
            await self.resign(address, match_id, one)
            return address

    async def pair(self, pool: matchmaking_service_pb2.Pool.ValueType = CASUAL) -> Pair:
        """Two guests who found each other: the match with its address, and the guests. The caller holds `queue`.

        Raises NotHereError when somebody else was in the queue.
        """
        guests = [await self.guest(), await self.guest()]
        found = await asyncio.gather(*(self.matched(guest, pool) for guest in guests))
        if found[0].match_id != found[1].match_id:
            for guest, matched in zip(guests, found, strict=True):
                with suppress(CallError, UnreachableError):
                    await self.resign(matched.address, matched.match_id, guest)
            raise NotHereError("somebody else seeks an opponent on this stack")
        ordered = sorted(zip(found, guests, strict=True), key=lambda pair: pair[0].seat)
        return (found[0].match_id, found[0].address), (ordered[0][1], ordered[1][1])

    async def matched(
        self, guest: Guest, pool: matchmaking_service_pb2.Pool.ValueType = CASUAL
    ) -> matchmaking_service_pb2.Matched:
        """Seek until there is a match."""
        request = matchmaking_service_pb2.SeekRequest(request_id=new_id(), pool=pool)
        async with asyncio.timeout(PATIENCE_SECONDS):
            async for news in self.seeks.Seek(request, metadata=guest.metadata):
                if news.HasField("matched"):
                    return news.matched
        raise BrokenError("a Seek ended with OK and without a match")

    # Guests and calls.

    async def guest(self) -> Guest:
        """A new player. Raises NotHereError when the stack makes no guests."""
        stub = GuestServiceStub(self.channel(self.server))
        try:
            made = await self.ask(stub.CreateGuest, guest_service_pb2.CreateGuestRequest(), None)
        except CallError as error:
            if error.code is grpc.StatusCode.UNIMPLEMENTED:
                raise NotHereError("this stack makes no guests") from None
            raise
        return Guest(made.player_id, made.name, (("authorization", f"Bearer {made.token}"),))

    async def ask(
        self,
        method: Callable[..., Awaitable[T]],
        request: Any,
        guest: Guest | None,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> T:
        """A unary call, repeated where the answer says so. Raises CallError or UnreachableError."""
        metadata = () if guest is None else guest.metadata
        return await persist(
            lambda: method(request, metadata=metadata, timeout=CALL_SECONDS),
            patience_seconds=patience_seconds,
        )

    async def create(self, creator: Guest, **wanted: Any) -> pb.CreateMatchResponse:
        """An unrated match. Raises NotHereError when `wanted` needs a test configuration and this is none."""
        request = pb.CreateMatchRequest(**{"request_id": new_id(), **wanted})
        try:
            made = await self.ask(self.matches(await self.game()).CreateMatch, request, creator)
        except CallError as error:
            if error.reason == "TEST_ONLY":
                raise NotHereError("needs a stack in the test configuration") from None
            raise
        expect(made.match_id, "CreateMatch was answered without a match_id")
        return made

    async def resign(self, address: str, match_id: str, guest: Guest) -> None:
        """End a match: press Start, so that it can be resigned, and resign."""
        stub = self.matches(address)
        for command in (pb.Command(start=pb.Start()), pb.Command(resign=pb.Resign())):
            view = await self.ask(stub.GetMatch, pb.GetMatchRequest(match_id=match_id), guest)
            request = pb.SubmitRequest(
                match_id=match_id,
                request_id=new_id(),
                decision_id=view.snapshot.table.prompt.decision_id,
                command=command,
            )
            with suppress(
                CallError
            ):  # before both have pressed Start nobody resigns: the start limit ends it
                await self.ask(stub.Submit, request, guest)

    async def played(self) -> Played:
        """The one whole match that several checks look at; played by whoever asks first."""
        from client.conformance.played import play_one

        async with self._playing:
            if self._played is None:
                self._played = await play_one(self)
            return self._played


Pair = tuple[tuple[str, str], tuple[Guest, Guest]]
"""(match id, address), (guest of north, guest of south)."""


async def failure(call: Awaitable[object]) -> CallError:
    """The error that must come of a call. Raises BrokenError when it is answered."""
    try:
        async with asyncio.timeout(CALL_SECONDS):
            answer = await call
    except CallError as error:
        return error
    except grpc.aio.AioRpcError as error:
        return from_rpc(error)
    except TimeoutError:
        raise BrokenError(f"no answer within {CALL_SECONDS:.0f} s") from None
    raise BrokenError(f"an error was due, and the answer was {type(answer).__name__}")


def expect_error(error: CallError, code: grpc.StatusCode, reason: str) -> None:
    """Raise BrokenError unless the error has this status and this reason in its ErrorInfo."""
    expect(
        (error.code, error.reason) == (code, reason),
        f"{code.name} with reason {reason} was due, and it was {error.code.name} with "
        + (f"reason {error.reason}" if error.reason else "no ErrorInfo of our domain"),
    )
