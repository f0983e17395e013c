"""The stream to matchmaking on which this process learns of new matches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

import grpc

from services.common import tracing
from services.common.channels import Connect, plain
from services.common.logs import get_logger
from services.common.tracing import Kind, NoTracer, TraceContext, Tracer
from services.game.incarnation import Incarnation
from services.game.rooms import Rooms
from spectacularbid.internal.placement.v1 import placement_service_pb2 as pb
from spectacularbid.internal.placement.v1 import placement_service_pb2_grpc as pb_grpc

ACCEPTING_SECONDS: Final = 0.1
"""How often this process looks whether it takes another match: a change is reported at once."""
ACCEPTING_CHECKS: Final = 20
"""After as many looks, or matches loaded, its load is reported anyway."""
RECONNECT_SECONDS: Final = (0.1, 0.2, 0.5, 1.0)
OPTIONS: Final = [
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.ping_timeout_ms", 5_000),
    # Tries again at once: a standby that becomes leader must not wait for a backoff of minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
]


class PlacementLink:
    """Registers, reports load, loads the matches that are placed here."""

    def __init__(
        self,
        address: str,
        secret: str,
        incarnation: Incarnation,
        capacity: int,
        rooms: Rooms,
        accepting: Callable[[], bool],
        connect: Connect = plain,
        tracer: Tracer | None = None,
    ) -> None:
        self._tracer = tracer or NoTracer()
        self._connect = connect
        self._address = address
        self._secret = secret
        self._incarnation = incarnation
        self._capacity = capacity
        self._rooms = rooms
        self._accepting = accepting
        self._out: asyncio.Queue[pb.RegisterRequest | None] = asyncio.Queue()
        self.registered = False

    async def run(self) -> None:
        """Keeps one stream open until cancelled; never raises on connection trouble."""
        attempt = 0
        while True:
            try:
                async with self._connect(self._address, OPTIONS) as channel:
                    await self._converse(channel)
            except grpc.aio.AioRpcError as error:
                if self.registered:
                    get_logger().warning("placement_lost", code=error.code().name)
                    attempt = 0
            finally:
                self.registered = False
            await asyncio.sleep(RECONNECT_SECONDS[min(attempt, len(RECONNECT_SECONDS) - 1)])
            attempt += 1

    async def _converse(self, channel: grpc.aio.Channel) -> None:
        stub = pb_grpc.PlacementServiceStub(channel)
        out = self._out = asyncio.Queue()
        call = stub.Register(self._say(out), metadata=(("authorization", f"Bearer {self._secret}"),))
        try:
            async for response in call:
                match response.WhichOneof("message"):
                    case "welcome":
                        self.registered = True
                        get_logger().info("placement_registered", address=self._address)
                    case "place":
                        await self._place(response.place)
        finally:
            # Streams that nobody reads are not collected by themselves. What speaks for one that its peer has ended goes
            # on until it is told.
            call.cancel()
            out.put_nowait(None)

    async def _say(self, out: asyncio.Queue[pb.RegisterRequest | None]) -> AsyncIterator[pb.RegisterRequest]:
        incarnation = self._incarnation
        yield pb.RegisterRequest(
            hello=pb.Hello(
                engine_id=incarnation.engine_id,
                incarnation=incarnation.name,
                address=incarnation.address,
                capacity=self._capacity,
            )
        )
        while True:
            accepting = self._accepting()
            yield pb.RegisterRequest(load=pb.Load(live_matches=len(self._rooms), accepting=accepting))
            for _ in range(ACCEPTING_CHECKS):
                if self._accepting() is not accepting:
                    break
                try:
                    said = await asyncio.wait_for(out.get(), ACCEPTING_SECONDS)
                except TimeoutError:
                    continue
                if said is None:
                    return
                yield said

    async def _place(self, place: pb.Place) -> None:
        parent = TraceContext.parse(place.traceparent)
        span = self._tracer.begin("place", parent, Kind.CONSUMER, match_id=place.match_id)
        with tracing.within(span.context):
            loaded = await self._load(place)
        span.end(failed=not loaded)

    async def _load(self, place: pb.Place) -> bool:
        """Loads a match and says so; False when it could not be loaded."""
        try:
            room = await self._rooms.open(place.match_id, place.fence)
        except Exception:  # noqa: BLE001 - one match that cannot be loaded must not end the others
            # The match stays ours: whoever asks for it has it loaded again, and so does the next registration.
            get_logger().exception("placement_failed", match_id=place.match_id)
            return False
        if room is not None:
            self._out.put_nowait(pb.RegisterRequest(placed=pb.Placed(match_id=place.match_id)))
        return room is not None
