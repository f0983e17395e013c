"""People whose token ends while they look on: what they were let into must end with it, and not before."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from typing import Final

import grpc

from client.errors import from_rpc
from spectacularbid.match.v1 import match_service_pb2 as pb
from tests.fuzz.apicalls import LOST, METHODS, unfit_error
from tests.fuzz.apiledger import Ledger
from tests.fuzz.apirequests import Guise
from tests.fuzz.apiworld import World

SECONDS_MAX: Final = 30.0
"""A stream that is still open so long after its token counts as open for ever."""
ANY_TIME: Final = frozenset({"LIMIT_REACHED", "TRY_AGAIN"})


async def fleeting(world: World, rng: random.Random) -> None:
    """One token of a second or two: calls with it while it lasts and afterwards, and a stream across its end."""
    if not world.ledgers:
        return
    ledger = rng.choice(list(world.ledgers.values()))
    player_id = f"fleeting-{secrets.token_hex(4)}"
    token, expires = world.made.issuer.issue(player_id, "x", seconds=rng.choice((1, 2)))
    guise = Guise("fleeting", (("authorization", f"Bearer {token}"),), None, player_id)
    streaming = asyncio.create_task(_stream(world, guise, ledger, expires, plays=rng.random() < 0.5))
    asked = pb.GetMatchRequest(match_id=ledger.match_id).SerializeToString()
    while True:
        before = time.time()
        said = (await world.call("GetMatch", asked, guise, home=ledger.home)).said
        if said not in ANY_TIME:
            if said != "TOKEN_EXPIRED" and before >= expires:
                world.find(f"a token that has expired is told {said}")
            if said == "TOKEN_EXPIRED" and time.time() < expires:
                world.find("a token has expired before its time")
        if before >= expires:
            break
        await asyncio.wait([streaming], timeout=max(0.0, expires - time.time()) / 2 + 0.01)
    await streaming


async def _stream(world: World, guise: Guise, ledger: Ledger, expires: int, *, plays: bool) -> None:
    join = pb.WatchRequest(match_id=ledger.match_id)
    if plays:
        call = world.caller.stream(METHODS["Play"], guise.metadata, home=ledger.home)
    else:
        call = world.caller.watch(
            METHODS["Watch"], join.SerializeToString(), guise.metadata, home=ledger.home
        )
    over, error = False, None
    try:
        async with asyncio.timeout(expires - time.time() + SECONDS_MAX):
            if plays:
                await call.write(pb.PlayRequest(join=join).SerializeToString())
            while isinstance(raw := await call.read(), bytes):
                news = pb.PlayResponse.FromString(raw).news if plays else pb.WatchResponse.FromString(raw)
                over = over or news.snapshot.table.HasField("outcome")
                over = over or any(event.HasField("match_ended") for event in news.events)
            if await call.code() is not grpc.StatusCode.OK:
                code, trailers = await call.code(), await call.trailing_metadata()
                error = from_rpc(
                    grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailers, await call.details())
                )
    except grpc.aio.AioRpcError as failed:
        error = from_rpc(failed)
    except TimeoutError:
        world.find(f"a stream goes on {SECONDS_MAX:.0f} s after its token")
        return
    finally:
        call.cancel()
    said = "OK" if error is None else error.reason or error.code.name
    world.caller.count("Play" if plays else "Watch", said)
    if error is None:
        if not over:
            world.find("the stream of a token that ends ended without a word")
        return
    for fault in unfit_error(error):
        world.find(f"the stream of a token that ends: {fault}")
    if said == "TOKEN_EXPIRED" and time.time() < expires:
        world.find("a stream ended before its token")
    if said not in ("TOKEN_EXPIRED", *ANY_TIME) and error.message != LOST:
        world.find(f"the stream of a token that ends was told {error}")
