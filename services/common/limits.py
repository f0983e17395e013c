"""How much one player, one address and all together may ask of a process, and what whoever asks for more is told.

A process that is never idle hears nobody, and time in which it cannot be shown to have listened is credited: whoever
could keep it busy alone would buy time, or a void match. So nobody gets so much of it, by whatever call, with a token or
without one, refused or not. Far more than hands or honest bots need is allowed.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import grpc

from services.common.allowance import Allowance, Places, Rate
from services.common.auth import Identity
from services.common.errors import ServiceError
from services.common.peers import Network, Peers, customer

PLAYER_CALLS_PER_SECOND: Final = 50.0
PLAYER_SECONDS: Final = 6.0
PLAYER_RATE: Final = Rate(PLAYER_CALLS_PER_SECOND, PLAYER_CALLS_PER_SECOND * PLAYER_SECONDS)
"""Of the calls and commands of a player on one process. Hands need one a second, bots that do not wait some fifteen."""
ADDRESS_CALLS_PER_SECOND: Final = 150.0
ADDRESS_SECONDS: Final = 4.0
"""What an address may ask at once is what it may ask in so long: a household that comes back after an outage."""
ADDRESS_RATE: Final = Rate(ADDRESS_CALLS_PER_SECOND, ADDRESS_CALLS_PER_SECOND * ADDRESS_SECONDS)
OWN_RATE: Final = Rate(per_second=2.0, at_once=10.0)
"""Of the commands of a player on a stream that stands, whatever others at that address ask for: as much as hands need."""
CUSTOMER_SHARE: Final = 4
"""How many addresses' worth the networks of one IPv6 customer have together: a /48 is 65,536 addresses, as they count."""
GUESTS_ADDRESS_RATE: Final = Rate(per_second=0.1, at_once=20.0)
"""Of new guests from one address: each makes another player, with an allowance of its own."""
GUESTS_RATE: Final = Rate(per_second=5.0, at_once=100.0)
"""Of new guests in all, whoever makes them."""

ADDRESS_OPEN_CALLS: Final = 600
OPEN_CALLS: Final = 25_000
"""Calls under way at once, of one address and in all: streams are calls that last."""
PLAYER_STREAMS: Final = 32

DEAR_COST: Final = 10.0
"""Opening a stream, and a call that the database must answer, are as much work as so many commands."""
RESET_COST: Final = 5.0
"""A call that its caller takes back has cost its work all the same, and asking for nothing is no use to anybody."""
CHEAP: Final = frozenset(
    {
        "/spectacularbid.match.v1.MatchService/Submit",
        "/spectacularbid.match.v1.MatchService/GetMatch",
        "/spectacularbid.rules.v1.RulesService/GetRules",
        "/grpc.health.v1.Health/Check",
    }
)
"""Calls that are answered from memory, at once. All others are dear."""
GUEST_METHOD: Final = "/spectacularbid.identity.v1.GuestService/CreateGuest"

REFUSAL_SECONDS: Final = 5.0
"""How long a call that comes too soon waits for its refusal: to refuse is nearly as much work as to answer, and whoever
was refused at once would ask again at once."""
CONNECTION_CALLS: Final = 250
"""Calls under way on one connection. A house bot sits at as many tables of a process."""
HELD_ADDRESS_MAX: Final = 4 * CONNECTION_CALLS
HELD_MAX: Final = 4 * HELD_ADDRESS_MAX
"""Refusals that wait, of one address and in all. Beyond that they are told at once: what waits needs memory."""
PLACE_SECONDS: Final = 5.0
"""When to come back for a place: others leave theirs when they like, so this is not known, and sooner is no use."""
ALL: Final = "all"
"""The key of what is limited for everybody together."""


class Limit(StrEnum):
    """The limits by name, as refusals (metadata `limit`) and metrics call them."""

    ADDRESS_CALLS = "address_calls"
    PLAYER_CALLS = "player_calls"
    ADDRESS_GUESTS = "address_guests"
    GUESTS = "guests"
    ADDRESS_OPEN_CALLS = "address_open_calls"
    OPEN_CALLS = "open_calls"
    PLAYER_STREAMS = "player_streams"
    FIRST_MESSAGE = "first_message"
    MESSAGE_BYTES = "message_bytes"
    METADATA_BYTES = "metadata_bytes"
    QUESTIONS = "questions"
    SLOW_READER = "slow_reader"
    OTHER = "other"


