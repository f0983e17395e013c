"""Matches driven through the bare calls of MatchService, so that tests see every message and can send what they like."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import grpc

from client.errors import CallError, from_rpc
from client.wire import command_to_pb
from engine.command import Command, Start
from engine.deal import Deal
from engine.seats import SEATS, BySeat, Seat
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import match_service_pb2_grpc as pb_grpc
from spectacularbid.match.v1 import table_pb2
from tests.stack import Metadata, Player, Stack, seat_to_pb

SECONDS_MAX = 30.0
"""How long a wait may take: far more than anything needs, even on a busy machine."""


def new_id() -> str:
    """A request id."""
    return str(uuid.uuid4())


async def eventually(check: Callable[[], Awaitable[bool]]) -> None:
    """Waits until something holds that nobody tells us of."""
    async with asyncio.timeout(SECONDS_MAX):
        while True:
            if await check():
                return
            await asyncio.sleep(0.02)


def tile_to_pb(text: str) -> table_pb2.Tile:
    """`1|4` on the wire."""
    low, high = text.split("|")
    return table_pb2.Tile(low=int(low), high=int(high))


def scripted(*deals: Deal) -> list[pb.ScriptedDeal]:
    """Deals for CreateMatch."""
    return [
        pb.ScriptedDeal(tiles=[tile_to_pb(tile.text) for tile in (*deal.north, *deal.south, *deal.boneyard)])
        for deal in deals
    ]


class Table:
    """One match and both its seats, through Submit and GetMatch."""

    def __init__(
        self,
        made: Stack,
        match_id: str,
        players: BySeat[Player],
        *,
        game: str = "game",
        one_device: bool = False,
    ) -> None:
        self.stack = made
        self.match_id = match_id
        self.players = players
        self.one_device = one_device
        self.stub = made.matches(game)

    @classmethod
    async def create(cls, made: Stack, *, start: bool = True, game: str = "game", **wanted: Any) -> Table:
        """A new match of two new players; `wanted` are further fields of CreateMatchRequest."""
        players = BySeat(*await made.players(2))
        table = cls(made, await made.create(players, game=game, **wanted), players, game=game)
        if start:
            await table.start()
        return table

    @classmethod
    async def on_one_device(cls, made: Stack, *, start: bool = True, **wanted: Any) -> Table:
        """A new match of one new player who holds both seats."""
        (player,) = await made.players(1)
        request = pb.CreateMatchRequest(request_id=new_id(), same_device=True, **wanted)
        created = await made.matches().CreateMatch(request, metadata=player.metadata)
        table = cls(made, created.match_id, BySeat(player, player), one_device=True)
        if start:
            await table.start()
        return table

    async def start(self) -> None:
        """Both press Start."""
        for seat in SEATS:
            await self.do(Start(seat))

    async def snapshot(self, viewer: Seat | Player) -> pb.Snapshot:
        """What a seat or a spectator sees now."""
        metadata = viewer.metadata if isinstance(viewer, Player) else self.players[viewer].metadata
        answer = await self.stub.GetMatch(pb.GetMatchRequest(match_id=self.match_id), metadata=metadata)
        return answer.snapshot

    async def view(self, viewer: Seat | Player) -> table_pb2.Table:
        """The table of `snapshot`."""
        return (await self.snapshot(viewer)).table

    def request(self, command: Command, decision_id: int, request_id: str | None = None) -> pb.SubmitRequest:
        """A command on the wire."""
        return pb.SubmitRequest(
            match_id=self.match_id,
            request_id=request_id or new_id(),
            decision_id=decision_id,
            command=command_to_pb(command),
            seat=seat_to_pb(command.seat if self.one_device else None),
        )

    async def do(
        self, command: Command, *, decision_id: int | None = None, request_id: str | None = None
    ) -> pb.Applied:
        """Carries out a command; it answers the question on the table unless `decision_id` says which.

        Raises CallError.
        """
        if decision_id is None:
            decision_id = (await self.view(command.seat)).prompt.decision_id
        return await self.send(command.seat, self.request(command, decision_id, request_id))

    async def send(self, seat: Seat, request: pb.SubmitRequest) -> pb.Applied:
        """One Submit. Raises CallError."""
        try:
            answer = await self.stub.Submit(
                request, metadata=self.players[seat].metadata, timeout=SECONDS_MAX
            )
        except grpc.aio.AioRpcError as error:
            raise from_rpc(error) from None
        return answer.applied

    async def refused(
        self, command: Command, *, decision_id: int | None = None, request_id: str | None = None
    ) -> CallError:
        """Why a command is refused."""
        try:
            applied = await self.do(command, decision_id=decision_id, request_id=request_id)
        except CallError as error:
            return error
        raise AssertionError(f"{command} was carried out: {applied}")

    async def events(self, viewer: Seat | Player, resume_after: int = 0) -> Watching:
        """A Watch stream."""
        metadata = viewer.metadata if isinstance(viewer, Player) else self.players[viewer].metadata
        return Watching(self.stub, metadata, self.match_id, resume_after)

    async def until_over(self) -> list[pb.WatchResponse]:
        """What a spectator hears until the match is over."""
        watching = await self.events(self.stack.spectator())
        return await watching.to_the_end()


async def on_a_stream(table: Table, player: Player, *requests: pb.SubmitRequest) -> list[pb.Answer]:
    """The answers to commands on a Play stream, in order."""
    call = table.stub.Play(metadata=player.metadata)
    answers: list[pb.Answer] = []
    try:
        await call.write(pb.PlayRequest(join=pb.WatchRequest(match_id=table.match_id)))
        for request in requests:
            await call.write(pb.PlayRequest(submit=request))
        async with asyncio.timeout(SECONDS_MAX):
            while len(answers) < len(requests) and isinstance(message := await call.read(), pb.PlayResponse):
                answers += message.answers
    finally:
        call.cancel()
    return answers


class Watching:
    """A Watch stream, everything it said, and what follows from it."""

    def __init__(
        self, stub: pb_grpc.MatchServiceStub, metadata: Metadata, match_id: str, resume_after: int = 0
    ) -> None:
        self.call = stub.Watch(
            pb.WatchRequest(match_id=match_id, resume_after=resume_after), metadata=metadata
        )
        self.responses: list[pb.WatchResponse] = []
        self.sequence = resume_after

    async def read(self) -> pb.WatchResponse | None:
        """The next message, checked to continue exactly where the last one ended; None at the end of the stream."""
        async with asyncio.timeout(SECONDS_MAX):
            message = await self.call.read()
        if not isinstance(message, pb.WatchResponse):
            return None
        self.responses.append(message)
        self.sequence = continued(self.sequence, message)
        return message

    async def until(self, wanted: Callable[[pb.WatchResponse], bool]) -> pb.WatchResponse:
        """The first message for which `wanted` holds."""
        while (message := await self.read()) is not None:
            if wanted(message):
                return message
        raise AssertionError(f"the stream ended before, after {self.sequence} events")

    async def to_the_end(self) -> list[pb.WatchResponse]:
        """Everything to the end of the stream."""
        while await self.read() is not None:
            pass
        return self.responses


def continued(sequence: int, message: pb.WatchResponse) -> int:
    """The last number a reader has after a message. Fails when anything is missing or comes twice."""
    if message.HasField("snapshot"):
        assert not message.events
        assert message.snapshot.sequence >= sequence
        return message.snapshot.sequence
    for event in message.events:
        assert event.sequence == sequence + 1, f"event {event.sequence} came after {sequence}"
        sequence = event.sequence
    if message.HasField("prompt"):
        assert message.prompt.sequence == sequence
    return sequence


def ends(message: pb.WatchResponse) -> bool:
    """Whether a message tells of the end of the match."""
    return message.snapshot.table.HasField("outcome") or any(
        event.HasField("match_ended") for event in message.events
    )


def prompt_of(message: pb.WatchResponse) -> table_pb2.Prompt | None:
    """The question a message puts."""
    if message.HasField("prompt"):
        return message.prompt
    return message.snapshot.table.prompt if message.HasField("snapshot") else None


def legal_commands(legal: table_pb2.Legal, *, bids_max: int = 3) -> list[pb.Command]:
    """Every command a prompt offers, but Resign and the higher bids."""
    commands = [
        pb.Command(play=pb.PlaceTile(tile=play.tile, end=play.end if play.HasField("end") else None))
        for play in legal.plays
    ]
    for offered, command in (
        (legal.start, pb.Command(start=pb.Start())),
        (legal.continue_round, pb.Command(continue_round=pb.Continue())),
        (legal.reveal, pb.Command(reveal=pb.Reveal())),
        (legal.draw, pb.Command(draw=pb.Draw())),
        (legal.pass_turn, pb.Command(pass_turn=pb.Pass())),
        (legal.accept, pb.Command(accept=pb.Accept())),
        (legal.decline, pb.Command(decline=pb.Decline())),
    ):
        if offered:
            commands.append(command)
    if legal.HasField("bid"):
        amounts = range(legal.bid.min, legal.bid.max + 1, legal.bid.step)[:bids_max]
        commands += [pb.Command(bid=pb.Bid(amount=amount)) for amount in amounts]
    return commands


@dataclass
class Sitting:
    """A seat on a Play stream that answers each question at random; it keeps everything it hears."""

    stub: pb_grpc.MatchServiceStub
    metadata: Metadata
    match_id: str
    rng: random.Random
    news: list[pb.WatchResponse] = field(default_factory=list)
    answers: dict[str, list[pb.Answer]] = field(default_factory=dict)
    sequence: int = 0
    over: bool = False
    answered: int = 0
    """The last question that was answered."""
    patience: int = 1_000_000
    """After so many commands the seat resigns."""

    async def play(self) -> None:
        """To the end of the match."""
        while not self.over:
            try:
                await self._attach()
            except grpc.aio.AioRpcError as error:
                if from_rpc(error).reason:
                    raise
                # grpc.aio loses what was not read yet when it writes to a stream that the service has ended.

    async def _attach(self) -> None:
        call = self.stub.Play(metadata=self.metadata)
        try:
            await call.write(
                pb.PlayRequest(join=pb.WatchRequest(match_id=self.match_id, resume_after=self.sequence))
            )
            while True:
                async with asyncio.timeout(SECONDS_MAX):
                    message = await call.read()
                if not isinstance(message, pb.PlayResponse):
                    return
                self.hear(message)
                prompt = prompt_of(message.news)
                if prompt is not None:
                    for request in self.choose(prompt):
                        await call.write(pb.PlayRequest(submit=request))
        finally:
            call.cancel()

    def hear(self, message: pb.PlayResponse) -> None:
        """Takes in a message; fails when anything is missing or comes twice."""
        for answer in message.answers:
            self.answers.setdefault(answer.request_id, []).append(answer)
        if message.HasField("news"):
            self.news.append(message.news)
            self.sequence = continued(self.sequence, message.news)
            self.over = self.over or ends(message.news)

    def choose(self, prompt: table_pb2.Prompt) -> list[pb.SubmitRequest]:
        """The requests that answer a question."""
        commands = legal_commands(prompt.legal)
        if not commands or prompt.decision_id == self.answered:
            return []
        self.answered = prompt.decision_id
        self.patience -= 1
        command = self.rng.choice(commands) if self.patience > 0 else pb.Command(resign=pb.Resign())
        return [pb.SubmitRequest(request_id=new_id(), decision_id=prompt.decision_id, command=command)]


def by_seat(players: BySeat[Player]) -> Mapping[Seat, Metadata]:
    """The metadata of each seat."""
    return {seat: players[seat].metadata for seat in SEATS}
