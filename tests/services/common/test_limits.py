"""The limits of callers, on real servers: every call of the public services, with a token and without."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from prometheus_client import CollectorRegistry

from services.common.allowance import Rate
from services.common.auth import Identity
from services.common.channels import Options
from services.common.errors import ServiceError, limit_reached
from services.common.guard import MESSAGE_BYTES_MAX, METADATA_BYTES_MAX, Guard
from services.common.host import SERVER_OPTIONS
from services.common.limits import (
    CUSTOMER_SHARE,
    GUEST_METHOD,
    OWN_RATE,
    RESET_COST,
    Limit,
    LimitError,
    Limits,
    Policy,
)
from services.common.metrics import LimitMetrics, RpcMetrics
from services.common.peers import read_networks
from tests.seats import SECONDS_MAX, eventually

PUBLIC = ("match", "matchmaking", "ladder", "identity", "rules")
MODULES = {
    "match": ["match_service"],
    "matchmaking": ["matchmaking_service"],
    "ladder": ["ladder_service"],
    "identity": ["guest_service", "player_service"],
    "rules": ["rules_service"],
}
ROOMY = Rate(per_second=0.001, at_once=1_000_000.0)
SPENT = Rate(per_second=0.5, at_once=0.5)
"""Nobody can ask for anything: whatever is let in is not limited."""
POLICY = Policy(address_calls=ROOMY, player_calls=ROOMY, refusal_seconds=0.0)
OPEN = [
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    "/spectacularbid.match.v1.MatchService/NoSuchMethod",
    "/no.such.Service/Method",
]


class Answer(NamedTuple):
    """How a call ended."""

    code: grpc.StatusCode
    reason: str
    limit: str
    retry_seconds: float | None


def methods() -> list[MethodDescriptor]:
    """Every call of the public services."""
    found = []
    for package in PUBLIC:
        for module in MODULES[package]:
            pb = importlib.import_module(f"spectacularbid.{package}.v1.{module}_pb2")
            for service in pb.DESCRIPTOR.services_by_name.values():
                found += service.methods
    return found


def path(method: MethodDescriptor) -> str:
    """As HTTP/2 calls it."""
    return f"/{method.containing_service.full_name}/{method.name}"


def test_all_public_services_are_walked() -> None:
    """Whatever is added is limited, or this fails."""
    names = {method.containing_service.full_name for method in methods()}
    assert len(names) == 6
    assert len(methods()) >= 19


def gate(method: str, token: str | None) -> Identity | None:
    """A token is a player's id."""
    if token is None:
        if method == GUEST_METHOD:
            return None
        raise ServiceError(grpc.StatusCode.UNAUTHENTICATED, "TOKEN_INVALID", "there is no token")
    return Identity(token, token, bot=token.startswith("bot-"), roles=frozenset())


class Served(NamedTuple):
    """A server with all public services, none of which does anything: what a call costs is spent before."""

    address: str
    channel: grpc.aio.Channel
    limits: Limits
    registry: CollectorRegistry

    def refused(self, limit: Limit) -> float | None:
        """How often the metric says so."""
        return self.registry.get_sample_value("spectacular_bid_limit_refusals_total", {"limit": limit.value})