class LimitError(ServiceError):
    """RESOURCE_EXHAUSTED, LIMIT_REACHED: one of the limits above."""

    def __init__(self, limit: Limit, message: str, after_seconds: float, *, held: bool = False) -> None:
        super().__init__(
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "LIMIT_REACHED",
            message,
            metadata={"limit": limit.value},
            retry_after_seconds=after_seconds,
        )
        self.limit = limit
        self.held = held
        """The refusal waits a while before it is told."""


@dataclass(frozen=True)
class Policy:
    """How high the limits of a server are."""

    address_calls: Rate = ADDRESS_RATE
    address_open_calls: int = ADDRESS_OPEN_CALLS
    open_calls: int = OPEN_CALLS
    player_streams: int = PLAYER_STREAMS
    player_calls: Rate = PLAYER_RATE
    address_guests: Rate = GUESTS_ADDRESS_RATE
    guests: Rate = GUESTS_RATE
    addresses: bool = True
    """False: no address is limited, nor are guests. One machine plays everybody, as in tests."""
    proxies: tuple[Network, ...] = ()
    refusal_seconds: float = REFUSAL_SECONDS


@dataclass
class Limits:
    """What is left to whom, on one server."""

    policy: Policy = field(default_factory=Policy)
    now: Callable[[], float] = time.monotonic
    peers: Peers = field(init=False)
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    """Set: nobody is kept waiting any more."""

    def __post_init__(self) -> None:
        policy = self.policy
        self.peers = Peers(policy.proxies)
        self.address_calls = Allowance(policy.address_calls, self.now)
        self.customer_calls = Allowance(policy.address_calls.times(CUSTOMER_SHARE), self.now)
        self.player_calls = Allowance(policy.player_calls, self.now)
        self.own_commands = Allowance(OWN_RATE, self.now)
        self.address_guests = Allowance(policy.address_guests, self.now)
        self.customer_guests = Allowance(policy.address_guests.times(CUSTOMER_SHARE), self.now)
        self.guests = Allowance(policy.guests, self.now)
        self.open_calls = Places(policy.open_calls)
        self.address_open_calls = Places(policy.address_open_calls)
        self.customer_open_calls = Places(CUSTOMER_SHARE * policy.address_open_calls)
        self.player_streams = Places(policy.player_streams)
        self.held = Places(HELD_ADDRESS_MAX)

    def visit(self, method: str, peer: str, metadata: Iterable[tuple[str, str | bytes]]) -> Visit:
        """A call that begins."""
        return Visit(self, method, self.peers.address(peer, metadata), peer)


