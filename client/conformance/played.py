"""One whole match, with everything that either seat and a spectator heard of it; several checks look at it."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import grpc

from client.conformance.bench import CALL_SECONDS, new_id
from client.conformance.check import BrokenError, expect
from client.conformance.hearing import Heard, Watching
from client.errors import from_rpc
from engine.seats import NORTH, SEATS, SOUTH, BySeat, Seat
from spectacularbid.match.v1 import match_service_pb2 as pb

if TYPE_CHECKING:
    from client.conformance.bench import Bench, Guest
    from spectacularbid.match.v1 import table_pb2

_SEED: Final = 20
_RAISES_MAX: Final = 3
_PATIENCE: Final = 120
"""After so many commands a seat resigns: random play can go on for ever, and several rounds are enough to look at."""


@dataclass(frozen=True)
class Played:
    """A finished match."""

    match_id: str
    address: str
    guests: BySeat[Guest]
    spectator: Guest
    heard: dict[Seat | None, Heard]
    """What each seat heard on Play, and the spectator, None, on Watch."""
    slow: Heard
    """What a second spectator read who looked at nothing until the match was over."""
    views: dict[Seat | None, list[pb.Snapshot]]
    """What GetMatch said now and then while the match was played."""
    record: str


def commands(legal: table_pb2.Legal) -> list[pb.Command]:
    """Every command a prompt offers, but Resign and the higher bids."""
    offered = [
        pb.Command(play=pb.PlaceTile(tile=play.tile, end=play.end if play.HasField("end") else None))
        for play in legal.plays
    ]
    for there, command in (
        (legal.start, pb.Command(start=pb.Start())),
        (legal.continue_round, pb.Command(continue_round=pb.Continue())),
        (legal.reveal, pb.Command(reveal=pb.Reveal())),
        (legal.draw, pb.Command(draw=pb.Draw())),
        (legal.pass_turn, pb.Command(pass_turn=pb.Pass())),
        (legal.accept, pb.Command(accept=pb.Accept())),
        (legal.decline, pb.Command(decline=pb.Decline())),
    ):
        if there:
            offered.append(command)
    if legal.HasField("bid"):
        amounts = range(legal.bid.min, legal.bid.max + 1, legal.bid.step)[:_RAISES_MAX]
        offered += [pb.Command(bid=pb.Bid(amount=amount)) for amount in amounts]
    return offered


@dataclass
class Sitting:
    """A seat on a Play stream that answers each question with something legal."""

    bench: Bench
    address: str
    match_id: str
    guest: Guest
    rng: random.Random
    heard: Heard = field(default_factory=Heard)
    answered: int = 0
    """The last question that was answered."""
    waiting: dict[str, pb.SubmitRequest] = field(default_factory=dict)
    """Commands without an answer so far."""
    views: list[pb.Snapshot] = field(default_factory=list)
    patience: int = _PATIENCE

    async def play(self) -> None:
        """To the end of the match; the stream is opened again when it breaks."""
        while not self.heard.over:
            try:
                await self._attach()
            except grpc.aio.AioRpcError as error:
                failure = from_rpc(error)
                if not failure.retryable:
                    raise failure from None

    async def _attach(self) -> None:
        stub = self.bench.matches(self.address)
        call = stub.Play(metadata=self.guest.metadata)
        try:
            join = pb.WatchRequest(match_id=self.match_id, resume_after=self.heard.sequence)
            await call.write(pb.PlayRequest(join=join))
            for request in list(self.waiting.values()):
                await call.write(pb.PlayRequest(submit=request))
            while True:
                async with asyncio.timeout(CALL_SECONDS):
                    message = await call.read()
                if not isinstance(message, pb.PlayResponse):
                    return
                self._hear(message)
                if (chosen := self._choose()) is not None:
                    await self._look()
                    await call.write(pb.PlayRequest(submit=chosen))
        except TimeoutError:
            raise BrokenError(f"Play said nothing for {CALL_SECONDS:.0f} s") from None
        finally:
            call.cancel()

    def _hear(self, message: pb.PlayResponse) -> None:
        for answer in message.answers:
            asked = self.waiting.pop(answer.request_id, None)
            if asked is None:
                continue
            # Both seats press Start and Continue at once, and a limit may press for us.
            overtaken = answer.refused.reason_word in {"STALE_DECISION", "ALREADY_PRESSED", "MATCH_OVER"}
            expect(
                answer.HasField("applied") or overtaken,
                f"a command out of Prompt.legal was refused: {answer.refused.reason_word}",
            )
        if message.HasField("news"):
            self.heard.take(message.news)

    def _choose(self) -> pb.SubmitRequest | None:
        prompt = self.heard.prompt
        if prompt is None or prompt.decision_id == self.answered or self.heard.over:
            return None
        choices = commands(prompt.legal)
        if not choices:
            return None
        self.answered = prompt.decision_id
        self.patience -= 1
        command = self.rng.choice(choices) if self.patience > 0 else pb.Command(resign=pb.Resign())
        request = pb.SubmitRequest(request_id=new_id(), decision_id=prompt.decision_id, command=command)
        self.waiting[request.request_id] = request
        return request

    async def _look(self) -> None:
        """Now and then, the same by GetMatch."""
        if self.rng.random() < 0.1:
            request = pb.GetMatchRequest(match_id=self.match_id)
            answer = await self.bench.ask(self.bench.matches(self.address).GetMatch, request, self.guest)
            self.views.append(answer.snapshot)


async def play_one(bench: Bench) -> Played:
    """Have two guests seek each other in the casual pool and play to the end. Raises BrokenError."""
    await bench.game()
    async with bench.queue:
        (match_id, address), guests = await bench.pair()
    spectator, other = await bench.guest(), await bench.guest()
    seats = BySeat(
        *(
            Sitting(bench, address, match_id, guest, random.Random(_SEED + n))  # noqa: S311  a game, no secret
            for n, guest in enumerate(guests)
        )
    )
    async with (
        Watching(bench, address, match_id, spectator) as watching,
        Watching(bench, address, match_id, other, slow=True) as slow,
    ):
        await slow.read()
        async with asyncio.TaskGroup() as group:
            for seat in SEATS:
                group.create_task(seats[seat].play())
            group.create_task(watching.to_the_end())
        await slow.to_the_end()
    record = await bench.ask(
        bench.matches(address).GetRecord, pb.GetRecordRequest(match_id=match_id), guests[0]
    )
    heard: dict[Seat | None, Heard] = {seat: seats[seat].heard for seat in SEATS}
    return Played(
        match_id=match_id,
        address=address,
        guests=BySeat(*guests),
        spectator=spectator,
        heard={**heard, None: watching.heard},
        slow=slow.heard,
        views={NORTH: seats.north.views, SOUTH: seats.south.views, None: []},
        record=record.record,
    )
