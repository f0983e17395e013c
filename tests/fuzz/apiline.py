"""An open stream of one player about one match: what it tells is kept, what is sent on it waits for its answer."""

from __future__ import annotations

import asyncio

import grpc

from client.errors import from_refused, from_rpc
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import table_pb2
from tests.fuzz.apicalls import LOST, METHODS, unfit_error
from tests.fuzz.apiledger import Exchange, Ledger
from tests.fuzz.apiview import Listened
from tests.fuzz.apiworld import World
from tests.seats import prompt_of
from tests.stack import Player


class Line:
    """An open stream of one player about one match."""

    def __init__(
        self, world: World, ledger: Ledger, player: Player, resume_after: int, *, plays: bool
    ) -> None:
        self.world = world
        self.ledger = ledger
        self.player = player
        self.plays = plays
        self.listened = Listened(player.player_id, resume_after, ledger.known)
        self.prompt: table_pb2.Prompt | None = None
        self.ended = False
        self._waiting: list[Exchange] = []
        self._cut = False
        self._writing = asyncio.Lock()
        ledger.listened.append(self.listened)
        join = pb.WatchRequest(match_id=ledger.match_id, resume_after=resume_after)
        ledger.note(
            world.caller.tick(), player.player_id, "Play" if plays else "Watch", f"after {resume_after}"
        )
        self._join = pb.PlayRequest(join=join).SerializeToString()
        self._call = (
            world.caller.stream(METHODS["Play"], player.metadata, home=ledger.home)
            if plays
            else world.caller.watch(
                METHODS["Watch"], join.SerializeToString(), player.metadata, home=ledger.home
            )
        )
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        try:
            if self.plays:
                async with self._writing:
                    await self._call.write(self._join)
            while isinstance(raw := await self._call.read(), bytes):
                self._take(raw)
            await self._end()
        except grpc.aio.AioRpcError as error:
            self._failed(error)
        finally:
            self.ended = True
            self._call.cancel()

    def _take(self, raw: bytes) -> None:
        at = self.world.caller.tick()
        if self.plays:
            message = pb.PlayResponse.FromString(raw)
            for answer in message.answers:
                self._answered(answer, at)
            if not message.HasField("news"):
                return
            news = message.news
        else:
            news = pb.WatchResponse.FromString(raw)
        self.ledger.hear(self.listened, news, at)
        self.prompt = prompt_of(news) or self.prompt

    def _answered(self, answer: pb.Answer, at: int) -> None:
        mine = [each for each in self._waiting if each.sent.request.request_id[:64] == answer.request_id]
        if not mine:
            self.world.find(f"an answer to {answer.request_id!r}, which waits for none", self.ledger.calls)
            return
        exchange = mine[0]
        self._waiting.remove(exchange)
        exchange.others += [each.sent.request for each in mine[1:]]
        for each in mine[1:]:
            # Which of them it was is not known: the others may be answered by what was meant for the first.
            each.others.append(exchange.sent.request)
            each.known = min(each.known, exchange.known)
        if answer.HasField("refused"):
            error = from_refused(answer.refused)
            for fault in unfit_error(error):
                self.world.find(f"Play: {fault}", self.ledger.calls)
            self.ledger.answer(exchange, error, at)
        else:
            self.ledger.answer(exchange, answer.applied, at)
        self.world.caller.count("Play answer", exchange.said.split(" ")[0])

    async def _end(self) -> None:
        code = await self._call.code()
        if code is not grpc.StatusCode.OK:
            trailers = await self._call.trailing_metadata()
            self._failed(
                grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailers, await self._call.details())
            )
            return
        if not any(message.HasField("reconnect") for _, message in self.listened.messages):
            self.listened.ended_at = self.world.caller.tick()

    def _failed(self, error: grpc.aio.AioRpcError) -> None:
        failure = from_rpc(error)
        if self._cut or self.ledger.over or failure.message == LOST:
            return
        for fault in unfit_error(failure):
            self.world.find(f"a stream ended with {fault}", self.ledger.calls)
        if failure.reason not in ("LIMIT_REACHED", "TRY_AGAIN"):
            self.world.find(f"a stream ended with {failure}", self.ledger.calls)

    async def send(self, request: pb.SubmitRequest) -> bool:
        """A command on this stream; False when it is not open any more."""
        if self.ended:
            return False
        # gRPC takes one write at a time.
        async with self._writing:
            exchange = self.ledger.send(self.player.player_id, request, self.world.caller.tick())
            self.world.commands += 1
            self._waiting.append(exchange)
            try:
                await self._call.write(pb.PlayRequest(submit=request).SerializeToString())
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                return False
        return True

    async def cut(self) -> None:
        """Breaks it, as a lost connection does."""
        self._cut = True
        self._reading.cancel()
        self._call.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def over(self) -> None:
        """Waits for the service to end it, as it does with the match."""
        done = await asyncio.wait([self._reading], timeout=60)
        if done[1]:
            self.world.find("a stream did not end with its match", self.ledger.calls)
        await self.cut()
