"""Channels to the services, and calls that are repeated until they are answered."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import grpc

from client.errors import CallError, UnreachableError, from_rpc
from spectacularbid.identity.v1.guest_service_pb2_grpc import GuestServiceStub
from spectacularbid.identity.v1.player_service_pb2_grpc import PlayerServiceStub
from spectacularbid.ladder.v1.ladder_service_pb2_grpc import LadderServiceStub
from spectacularbid.match.v1.match_service_pb2_grpc import MatchServiceStub
from spectacularbid.matchmaking.v1.matchmaking_service_pb2_grpc import MatchmakingServiceStub
from spectacularbid.rules.v1.rules_service_pb2_grpc import RulesServiceStub

T = TypeVar("T")
Metadata = tuple[tuple[str, str], ...]

PATIENCE_SECONDS: Final = 30.0
"""How long a call is repeated before UnreachableError."""
ATTEMPT_SECONDS: Final = 10.0
"""How long one attempt may take: a network that swallows everything must not hold a call for ever."""
_REDIRECTS_MAX: Final = 5
_RENEWAL_SECONDS: Final = 5.0
# The last one also for a token whose key has gone.
_TOKEN_ENDED: Final = frozenset({"TOKEN_EXPIRED", "TOKEN_REVOKED", "TOKEN_INVALID"})
_GRACE_SECONDS: Final = 20.0

_OPTIONS: Final[list[tuple[str, Any]]] = [
    # The servers allow a ping every 10 s; a dead connection is noticed within 17 s even on a quiet stream.
    ("grpc.keepalive_time_ms", 12_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 0),
    # A player's clock runs while we are not connected: try again soon, always.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Otherwise a new channel would share the dead connection of the one it replaces.
    ("grpc.use_local_subchannel_pool", 1),
]


class Backoff:
    """Growing pauses with jitter; what the service asks for comes first."""

    def __init__(self, first_seconds: float = 0.05, longest_seconds: float = 2.0) -> None:
        self._first = first_seconds
        self._longest = longest_seconds
        self._failures = 0

    def reset(self) -> None:
        """After a success: the next pause is short again."""
        self._failures = 0

    def next_seconds(self, asked_seconds: float | None = None) -> float:
        """The pause before the next attempt. Never shorter than what was asked for."""
        longest = min(self._longest, self._first * 2.0 ** min(self._failures, 16))
        self._failures += 1
        jitter = longest * random.uniform(0.5, 1.0)  # noqa: S311  spreads load, guards nothing
        return jitter if asked_seconds is None else asked_seconds + jitter * 0.2


async def persist(attempt: Callable[[], Awaitable[T]], *, patience_seconds: float = PATIENCE_SECONDS) -> T:
    """The first answer of `attempt`, repeated while the failure says that repeating is safe.

    Raises the CallError that ends it, or UnreachableError after `patience_seconds`.
    """
    backoff = Backoff()
    give_up = time.monotonic() + patience_seconds
    while True:
        try:
            return await attempt()
        except grpc.aio.AioRpcError as problem:
            error = from_rpc(problem)
        except CallError as problem:
            error = problem
        if not error.retryable:
            raise error
        pause = backoff.next_seconds(error.retry_after_seconds)
        if time.monotonic() + pause > give_up:
            raise UnreachableError(f"no answer in {patience_seconds:.0f} s; the last was {error}") from error
        await asyncio.sleep(pause)


class Service:
    """One address: its channel and the stubs on it."""

    def __init__(self, address: str, credentials: grpc.ChannelCredentials | None) -> None:
        self.channel = (
            grpc.aio.insecure_channel(address, options=_OPTIONS)
            if credentials is None
            else grpc.aio.secure_channel(address, credentials, options=_OPTIONS)
        )
        self.matches = MatchServiceStub(self.channel)
        self.matchmaking = MatchmakingServiceStub(self.channel)
        self.ladder = LadderServiceStub(self.channel)
        self.guests = GuestServiceStub(self.channel)
        self.players = PlayerServiceStub(self.channel)
        self.rules = RulesServiceStub(self.channel)


class Addresses:
    """The processes of one service, of which any may be the one that answers: that one is kept to until it fails."""

    def __init__(self, listed: str) -> None:
        """`listed` is `host:port`, or several of them with commas between."""
        self._all = tuple(part.strip() for part in listed.split(","))
        if not all(self._all):
            raise ValueError(f"not host:port, nor several with commas between: {listed!r}")
        self._place = 0

    @property
    def current(self) -> str:
        """The address to be asked now."""
        return self._all[self._place]

    def failed(self, address: str) -> None:
        """It did not answer, or said that another process leads: the next one is asked from now on."""
        if address == self.current:
            self._place = (self._place + 1) % len(self._all)


def _metadata(token: str | None) -> Metadata:
    return () if token is None else (("authorization", f"Bearer {token}"),)


class Connections:
    """All the addresses one player talks to, with the player's token."""

    def __init__(
        self,
        token: str | None,
        credentials: grpc.ChannelCredentials | None = None,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
        new_token: Callable[[], Awaitable[str]] | None = None,
    ) -> None:
        """`new_token` is asked for another token when the one that is used counts no more."""
        self.metadata: Metadata = _metadata(token)
        self._new_token = new_token
        self._renewing = asyncio.Lock()
        self._renewed_at = -_RENEWAL_SECONDS
        self.patience_seconds = patience_seconds
        """How long a call is repeated before UnreachableError."""
        self._credentials = credentials
        self._services: dict[str, Service] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def renewed(self, error: CallError, used: Metadata) -> bool:
        """Whether there is another token than in `used`, with which a call failed so. Raises what asking for one does."""
        if self._new_token is None or error.reason not in _TOKEN_ENDED:
            return False
        async with self._renewing:
            # One of those who failed has asked; a token that is no good at once is not asked for without end.
            if self.metadata != used:
                return True
            if time.monotonic() - self._renewed_at < _RENEWAL_SECONDS:
                return False
            self.metadata = _metadata(await self._new_token())
            self._renewed_at = time.monotonic()
            return self.metadata != used

    def at(self, address: str) -> Service:
        """The service at `host:port`; connects when it is first used."""
        service = self._services.get(address)
        if service is None:
            service = self._services[address] = Service(address, self._credentials)
        return service

    def renew(self, address: str, dead: Service) -> None:
        """Take a new connection next time, since this one is silent. Others may still finish on the old one."""
        if self._services.get(address) is dead:
            del self._services[address]
            task = asyncio.create_task(dead.channel.close(_GRACE_SECONDS))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def ask(
        self,
        addresses: Addresses,
        method: Callable[[Service], grpc.aio.UnaryUnaryMultiCallable[Any, T]],
        request: Any,
    ) -> T:
        """A unary call that is safe to repeat, to whichever process answers it. Raises CallError or UnreachableError."""

        async def attempt() -> T:
            address = addresses.current
            try:
                return await self._attempt(address, method, request)
            except grpc.aio.AioRpcError as error:
                if from_rpc(error).retryable:
                    addresses.failed(address)
                raise

        return await persist(attempt, patience_seconds=self.patience_seconds)

    async def call(
        self,
        address: str,
        method: Callable[[Service], grpc.aio.UnaryUnaryMultiCallable[Any, T]],
        request: Any,
    ) -> T:
        """A unary call that is safe to repeat; follows the match when another process owns it.

        Raises CallError (Refused among them) or UnreachableError.
        """
        for _ in range(_REDIRECTS_MAX):
            try:
                return await self._call(address, method, request)
            except CallError as error:
                elsewhere = error.metadata.get("address", "")
                if error.reason != "WRONG_ADDRESS" or elsewhere in ("", address):
                    raise
                address = elsewhere
        raise UnreachableError("the match keeps moving from process to process")

    async def _call(
        self,
        address: str,
        method: Callable[[Service], grpc.aio.UnaryUnaryMultiCallable[Any, T]],
        request: Any,
    ) -> T:
        async def attempt() -> T:
            return await self._attempt(address, method, request)

        return await persist(attempt, patience_seconds=self.patience_seconds)

    async def _attempt(
        self,
        address: str,
        method: Callable[[Service], grpc.aio.UnaryUnaryMultiCallable[Any, T]],
        request: Any,
    ) -> T:
        service, metadata = self.at(address), self.metadata
        try:
            return await method(service)(request, metadata=metadata, timeout=ATTEMPT_SECONDS)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                self.renew(address, service)
            if not await self.renewed(from_rpc(error), metadata):
                raise
        return await method(service)(request, metadata=self.metadata, timeout=ATTEMPT_SECONDS)

    async def close(self) -> None:
        """Close every channel; streams on them end."""
        services, self._services = list(self._services.values()), {}
        for task in self._closing:
            task.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)
        for service in services:
            await service.channel.close()
