"""Calls of operators to the matchmaking process that leads."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, TypeVar

import grpc
import typer

from services.common.settings import PREFIX, split_address
from services.ops.database import UNREADABLE
from services.ops.reach import connect_as_configured
from spectacularbid.internal.operations.v1.operations_service_pb2_grpc import OperationsServiceStub

T = TypeVar("T")

REFUSED: Final = 1
"""Exit status when nothing was changed."""
TOKEN_VARIABLE: Final = f"{PREFIX}OPERATOR_TOKEN"
PATIENCE_SECONDS: Final = 15.0
"""How long a leader is looked for: longer than a standby needs to become one."""
CALL_SECONDS: Final = 10.0
PAUSE_SECONDS: Final = 0.3
# What another process of matchmaking, or the same one later, may answer otherwise.
_PASSING: Final = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)

Address = Annotated[
    str,
    typer.Option(
        "--address",
        envvar=f"{PREFIX}MATCHMAKING_ADDRESS",
        help="host:port of matchmaking's internal address; several with commas between, of which one leads.",
    ),
]


def ask(
    listed: str,
    call: Callable[[OperationsServiceStub, dict[str, Any]], Awaitable[T]],
    *,
    seconds: float = CALL_SECONDS,
) -> T:
    """The answer of the process that leads, within `seconds` a call.

    A call that was not answered is made again, also to another process: acts need an id of their own, or must not mind
    being done twice. Ends the command with status 1 when it refuses, 2 when nobody answers.
    """
    token = os.environ.get(TOKEN_VARIABLE, "")
    if not token:
        raise typer.BadParameter(f"{TOKEN_VARIABLE} is not set")
    addresses = [part.strip() for part in listed.split(",")]
    for address in addresses:
        try:
            split_address(address)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--address") from None
    options = {"metadata": (("authorization", f"Bearer {token}"),), "timeout": seconds}
    connect = connect_as_configured()

    silent = False

    async def run() -> T:
        nonlocal silent
        give_up, looking = time.monotonic() + PATIENCE_SECONDS, False
        while True:
            for address in addresses:
                try:
                    async with connect(address, ()) as channel:
                        return await call(OperationsServiceStub(channel), options)
                except grpc.aio.AioRpcError as error:
                    silent = silent or error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
                    if error.code() not in _PASSING or time.monotonic() > give_up:
                        raise
            if not looking:
                looking = True
                sys.stderr.write(f"nobody leads or answers; asking again for {PATIENCE_SECONDS:.0f} s\n")
            await asyncio.sleep(PAUSE_SECONDS)

    try:
        return asyncio.run(run())
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.UNIMPLEMENTED:
            raise typer.BadParameter(
                "who answers there takes no orders: it is not matchmaking's internal address",
                param_hint="--address",
            ) from None
        if error.code() not in _PASSING:
            sys.stderr.write(f"nothing was changed: {error.details()}\n")
            raise typer.Exit(REFUSED) from None
        sys.stderr.write(f"nobody leads, or nobody answers: {error.details()}\n")
        if silent:
            # It has reached somebody, whose answer did not come.
            sys.stderr.write("whether it was carried out is not known: `acts` tells\n")
        raise typer.Exit(UNREADABLE) from None