class Visit:
    """One call, and what it spends."""

    def __init__(self, limits: Limits, method: str, address: str, peer: str) -> None:
        self._peer = peer
        self._limits = limits
        self._method = method
        self.address = address
        self._customer = customer(address)
        self._cost = 1.0 if method in CHEAP else DEAR_COST
        self._player: str | None = None
        self._unlimited = False
        self._places: list[tuple[Places, str]] = []

    def enter(self) -> None:
        """The call spends what it costs the address, and takes its places. Raises LimitError."""
        limits, policy, address = self._limits, self._limits.policy, self.address
        if policy.addresses:
            # Before any place is looked at: who is refused one, over and over, spends as well.
            self._spend(limits.address_calls, address, self._cost, Limit.ADDRESS_CALLS)
            self._spend(limits.customer_calls, self._customer, self._cost, Limit.ADDRESS_CALLS)
            if self._method == GUEST_METHOD:
                self._spend(limits.address_guests, address, 1.0, Limit.ADDRESS_GUESTS)
                self._spend(limits.customer_guests, self._customer, 1.0, Limit.ADDRESS_GUESTS)
                self._spend(limits.guests, ALL, 1.0, Limit.GUESTS)
            self._take(limits.address_open_calls, address, Limit.ADDRESS_OPEN_CALLS)
            self._take(limits.customer_open_calls, self._customer, Limit.ADDRESS_OPEN_CALLS)
        self._take(limits.open_calls, ALL, Limit.OPEN_CALLS)

    def known(self, identity: Identity, *, stream: bool) -> None:
        """Whose call it is. Raises LimitError."""
        limits = self._limits
        if identity.bot:
            # A house bot sits at as many tables as there are people who ask for it.
            self._unlimited = True
            self._charge(-self._cost)
            self._leave(limits.address_open_calls)
            self._leave(limits.customer_open_calls)
            return
        self._player = player = identity.player_id
        self._spend(limits.player_calls, player, self._cost, Limit.PLAYER_CALLS)
        if stream:
            self._take(limits.player_streams, player, Limit.PLAYER_STREAMS)

    def pay(self, cost: float) -> None:
        """More than the call seemed to need. Raises LimitError."""
        self._pay(cost, held=True)

    def pay_at_once(self, cost: float) -> None:
        """For a command on a stream. Raises LimitError, which ends the stream without delay."""
        try:
            self._pay(cost, held=False)
        except LimitError as error:
            # Behind one address there may be many, and the clock of whoever is not heard runs.
            ours = error.limit is Limit.ADDRESS_CALLS and self._player is not None
            if not ours or self._limits.own_commands.wait(str(self._player), cost):
                raise

    def _pay(self, cost: float, *, held: bool) -> None:
        if self._unlimited:
            return
        limits = self._limits
        if self._player is not None:
            self._spend(limits.player_calls, self._player, cost, Limit.PLAYER_CALLS, held=held)
        if limits.policy.addresses:
            self._spend(limits.address_calls, self.address, cost, Limit.ADDRESS_CALLS, held=held)
            self._spend(limits.customer_calls, self._customer, cost, Limit.ADDRESS_CALLS, held=held)

    def taken_back(self) -> None:
        """The caller did not wait for the answer."""
        if not self._unlimited:
            self._charge(RESET_COST)

    def _charge(self, cost: float) -> None:
        self._limits.address_calls.charge(self.address, cost)
        if self._customer is not None:
            self._limits.customer_calls.charge(self._customer, cost)

    def leave(self) -> None:
        """The call is over."""
        for places, _ in list(self._places):
            self._leave(places)

    async def hold(self) -> None:
        """Waits before a refusal is told, if not too many wait already. Taking the call back does not shorten it: the
        library counts the place on the connection as taken until this call is gone. On the connection of a proxy it
        does: the places there are everybody's, and the proxy would send others' calls into those that seem free."""
        limits = self._limits
        if limits.held.taken >= HELD_MAX or not limits.held.take(self.address):
            return
        until = asyncio.get_running_loop().time() + limits.policy.refusal_seconds
        try:
            await self._wait(until)
        except asyncio.CancelledError:
            self.taken_back()
            if not limits.peers.is_proxy(self._peer):
                await self._wait(until)
            raise
        finally:
            limits.held.leave(self.address)

    async def _wait(self, until: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await self._limits.closing.wait()

    def _leave(self, places: Places) -> None:
        for taken in [each for each in self._places if each[0] is places]:
            self._places.remove(taken)
            places.leave(taken[1])

    def _take(self, places: Places, key: str | None, limit: Limit) -> None:
        if key is None:
            return
        if not places.take(key):
            message = f"at most {places.most} at once, which is the limit {limit.value}"
            raise LimitError(limit, message, PLACE_SECONDS)
        self._places.append((places, key))

    @staticmethod
    def _spend(
        allowance: Allowance, key: str | None, cost: float, limit: Limit, *, held: bool = True
    ) -> None:
        if key is not None and (wait := allowance.wait(key, cost)):
            raise LimitError(limit, "too many calls and commands in a short time", wait, held=held)


_visit: contextvars.ContextVar[Visit] = contextvars.ContextVar("visit")


def set_visit(visit: Visit) -> None:
    """Names the running call (the guard does this)."""
    _visit.set(visit)


def visit() -> Visit:
    """The running call. Raises LookupError outside of one."""
    return _visit.get()
