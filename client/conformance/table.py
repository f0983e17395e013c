"""A match of a check: both seats through bare calls, so that every message is seen and anything can be sent."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self

import grpc

from client.conformance.bench import CALL_SECONDS, PATIENCE_SECONDS, Guest, failure, new_id
from client.conformance.check import BrokenError, expect
from client.errors import ClientError
from client.wire import command_to_pb, seat_to_pb
from engine.command import Command, Resign, Start
from engine.seats import NORTH, SEATS, SOUTH, BySeat, Seat
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import table_pb2

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from client.conformance.bench import Bench
    from client.errors import CallError
    from engine.deal import Deal

_PARTING_SECONDS: Final = 2.0
"""How long a stream may take to end by itself when its match is over."""

Viewer = Seat | Guest
"""Who looks: a seat, or somebody without one."""


def scripted(*deals: Deal) -> list[pb.ScriptedDeal]:
    """Deals for CreateMatch."""
    return [
        pb.ScriptedDeal(
            tiles=[
                table_pb2.Tile(low=tile.low, high=tile.high)
                for tile in (*deal.north, *deal.south, *deal.boneyard)
            ]
        )
        for deal in deals
    ]


class Table:
    """A match with guests on both seats. An async context manager: at its end the match is resigned."""

    def __init__(
        self, bench: Bench, match_id: str, address: str, guests: BySeat[Guest], *, one_device: bool = False
    ) -> None:
        self.bench = bench
        self.match_id = match_id
        self.address = address
        self.guests = guests
        self.one_device = one_device
        self.stub = bench.matches(address)
        self._streams: list[Callable[[], Awaitable[None]]] = []

    @classmethod
    async def create(cls, bench: Bench, *, start: bool = True, **wanted: Any) -> Self:
        """A new match of two new guests; `wanted` are further fields of CreateMatchRequest. Raises NotHereError."""
        guests = BySeat(await bench.guest(), await bench.guest())
        made = await bench.create(guests.north, player_id=guests.south.player_id, **wanted)
        table = cls(bench, made.match_id, made.address, guests)
        if start:
            await table.start()
        return table

    @classmethod
    async def on_one_device(cls, bench: Bench, *, start: bool = True, **wanted: Any) -> Self:
        """A new match of one new guest who holds both seats."""
        guest = await bench.guest()
        made = await bench.create(guest, same_device=True, **wanted)
        table = cls(bench, made.match_id, made.address, BySeat(guest, guest), one_device=True)
        if start:
            await table.start()
        return table

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Nothing of a check stays live; one that was never started is cancelled by its start limit.
        with suppress(ClientError, grpc.aio.AioRpcError, BrokenError):
            await self.send(self.request(Resign(NORTH), 0), patience_seconds=1.0)
        for close in self._streams:
            await close()

    def close_later(self, close: Callable[[], Awaitable[None]]) -> None:
        """Close a stream of a seat only when the match is over.

        Many players who lose their streams at once look like a broken network, and the service then stops all clocks.
        """
        self._streams.append(close)

    async def start(self) -> None:
        """Both press Start."""
        for seat in SEATS:
            await self.do(Start(seat))

    # Looking.

    def guest(self, viewer: Viewer) -> Guest:
        """Who looks."""
        return self.guests[viewer] if isinstance(viewer, Seat) else viewer

    async def snapshot(self, viewer: Viewer) -> pb.Snapshot:
        """What a seat or somebody else sees now."""
        request = pb.GetMatchRequest(match_id=self.match_id)
        answer = await self.bench.ask(self.stub.GetMatch, request, self.guest(viewer))
        return answer.snapshot

    async def view(self, viewer: Viewer) -> table_pb2.Table:
        """The table of `snapshot`."""
        return (await self.snapshot(viewer)).table

    async def to_act(self) -> Seat:
        """The seat whose turn it is."""
        prompt = (await self.view(NORTH)).prompt
        seats = {table_pb2.SEAT_NORTH: NORTH, table_pb2.SEAT_SOUTH: SOUTH}
        expect(prompt.to_act in seats, "the prompt names no seat that must act")
        return seats[prompt.to_act]

    # Commands.

    def request(self, command: Command, decision_id: int, request_id: str | None = None) -> pb.SubmitRequest:
        """A command on the wire."""
        return pb.SubmitRequest(
            match_id=self.match_id,
            request_id=request_id or new_id(),
            decision_id=decision_id,
            command=command_to_pb(command),
            seat=seat_to_pb(command.seat if self.one_device else None),
        )

    async def asked(
        self, command: Command, decision_id: int | None = None, request_id: str | None = None
    ) -> pb.SubmitRequest:
        """The same for the question on the table, unless `decision_id` says which."""
        if decision_id is None:
            decision_id = (await self.view(command.seat)).prompt.decision_id
        return self.request(command, decision_id, request_id)

    async def do(self, command: Command, *, request_id: str | None = None) -> pb.Applied:
        """Have a command carried out that answers the question on the table. Raises CallError."""
        return await self.send(await self.asked(command, request_id=request_id), command.seat)

    async def send(
        self, request: pb.SubmitRequest, viewer: Viewer = NORTH, *, patience_seconds: float = PATIENCE_SECONDS
    ) -> pb.Applied:
        """One Submit, repeated where its answer says so. Raises CallError."""
        answer = await self.bench.ask(
            self.stub.Submit, request, self.guest(viewer), patience_seconds=patience_seconds
        )
        applied = answer.applied
        expect(
            1 <= applied.first_sequence <= applied.last_sequence,
            f"a command was applied as events {applied.first_sequence} to {applied.last_sequence}",
        )
        return applied

    async def refused(self, command: Command, *, decision_id: int | None = None) -> CallError:
        """Why a command is refused. Raises BrokenError when it is not."""
        return await failure(self.send(await self.asked(command, decision_id), command.seat))

    async def join(
        self, viewer: Viewer, resume_after: int = 0
    ) -> grpc.aio.StreamStreamCall[pb.PlayRequest, pb.PlayResponse]:
        """A Play stream; it is closed with the table."""
        call = self.stub.Play(metadata=self.guest(viewer).metadata, timeout=2 * CALL_SECONDS)

        async def close() -> None:
            with suppress(grpc.aio.AioRpcError, TimeoutError, asyncio.CancelledError):
                async with asyncio.timeout(_PARTING_SECONDS):
                    while isinstance(await call.read(), pb.PlayResponse):
                        pass
            call.cancel()

        self.close_later(close)
        await call.write(
            pb.PlayRequest(join=pb.WatchRequest(match_id=self.match_id, resume_after=resume_after))
        )
        return call

    async def on_a_stream(self, viewer: Viewer, *requests: pb.SubmitRequest) -> list[pb.Answer]:
        """The answers to commands on a Play stream of their own, in order."""
        answers: list[pb.Answer] = []
        call = await self.join(viewer)
        for request in requests:
            await call.write(pb.PlayRequest(submit=request))
        while len(answers) < len(requests):
            message = await call.read()
            if not isinstance(message, pb.PlayResponse):
                break
            answers += message.answers
        expect(
            len(answers) == len(requests), f"{len(requests)} commands on Play, {len(answers)} answers came"
        )
        return answers