@asynccontextmanager
async def served(
    policy: Policy = POLICY, *, watch: Any = None, options: Options = (), **more: Any
) -> AsyncIterator[Served]:
    """Such a server; `watch` says something in MatchService.Watch after all."""
    registry = CollectorRegistry()
    limits = Limits(policy, time.monotonic)
    guard = Guard(gate, RpcMetrics(registry), limits, LimitMetrics(registry), **more)
    all_options = [*SERVER_OPTIONS, ("grpc.max_receive_message_length", 4 * MESSAGE_BYTES_MAX), *options]
    server = grpc.aio.server(interceptors=[guard], options=all_options)
    for package in PUBLIC:
        for module in MODULES[package]:
            generated = importlib.import_module(f"spectacularbid.{package}.v1.{module}_pb2_grpc")
            for name in list(vars(generated)):
                if name.endswith("Servicer") and not name.startswith("add_"):
                    idle = _idle(getattr(generated, name), watch)
                    getattr(generated, f"add_{name}_to_server")(idle, server)
    healthy = health.aio.HealthServicer()
    await healthy.set("", health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(healthy, server)
    reflection.enable_server_reflection([reflection.SERVICE_NAME], server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.max_send_message_length", -1)])
    try:
        yield Served(f"127.0.0.1:{port}", channel, limits, registry)
    finally:
        await channel.close()
        guard.close()
        await server.stop(0)


def _idle(kind: Any, watch: Any) -> Any:
    """Its calls last until they are taken back."""

    async def unary(_self: Any, _request: Any, _context: Any) -> Any:
        await asyncio.Event().wait()

    async def stream(_self: Any, request: Any, _context: Any) -> AsyncIterator[Any]:
        if hasattr(request, "__anext__"):
            await anext(request)
        await asyncio.Event().wait()
        yield None

    made: Any = type("Idle", (kind,), {})
    for name in dir(kind):
        if name[0].isupper():
            method = next(each for each in methods() if each.name == name and _of(each, kind))
            setattr(made, name, stream if method.server_streaming else unary)
    if watch is not None and hasattr(kind, "Watch"):
        made.Watch = lambda self, request, context: watch(self, request, context)
    return made()


def _of(method: MethodDescriptor, kind: Any) -> bool:
    return bool(kind.__name__ == f"{method.containing_service.name}Servicer")


async def ask(channel: grpc.aio.Channel, method: str, player: str | None = None, body: bytes = b"") -> Answer:
    """How such a call ends, whatever its kind: on the wire all are alike."""
    metadata = () if player is None else (("authorization", f"Bearer {player}"),)
    # The message goes out with the call: written afterwards, it may meet a refusal that was sooner.
    asked: Any = channel.unary_stream(method)
    return await answer(asked(body, metadata=metadata))


async def answer(call: Any) -> Answer:
    """How it ended."""
    with contextlib.suppress(grpc.aio.AioRpcError):
        async with asyncio.timeout(SECONDS_MAX):
            async for _ in call:
                pass
    code = await call.code()
    reason, limit, retry = "", "", None
    for key, value in await call.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            for detail in status_pb2.Status.FromString(value).details:
                info, delay = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
                if detail.Unpack(info):
                    reason, limit = info.reason, info.metadata.get("limit", "")
                if detail.Unpack(delay):
                    retry = delay.retry_delay.ToTimedelta().total_seconds()
    return Answer(code, reason, limit, retry)


def refused(limit: Limit, found: Answer) -> bool:
    """Whether it is a refusal by that limit, as every refusal is."""
    expected = (grpc.StatusCode.RESOURCE_EXHAUSTED, "LIMIT_REACHED", limit.value)
    return bool(found[:3] == expected and found.retry_seconds)


async def test_every_public_call_is_limited_for_each_address() -> None:
    """With a token, without one, and of methods that there are not; before anything else is looked at."""
    paths = [path(method) for method in methods()]
    async with served(replace(POLICY, address_calls=SPENT)) as made:
        for player in ("ann", None):
            asked = [ask(made.channel, each, player) for each in [*paths, *OPEN]]
            found = dict(zip([*paths, *OPEN], await asyncio.gather(*asked), strict=True))
            assert [each for each in found if not refused(Limit.ADDRESS_CALLS, found[each])] == []
        assert made.refused(Limit.ADDRESS_CALLS) == 2 * len([*paths, *OPEN])


async def test_every_call_with_a_token_is_limited_for_each_player() -> None:
    """On whatever address."""
    async with served(replace(POLICY, player_calls=SPENT)) as made:
        paths = [path(method) for method in methods()]
        found = dict(
            zip(paths, await asyncio.gather(*(ask(made.channel, each, "ann") for each in paths)), strict=True)
        )
        assert [each for each in paths if not refused(Limit.PLAYER_CALLS, found[each])] == []


async def test_every_call_takes_a_place_of_its_address_and_gives_it_back() -> None:
    """However it ends; streams are calls that last."""
    paths = [path(method) for method in methods()]
    async with served(replace(POLICY, address_open_calls=1)) as made:
        one: Any = made.channel.stream_stream(paths[0])(metadata=(("authorization", "Bearer ben"),))
        await one.write(b"")

        async def taken() -> bool:
            return made.limits.open_calls.taken == 1

        await eventually(taken)
        for each in [*paths, *OPEN]:
            assert refused(Limit.ADDRESS_OPEN_CALLS, await ask(made.channel, each, "ann")), each
        one.cancel()

        async def free() -> bool:
            return made.limits.open_calls.taken == 0

        await eventually(free)
        assert (await ask(made.channel, OPEN[0])).code is grpc.StatusCode.OK


async def test_all_places_together_are_limited_too() -> None:
    """Many addresses fill a process as well as one."""
    async with served(replace(POLICY, open_calls=0)) as made:
        assert refused(Limit.OPEN_CALLS, await ask(made.channel, OPEN[0]))


async def test_streams_are_limited_for_each_player_and_a_house_bot_has_as_many_as_it_likes() -> None:
    """It sits at as many tables as there are people who ask for it, and nothing of it is counted."""
    streams = [path(method) for method in methods() if method.server_streaming]
    assert len(streams) >= 3
    async with served(replace(POLICY, address_open_calls=1, player_streams=0, player_calls=SPENT)) as made:
        for each in streams:
            call: Any = made.channel.stream_stream(each)(metadata=(("authorization", "Bearer bot-easy"),))
            await call.write(b"")
            await call.done_writing()

        async def all_there() -> bool:
            return made.limits.open_calls.taken == len(streams)

        await eventually(all_there)
    async with served(replace(POLICY, player_streams=0)) as made:
        for each in streams:
            assert refused(Limit.PLAYER_STREAMS, await ask(made.channel, each, "ann"))


async def test_limits_that_a_service_has_of_its_own_are_counted_together() -> None:
    """Seeks, created matches, commands that wait: under no name, but counted."""

    async def full(_self: Any, _request: Any, _context: Any) -> AsyncIterator[Any]:
        raise limit_reached("there is no room")
        yield  # type: ignore[unreachable]

    async with served(watch=full) as made:
        found = await ask(made.channel, "/spectacularbid.match.v1.MatchService/Watch", "ann")
        assert (found.reason, found.retry_seconds) == ("LIMIT_REACHED", 1.0)
        assert made.refused(Limit.OTHER) == 1


async def test_a_stream_that_stands_is_heard_whatever_others_at_its_address_ask_for() -> None:
    """Behind one address there may be thousands: as many commands as hands need are a player's own."""
    limits = Limits(replace(POLICY, address_calls=Rate(per_second=0.001, at_once=12.0)), lambda: 0.0)
    stream = limits.visit(path(methods()[0]), "ipv4:198.51.100.7:4000", ())
    stream.enter()
    stream.known(Identity("ann", "ann", bot=False, roles=frozenset()), stream=True)
    while not limits.address_calls.wait("198.51.100.7"):
        pass
    for _ in range(int(OWN_RATE.at_once)):
        stream.pay_at_once(1.0)
    with pytest.raises(LimitError) as error:
        stream.pay_at_once(1.0)
    assert error.value.limit is Limit.ADDRESS_CALLS


async def test_guests_are_limited_for_each_address_and_in_all() -> None:
    """Each guest is another player, with another allowance."""
    async with served(replace(POLICY, address_guests=SPENT)) as made:
        assert refused(Limit.ADDRESS_GUESTS, await ask(made.channel, GUEST_METHOD))
    async with served(replace(POLICY, guests=SPENT)) as made:
        assert refused(Limit.GUESTS, await ask(made.channel, GUEST_METHOD))


async def test_what_is_too_large_is_refused_with_a_reason() -> None:
    """A message, and the metadata of a call, above our limit and below that of the library."""
    async with served() as made:
        method = path(methods()[0])
        too_large = b"\x0a\x80\x80\x05" + b"x" * (MESSAGE_BYTES_MAX + 16 * 1024)
        assert refused(Limit.MESSAGE_BYTES, await ask(made.channel, method, "ann", too_large))
        padded = "ann" + "x" * METADATA_BYTES_MAX
        assert refused(Limit.METADATA_BYTES, await ask(made.channel, method, padded))


async def test_what_is_packed_is_refused_before_it_grows() -> None:
    """8 MiB of nothing are 8 KB on the wire: the library stops to unpack them at its own limit, and we see nothing."""
    async with served() as made:
        method, metadata = path(methods()[0]), (("authorization", "Bearer ann"),)
        asked: Any = made.channel.unary_stream(method)
        for packing in (grpc.Compression.Gzip, grpc.Compression.Deflate):
            found = await answer(asked(b"\0" * (8 << 20), metadata=metadata, compression=packing))
            assert found == (grpc.StatusCode.RESOURCE_EXHAUSTED, "", "", None)
        assert (await ask(made.channel, OPEN[0])).code is grpc.StatusCode.OK
        assert made.refused(Limit.MESSAGE_BYTES) == 0


async def test_a_call_that_says_nothing_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who opens it and sends no message has a place for so long and no longer; with a token or for what is open."""
    monkeypatch.setattr("services.common.guard.FIRST_MESSAGE_SECONDS", 0.05)
    async with served() as made:
        for each in (path(methods()[0]), "/spectacularbid.match.v1.MatchService/Play", OPEN[1], OPEN[2]):
            call: Any = made.channel.stream_stream(each)(metadata=(("authorization", "Bearer ann"),))
            assert refused(Limit.FIRST_MESSAGE, await answer(call)), each
        assert made.limits.open_calls.taken == 0


async def test_who_takes_calls_back_pays_for_them_and_does_not_get_the_place_back_sooner() -> None:
    """Rapid reset: a call that is cancelled has been spent, and more; one that waits for its refusal waits on."""
    rate = Rate(per_second=0.001, at_once=30.0)
    async with served(replace(POLICY, address_calls=rate, refusal_seconds=30.0)) as made:

        async def reset(_: Any = None) -> None:
            call: Any = made.channel.stream_stream(OPEN[1])()
            await call.write(b"")
            await eventually(under_way)
            call.cancel()
            await eventually(none_under_way)

        async def under_way() -> bool:
            return made.limits.open_calls.taken > 0

        async def none_under_way() -> bool:
            return made.limits.open_calls.taken == 0

        await reset()
        await reset()
        # 2 * (10 + 5) spent: the next one waits for its refusal, and goes on waiting when it is taken back.
        held: Any = made.channel.stream_stream(OPEN[1])()

        async def waits() -> bool:
            return made.limits.held.taken == 1

        await eventually(waits)
        held.cancel()

        async def charged() -> bool:
            return made.limits.address_calls.wait("127.0.0.1") > RESET_COST / rate.per_second

        await eventually(charged)
        assert made.limits.held.taken == 1


async def test_on_the_connection_of_a_proxy_no_place_is_kept_from_others() -> None:
    """Its places are everybody's: the proxy takes that of a call that is taken back for free, and the library would
    refuse whomever it sends there."""
    policy = replace(
        POLICY, address_calls=SPENT, refusal_seconds=30.0, proxies=read_networks(["127.0.0.0/8"])
    )
    async with served(policy) as made:
        held: Any = made.channel.stream_stream(OPEN[1])(metadata=(("x-forwarded-for", "203.0.113.9"),))

        async def waits() -> bool:
            return made.limits.held.taken == 1

        await eventually(waits)
        held.cancel()

        async def free() -> bool:
            return made.limits.held.taken == 0

        async with asyncio.timeout(10):
            await eventually(free)


async def test_a_customer_with_thousands_of_ipv6_networks_has_no_more_than_a_few_addresses() -> None:
    """A /48 is had by one; each of its 65,536 networks of a subscriber's size counts as an address of its own, too."""
    rate = Rate(per_second=0.001, at_once=2.0)
    proxies = read_networks(["127.0.0.0/8"])
    async with served(replace(POLICY, address_calls=rate, proxies=proxies)) as made:

        async def check(network: str) -> Answer:
            call: Any = made.channel.unary_stream(OPEN[0])
            return await answer(call(b"", metadata=(("x-forwarded-for", f"2001:db8:{network}::1"),)))

        let_in = [(await check(f"1:{number}")).code for number in range(2 * CUSTOMER_SHARE)]
        assert let_in == [grpc.StatusCode.OK] * (2 * CUSTOMER_SHARE)
        assert refused(Limit.ADDRESS_CALLS, await check("1:ffff"))
        assert (await check("2:1")).code is grpc.StatusCode.OK
