"""What the services take from outside themselves, taken from the simulated world instead.

Nothing of this is known to the services; it is put in place around one run and taken away again.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime, tzinfo
from itertools import count
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import grpc
import structlog

from engine.clock import SECOND
from engine.deal import SALT_SIZE
from engine.shuffle import SEED_SIZE
from services.clock import rpc
from services.common import channels
from services.game import clock_client, massloss, shuffle
from services.storage import incidents, journal
from tests.simulation.network import Channel
from tests.simulation.process import OrderedTask
from tests.simulation.world import LOST_MIN, World


class Stage:
    """Who runs now: the few things that are global to a real process."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.dial: Any = None
        """Makes the call of a ClockServiceStub."""
        self.log: Any = None


@contextmanager
def patched(stage: Stage, wall: Any, more: Mapping[Any, Mapping[str, Any]]) -> Iterator[None]:
    """The world instead of the operating system."""
    world = stage.world
    dice = random.Random(f"shuffle {world.seed}")

    class VirtualDatetime(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:  # noqa: ARG003
            return wall()

    class Stub:
        def __init__(self, _channel: object) -> None:
            pass

        def Govern(self, **_options: Any) -> Any:
            return stage.dial()

    fake_grpc = SimpleNamespace(
        aio=SimpleNamespace(insecure_channel=Channel, AioRpcError=grpc.aio.AioRpcError, EOF=grpc.aio.EOF),
        StatusCode=grpc.StatusCode,
    )
    with ExitStack() as stack:
        for target, name, value in (
            (uuid, "uuid4", world.new_id),
            (rpc, "uuid4", world.new_id),
            (rpc, "time", SimpleNamespace(monotonic_ns=lambda: world.now)),
            (journal, "time", SimpleNamespace(monotonic=lambda: world.now / SECOND)),
            (clock_client, "grpc", fake_grpc),
            (channels, "grpc", fake_grpc),
            (clock_client, "ClockServiceStub", Stub),
            (incidents, "datetime", VirtualDatetime),
            (massloss, "LOST_MIN", LOST_MIN),
            (shuffle, "_RANDOM", dice),
            (shuffle, "salt", lambda: dice.randbytes(SALT_SIZE)),
            (shuffle, "secret", lambda: dice.randbytes(SEED_SIZE)),
        ):
            stack.enter_context(patch.object(target, name, value))
        numbers = count()
        stack.enter_context(patch.object(OrderedTask, "_numbers", count()))
        # Sets of these are gone through in the order in which they were made, not in that of their addresses.
        stack.enter_context(
            patch.object(
                asyncio.Event, "__hash__", lambda self: self.__dict__.setdefault("_number", next(numbers))
            )
        )
        for target, names in more.items():
            for name, value in names.items():
                stack.enter_context(patch.object(target, name, value))
        before = structlog.get_config()
        structlog.configure(
            processors=[stage.log],
            wrapper_class=structlog.make_filtering_bound_logger(30),
            cache_logger_on_first_use=False,
        )
        try:
            yield
        finally:
            structlog.configure(**before)
