"""Those who are at a match: its players, over several connections at once, and people who only look on."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from engine.seats import NORTH, SEATS, SOUTH
from engine.shuffle import CONTRIBUTION_MAX
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import table_pb2
from tests.fuzz.apiledger import ANOTHER, ASTRAY, Ledger, Look
from tests.fuzz.apiline import Line
from tests.fuzz.apirequests import add, anything, broken, near, nonsense, request_id
from tests.fuzz.apiview import look
from tests.fuzz.apiworld import World
from tests.seats import legal_commands
from tests.stack import Player

TABLE_SECONDS: Final = 40.0
"""How long a match is played. On a machine that is far too slow, a longer one could have 60 s of credit, and be void."""
BURST: Final = 6
"""Commands at once."""


class Guest:
    """Somebody at a match: a player of it with one of their devices, or a stranger."""

    def __init__(
        self, world: World, ledger: Ledger, player: Player, rng: random.Random, *, keen: bool = False
    ) -> None:
        self.world = world
        self.ledger = ledger
        self.player = player
        self.rng = rng
        self.seats = [seat for seat in SEATS if ledger.players[seat] == player.player_id]
        self.lines: list[Line] = []
        self.prompt: table_pb2.Prompt | None = None
        self.table: table_pb2.Table | None = None
        self._acts = self._weights(keen=keen)

    def _weights(self, *, keen: bool) -> tuple[list[Callable[[], Awaitable[Any]]], list[float]]:
        acts: list[tuple[Callable[[], Awaitable[Any]], float]] = [
            (self.legal, 400 if keen else 70),
            (self.stale, 5),
            (self.again, 7),
            (self.twin, 4),
            (self.reused, 3),
            (self.borrowed, 4),
            (self.nonsense, 5),
            (self.near, 12),
            (self.busy, 1),
            (self.astray, 2 if len(self.world.games) > 1 else 0),
            (self.random, 3),
            (self.raw, 3),
            (self.burst, 2),
            (self.look, 5),
            (self.record, 2),
            (self.watch, 3),
            (self.play, 3),
            (self.cut, 2),
            (self.disguised, 3),
            (self.resign, 0.3),
        ]
        return [act for act, _ in acts], [weight for _, weight in acts]

    async def run(self, actions: int) -> None:
        """Does so much, or less when the match is over or long."""
        give_up = time.monotonic() + TABLE_SECONDS
        for _ in range(actions):
            if (
                not self.world.open
                or time.monotonic() > give_up
                or (self.ledger.over and self.rng.random() < 0.5)
            ):
                break
            (act,) = self.rng.choices(*self._acts)
            await act()
            await asyncio.sleep(0)

    async def leave(self) -> None:
        """When the match is over: the streams end, or are cut."""
        for line in self.lines:
            if self.rng.random() < 0.5:
                await line.over()
            else:
                await line.cut()

    # What may be asked.

    def _newest(self) -> table_pb2.Prompt | None:
        prompts = [line.prompt for line in self.lines if line.prompt is not None]
        prompts += [] if self.prompt is None else [self.prompt]
        return max(prompts, key=lambda prompt: (prompt.sequence, prompt.decision_id), default=None)

    def _request(
        self, command: pb.Command, decision_id: int, *, named: str | None = None
    ) -> pb.SubmitRequest:
        seat = 0
        if self.ledger.same_device:
            prompt = self._newest()
            acting = 0 if prompt is None else prompt.to_act or prompt.awaiting_reveal
            seat = acting if acting and self.rng.random() < 0.9 else self.rng.randrange(3)
        elif self.rng.random() < 0.1:
            seat = self.rng.choice((1, 2, 1, 2, 77))
        add(self.rng, command, most=CONTRIBUTION_MAX + 1)
        return pb.SubmitRequest(
            match_id=self.ledger.match_id,
            request_id=request_id(self.rng) if named is None else named,
            decision_id=decision_id,
            command=command,
            seat=table_pb2.Seat.ValueType(seat),
        )

    def _own(self) -> list[pb.SubmitRequest]:
        return [sent.request for sent in self.ledger.sent if sent.player_id == self.player.player_id]

    async def _give(self, request: pb.SubmitRequest) -> None:
        lines = [line for line in self.lines if line.plays and not line.ended]
        here = request.match_id == self.ledger.match_id
        streamed = bool(lines) and here and self.rng.random() < 0.6
        if not streamed or not await self.rng.choice(lines).send(request):
            await self.world.submit(self.ledger, self.player, request)

    async def _some_legal(self) -> pb.SubmitRequest | None:
        prompt = self._newest()
        commands = [] if prompt is None else legal_commands(prompt.legal)
        if prompt is None or not commands or self.rng.random() < 0.1:
            await self.look()
            prompt = self.prompt
            commands = [] if prompt is None else legal_commands(prompt.legal)
        if prompt is None or not commands:
            return None
        return self._request(self.rng.choice(commands), prompt.decision_id)

    # What is done.

    async def legal(self) -> None:
        """What a player would do."""
        request = await self._some_legal()
        if request is not None:
            await self._give(request)

    async def stale(self) -> None:
        """An answer to another question."""
        request = await self._some_legal()
        if request is not None:
            request.decision_id += self.rng.choice((-1, -2, 1, 1000, -(10**6)))
            await self._give(request)

    async def again(self) -> None:
        """The same request once more."""
        own = self._own()
        if own:
            await self._give(self.rng.choice(own[-20:]))

    async def twin(self) -> None:
        """The same request at the same moment."""
        request = await self._some_legal()
        if request is not None:
            await asyncio.gather(self._give(request), self._give(request), self._give(request))

    async def reused(self) -> None:
        """Another request under the same id."""
        own = self._own()
        if own:
            old = self.rng.choice(own[-20:])
            prompt = self._newest()
            decision_id = old.decision_id + 1 if prompt is None else prompt.decision_id
            await self._give(self._request(nonsense(self.rng), decision_id, named=old.request_id))

    async def borrowed(self) -> None:
        """A request under the id of somebody else's."""
        others = [sent.request for sent in self.ledger.sent[-60:] if sent.player_id != self.player.player_id]
        request = await self._some_legal()
        if others and request is not None:
            request.request_id = self.rng.choice(others).request_id
            await self._give(request)

    async def nonsense(self) -> None:
        """A command that makes no sense, or none now."""
        prompt = self._newest()
        number = 1 if prompt is None else prompt.decision_id
        await self._give(
            self._request(nonsense(self.rng), self.rng.choice((number, number, number - 1, 0, -1)))
        )

    async def near(self) -> None:
        """Nearly what a player would do: the right question, and a word, a tile or an end that is wrong with luck."""
        await self.look()
        if self.table is not None:
            command = near(self.rng, self.table)
            await self._give(self._request(command, self.table.prompt.decision_id))

    async def busy(self) -> None:
        """Another match beside this one."""
        known = self.ledger.known
        request = pb.CreateMatchRequest(request_id=request_id(self.rng), same_device=True, start_limit_ms=200)
        heard = await self.world.call("CreateMatch", request.SerializeToString(), self.player)
        if not self.seats:
            return
        self.ledger.records.append(
            Look(self.player.player_id, known, heard.sent_at, heard.answered_at, f"{ANOTHER}{heard.said}")
        )

    async def astray(self) -> None:
        """A look at another game process than the one that plays the match."""
        known, ledger = self.ledger.known, self.ledger
        home = self.rng.choice([name for name in self.world.games if name != ledger.home])
        sent = pb.GetMatchRequest(match_id=ledger.match_id).SerializeToString()
        heard = await self.world.call("GetMatch", sent, self.player, home=home)
        if heard.said == "WRONG_ADDRESS" and heard.error is not None:
            told = heard.error.metadata.get("address")
            if told != self.world.made.address(ledger.home):
                self.world.find(f"{home} says that {ledger.home} is at {told}", ledger.calls)
        ledger.records.append(
            Look(self.player.player_id, known, heard.sent_at, heard.answered_at, f"{ASTRAY}{heard.said}")
        )

    async def random(self) -> None:
        """Any request at all."""
        request = anything(self.rng, pb.SubmitRequest, self.world.ids())
        assert isinstance(request, pb.SubmitRequest)
        if self.rng.random() < 0.8:
            request.match_id = self.ledger.match_id
        if request.command.WhichOneof("action") == "resign":
            request.ClearField("command")
        await self.world.submit(self.ledger, self.player, request)

    async def raw(self) -> None:
        """Damaged bytes."""
        request = await self._some_legal() or self._request(nonsense(self.rng), 1)
        await self.world.submit(
            self.ledger, self.player, request, broken(self.rng, request.SerializeToString())
        )

    async def burst(self) -> None:
        """Many at once."""
        request = await self._some_legal()
        requests = [self._request(nonsense(self.rng), 1) for _ in range(BURST)]
        if request is not None:
            requests.insert(self.rng.randrange(BURST), request)
        await asyncio.gather(*map(self._give, requests))

    async def look(self) -> None:
        """What is on the table?"""
        known = self.ledger.known
        sent = pb.GetMatchRequest(match_id=self.ledger.match_id).SerializeToString()
        heard = await self.world.call("GetMatch", sent, self.player, home=self.ledger.home)
        if heard.error is not None:
            if heard.said not in ("TRY_AGAIN", "LIMIT_REACHED"):
                self.world.find(f"GetMatch: {heard.error}", self.ledger.calls)
            return
        answer = heard.messages[0]
        assert isinstance(answer, pb.GetMatchResponse)
        listened = look(self.player.player_id, known, heard.answered_at, answer.snapshot)
        self.ledger.listened.append(listened)
        message = listened.messages.pop()[1]
        self.ledger.hear(listened, message, heard.answered_at)
        self.prompt, self.table = answer.snapshot.table.prompt, answer.snapshot.table

    async def record(self) -> None:
        """How did it go?"""
        known = self.ledger.known
        sent = pb.GetRecordRequest(match_id=self.ledger.match_id).SerializeToString()
        heard = await self.world.call("GetRecord", sent, self.player, home=self.rng.choice(self.world.games))
        record = ""
        if heard.messages:
            answer = heard.messages[0]
            assert isinstance(answer, pb.GetRecordResponse)
            record = answer.record
        else:
            self.ledger.raw += heard.raw
        self.ledger.records.append(
            Look(self.player.player_id, known, heard.sent_at, heard.answered_at, heard.said, record)
        )

    async def watch(self) -> None:
        """Another stream of news."""
        await self._open(plays=False)

    async def play(self) -> None:
        """Another stream for commands and news."""
        await self._open(plays=True)

    async def _open(self, *, plays: bool) -> None:
        if len([line for line in self.lines if not line.ended]) < 4:
            known = self.ledger.known
            after = self.rng.choice(
                (0, 0, known, max(0, known - 3), self.rng.randrange(known + 1), known + 50)
            )
            self.lines.append(Line(self.world, self.ledger, self.player, after, plays=plays))

    async def cut(self) -> None:
        """A connection is lost."""
        if self.lines:
            await self.rng.choice(self.lines).cut()

    async def disguised(self) -> None:
        """A command in the name of a seat, by somebody who is not it."""
        seat = self.rng.choice(SEATS)
        guise = self.world.guises.wrong(self.rng, self.ledger.players[seat])
        request = await self._some_legal() or self._request(nonsense(self.rng), 1)
        heard = await self.world.call("Submit", request.SerializeToString(), guise, home=self.ledger.home)
        if heard.said not in (guise.refused, "LIMIT_REACHED"):
            self.world.find(f"Submit by {guise.name}: {heard.said}, not {guise.refused}", self.ledger.calls)

    async def resign(self) -> None:
        """Enough."""
        await self._give(self._request(pb.Command(resign=pb.Resign()), 0))


async def table(world: World, ledger: Ledger, rng: random.Random) -> None:
    """One match from its creation to its judgement."""
    seated = {seat: world.token_of(ledger.players[seat]) for seat in (NORTH, SOUTH)}
    at: list[Player] = [*seated.values()] if not ledger.same_device else [seated[NORTH]]
    at += rng.choices(at, k=rng.randrange(3))
    at += [world.made.spectator() for _ in range(rng.randrange(3))]
    keen = rng.random() < 0.4
    """Whether they play on in earnest: matches must also come to their ends."""
    guests = [Guest(world, ledger, player, random.Random(rng.random()), keen=keen) for player in at]
    actions = 400 if keen else rng.choice((20, 60, 100, 300))
    await asyncio.gather(*(guest.run(actions) for guest in guests))
    await world.finish(ledger)
    await asyncio.gather(*(guest.leave() for guest in guests))
    for guest in guests:
        await guest.record()
    await world.judge(ledger)
