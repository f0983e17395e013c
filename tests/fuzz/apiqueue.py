"""People who look for a match: seeks that are cancelled, replaced, repeated, lost and matched, one player each."""

from __future__ import annotations

import asyncio
import random
from typing import Any, Final

import grpc

from client.errors import CallError, from_rpc
from spectacularbid.match.v1 import table_pb2
from spectacularbid.matchmaking.v1 import matchmaking_service_pb2 as pb
from tests.fuzz.apicalls import METHODS, Heard, unfit_error
from tests.fuzz.apitable import table
from tests.fuzz.apiworld import World
from tests.seats import new_id
from tests.stack import Player

SECONDS: Final = 30.0
"""How long anything may take: far more than it needs, even on a busy machine."""
ENDS: Final = frozenset({"SEEK_CANCELLED", "SEEK_REPLACED"})
BUSY: Final = frozenset({"TRY_AGAIN", "LIMIT_REACHED"})


class Waiting:
    """One open stream of a seek."""

    def __init__(self, world: World, player: Player, request: pb.SeekRequest) -> None:
        self.request = request
        self.matched: pb.Matched | None = None
        self.error: CallError | None = None
        self._world = world
        self._first = asyncio.Event()
        self._call = world.caller.watch(METHODS["Seek"], request.SerializeToString(), player.metadata)
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        try:
            while isinstance(raw := await self._call.read(), bytes):
                news = pb.SeekResponse.FromString(raw)
                if self.matched is not None:
                    self._world.find("news of a seek after it was matched")
                if news.HasField("matched"):
                    self.matched = news.matched
                self._first.set()
            code = await self._call.code()
            if code is not grpc.StatusCode.OK:
                trailers, details = await self._call.trailing_metadata(), await self._call.details()
                self._failed(grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailers, details))
        except grpc.aio.AioRpcError as error:
            self._failed(error)
        finally:
            self._first.set()
            self._call.cancel()

    def _failed(self, error: grpc.aio.AioRpcError) -> None:
        self.error = from_rpc(error)
        for fault in unfit_error(self.error):
            self._world.find(f"Seek: {fault}")

    @property
    def said(self) -> str:
        """`waiting`, `matched`, or why it ended."""
        if self.error is not None:
            return self.error.reason or self.error.code.name
        return "waiting" if self.matched is None else "matched"

    async def begun(self) -> None:
        """Until there is a first word."""
        try:
            async with asyncio.timeout(SECONDS):
                await self._first.wait()
        except TimeoutError:
            self._world.find("a seek is not answered")

    async def ended(self) -> str:
        """Until the service has ended it; what it said last."""
        done, _ = await asyncio.wait([self._reading], timeout=SECONDS)
        if not done:
            self._world.find("a seek that was cancelled or replaced does not end")
        self._world.caller.count("Seek", self.said)
        return self.said

    async def cut(self) -> None:
        """The connection is lost."""
        self._reading.cancel()
        self._call.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)


