"""Seeks: waiting, being matched, being replaced, being cancelled, coming again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Self

import grpc

from client.conformance.bench import CALL_SECONDS, CASUAL, expect_error, failure, new_id
from client.conformance.check import BrokenError, checks_of, expect
from client.errors import CallError, from_rpc
from spectacularbid.match.v1 import match_service_pb2, table_pb2
from spectacularbid.matchmaking.v1 import matchmaking_service_pb2 as pb

if TYPE_CHECKING:
    from types import TracebackType

    from client.conformance.bench import Bench, Guest

_UNREACHABLE_RATING: Final = 90_000
"""Nobody has it: a seek that wants it waits."""


class Seeking:
    """A Seek that nobody can be matched with. An async context manager: the stream is closed at the end."""

    def __init__(self, bench: Bench, guest: Guest, request_id: str | None = None) -> None:
        self.request = pb.SeekRequest(
            request_id=request_id or new_id(), pool=CASUAL, lowest_rating=_UNREACHABLE_RATING
        )
        self._call = bench.seeks.Seek(self.request, metadata=guest.metadata)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call.cancel()

    async def waiting(self) -> pb.Waiting:
        """The next facts of the queue. Raises CallError."""
        try:
            async with asyncio.timeout(CALL_SECONDS):
                news = await self._call.read()
        except TimeoutError:
            raise BrokenError(f"a Seek said nothing for {CALL_SECONDS:.0f} s") from None
        except grpc.aio.AioRpcError as error:
            raise from_rpc(error) from None
        if not isinstance(news, pb.SeekResponse):
            raise BrokenError("a Seek ended with OK and without a match")
        expect(news.HasField("waiting"), "a seek that accepts nobody was matched")
        return news.waiting

    async def ended(self) -> CallError:
        """What the stream ends with."""

        async def read_on() -> None:
            while True:
                await self.waiting()

        return await failure(read_on())


async def two_who_seek_are_matched(bench: Bench) -> None:
    """Two seeks in a pool become one match: two seats, one address, each other's names; then the streams end."""
    async with bench.queue:
        (match_id, address), (north, south) = await bench.pair()
    stub = bench.matches(address)
    try:
        again = await bench.matched(north)
        expect(again.match_id == match_id, "seeking during a live match does not answer with that match")
        expect(again.seat == table_pb2.SEAT_NORTH, "seeking again tells another seat")
        expect(again.opponent.player_id == south.player_id, "seeking again tells another opponent")
        where = await bench.ask(bench.seeks.LocateMatch, pb.LocateMatchRequest(match_id=match_id), south)
        expect(where.address == address, f"LocateMatch says {where.address}, matched said {address}")
        request = match_service_pb2.GetMatchRequest(match_id=match_id)
        view = (await bench.ask(stub.GetMatch, request, south)).snapshot.table
        expect(view.seat == table_pb2.SEAT_SOUTH, "GetMatch tells another seat than matched did")
        expect(not view.rated, "a casual match is rated")
        expect((view.bank_ms, view.delay_ms) == (120_000, 10_000), "not 120 s of bank and 10 s of delay")
    finally:
        await asyncio.gather(*(bench.resign(address, match_id, guest) for guest in (north, south)))
        await bench.resign(address, match_id, north)


async def a_seek_tells_of_the_queue(bench: Bench) -> None:
    """A waiting seek tells of the queue again and again; the time it has waited grows."""
    guest = await bench.guest()
    async with Seeking(bench, guest) as seek:
        facts = [await seek.waiting() for _ in range(2)]
        expect(facts[0].players_waiting >= 1, "the queue is empty, and somebody waits in it")
        expect(facts[1].waited_ms > facts[0].waited_ms, "the time that was waited does not grow")


async def a_newer_seek_replaces_the_older(bench: Bench) -> None:
    """A player has one seek: a newer one ends the older with SEEK_REPLACED, also when that comes again."""
    guest = await bench.guest()
    async with Seeking(bench, guest) as older:
        await older.waiting()
        async with Seeking(bench, guest) as newer:
            await newer.waiting()
            expect_error(await older.ended(), grpc.StatusCode.ABORTED, "SEEK_REPLACED")
            async with Seeking(bench, guest, older.request.request_id) as again:
                expect_error(await again.ended(), grpc.StatusCode.ABORTED, "SEEK_REPLACED")
            await newer.waiting()


async def a_cancelled_seek_stays_cancelled(bench: Bench) -> None:
    """After CancelSeek the stream ends with SEEK_CANCELLED, its request_id too, and there is NO_SEEK to cancel."""
    guest = await bench.guest()
    cancel = bench.seeks.CancelSeek
    error = await failure(bench.ask(cancel, pb.CancelSeekRequest(), guest))
    expect_error(error, grpc.StatusCode.NOT_FOUND, "NO_SEEK")
    async with Seeking(bench, guest) as seek:
        await seek.waiting()
        await bench.ask(cancel, pb.CancelSeekRequest(), guest)
        expect_error(await seek.ended(), grpc.StatusCode.CANCELLED, "SEEK_CANCELLED")
    async with Seeking(bench, guest, seek.request.request_id) as again:
        expect_error(await again.ended(), grpc.StatusCode.CANCELLED, "SEEK_CANCELLED")
    error = await failure(bench.ask(cancel, pb.CancelSeekRequest(), guest))
    expect_error(error, grpc.StatusCode.NOT_FOUND, "NO_SEEK")


async def a_lost_seek_goes_on(bench: Bench) -> None:
    """A seek whose stream was lost goes on under its request_id and keeps the time it has waited."""
    guest = await bench.guest()
    async with Seeking(bench, guest) as seek:
        await seek.waiting()
        before = (await seek.waiting()).waited_ms
    async with Seeking(bench, guest, seek.request.request_id) as again:
        after = (await again.waiting()).waited_ms
        expect(after >= before, f"{before} ms had been waited, and the seek goes on with {after} ms")
        await bench.ask(bench.seeks.CancelSeek, pb.CancelSeekRequest(), guest)


CHECKS: Final = checks_of(
    "seeks",
    two_who_seek_are_matched,
    a_seek_tells_of_the_queue,
    a_newer_seek_replaces_the_older,
    a_cancelled_seek_stays_cancelled,
    a_lost_seek_goes_on,
)