class Seeking:
    """One player who looks for a match, in a way that nobody should."""

    def __init__(self, world: World, player: Player, rng: random.Random) -> None:
        self.world = world
        self.player = player
        self.rng = rng
        self._open: list[Waiting] = []

    async def run(self) -> None:
        """Some seeks, until one is matched or the player has had enough; nothing stays open."""
        pool = self.rng.choice((pb.POOL_RATED, pb.POOL_CASUAL))
        try:
            for _ in range(self.rng.randrange(1, 5)):
                act = self.rng.choice((self.cancelled, self.replaced, self.repeated, self.lost, self.patient))
                matched = await act(pb.SeekRequest(request_id=new_id(), pool=pool))
                if matched is not None:
                    await self._told(matched)
                    return
        finally:
            for waiting in self._open:
                await waiting.cut()
            # Nobody is left behind in the queue.
            await self._cancel()

    async def _seek(self, request: pb.SeekRequest) -> Waiting:
        waiting = Waiting(self.world, self.player, request)
        self._open.append(waiting)
        await waiting.begun()
        return waiting

    async def _cancel(self) -> Heard:
        return await self.world.call("CancelSeek", b"", self.player)

    def _expect(self, what: str, said: str, *right: str) -> None:
        if said not in right and said not in BUSY:
            self.world.find(f"{self.player.player_id}: {what}: {said}, not one of {right}")

    # Ways to seek. Each says what it was matched with, if it was.

    async def cancelled(self, request: pb.SeekRequest) -> pb.Matched | None:
        """Cancelled: the stream says so, no match can come of it, and its id is spent."""
        waiting = await self._seek(request)
        heard = await self._cancel()
        self._expect("CancelSeek", heard.said, "OK", "ALREADY_MATCHED")
        said = await waiting.ended()
        if heard.said == "ALREADY_MATCHED":
            self._expect("a seek that was matched first", said, "matched")
            return waiting.matched
        if heard.said != "OK":
            return waiting.matched
        self._expect("a cancelled seek", said, "SEEK_CANCELLED")
        again = await self._seek(request)
        self._expect("a cancelled seek again", again.said, "SEEK_CANCELLED")
        self._expect("CancelSeek without a seek", (await self._cancel()).said, "NO_SEEK")
        return None

    async def replaced(self, request: pb.SeekRequest) -> pb.Matched | None:
        """A newer seek takes the place of an older one."""
        older = await self._seek(request)
        newer = await self._seek(pb.SeekRequest(request_id=new_id(), pool=request.pool))
        if older.said == "matched" or newer.said == "matched":
            return newer.matched or older.matched
        self._expect("the older of two seeks", await older.ended(), "SEEK_REPLACED", "matched")
        if older.matched is not None:
            return older.matched
        return await self._over(newer)

    async def repeated(self, request: pb.SeekRequest) -> pb.Matched | None:
        """The same request twice: the newer stream stays."""
        older, newer = await self._seek(request), await self._seek(request)
        if older.matched is None and newer.matched is None:
            self._expect("the older stream of a seek", await older.ended(), "SEEK_REPLACED", "matched")
        return older.matched or newer.matched or await self._over(newer)

    async def lost(self, request: pb.SeekRequest) -> pb.Matched | None:
        """The stream breaks, and the seek comes again under its name."""
        first = await self._seek(request)
        await first.cut()
        if first.matched is not None:
            return first.matched
        again = await self._seek(request)
        self._expect("a lost seek again", again.said, "waiting", "matched")
        return again.matched or await self._over(again)

    async def patient(self, request: pb.SeekRequest) -> pb.Matched | None:
        """Waits a while for somebody."""
        waiting = await self._seek(request)
        done = asyncio.create_task(waiting.ended())
        await asyncio.wait([done], timeout=self.rng.uniform(0.1, 2.0))
        return waiting.matched or await self._over(waiting)

    async def _over(self, waiting: Waiting) -> pb.Matched | None:
        heard = await self._cancel()
        self._expect("CancelSeek", heard.said, "OK", "ALREADY_MATCHED")
        said = await waiting.ended()
        if heard.said == "OK":
            self._expect("a cancelled seek", said, "SEEK_CANCELLED")
        return waiting.matched

    async def _told(self, matched: pb.Matched) -> None:
        """What the player was told of the match is true, and so is it when asked again."""
        row = await self.world.made.row(matched.match_id)
        seats: Any = {
            row.north.player_id: (table_pb2.SEAT_NORTH, row.south.player_id),
            row.south.player_id: (table_pb2.SEAT_SOUTH, row.north.player_id),
        }
        told = (matched.seat, matched.opponent.player_id)
        if seats.get(self.player.player_id) != told:
            self.world.find(f"{self.player.player_id} was matched as {told}, not as {seats}")
        again = await self._seek(pb.SeekRequest(request_id=new_id(), pool=pb.POOL_RATED))
        if again.matched is not None and again.matched.match_id != matched.match_id:
            self.world.find(f"two live matches: {again.matched.match_id} after {matched.match_id}")


async def seekers(world: World, rng: random.Random) -> None:
    """Some players at once; whatever matches come of it are played to their ends."""
    players = await world.players(rng.randrange(2, 6))
    await asyncio.gather(*(Seeking(world, player, random.Random(rng.random())).run() for player in players))
    ids = [player.player_id for player in players]
    rows = await world.made.pool.fetch(
        """
        select m.match_id::text, m.north, m.south, m.rated, m.mode, o.engine_id
        from match m join match_owner o using (match_id)
        where (north = any($1) or south = any($1))
        """,
        ids,
    )
    for row in rows:
        if row["mode"] not in ("rated", "casual") or row["rated"] is not (row["mode"] == "rated"):
            world.find(f"a seek led to {dict(row)}")
    seated = [player for row in rows for player in (row["north"], row["south"])]
    twice = {player for player in ids if seated.count(player) > 1}
    if twice:
        world.find(f"in more than one match: {sorted(twice)}")
    for row in rows:
        ledger = world.claim(
            row["match_id"], row["north"], row["south"], rated=row["rated"], home=row["engine_id"]
        )
        if ledger is not None:
            await table(world, ledger, rng)
