"""A match through real processes with the worst of clients: exactly one effect each, and a forfeit not before its time."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

import asyncpg
import pytest

from client import MatchStream, News, Refused, TableState, Transport
from client.bots import greedy
from client.bots.player import play
from client.errors import CallError
from engine.command import Bid, Command, Draw, Pass, Play
from engine.match import Phase
from engine.seats import NORTH, SOUTH, BySeat
from engine.tiles import DOUBLE_SIX
from services.game.story import Audience, Story
from services.storage import matches
from spectacularbid.match.v1.event_pb2 import MatchEvent
from tests.proxy import Proxy
from tests.stack import HOST, Stack, time_control
from tests.told import events_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

BANK_MS, DELAY_MS = 2000, 3000
QUESTIONS = 14
"""So many the rough player answers; then its clock runs out."""


@dataclass
class Rough:
    """A player that breaks its connection, repeats itself, answers old questions and breaks the rules."""

    proxy: Proxy
    match: MatchStream
    rng: random.Random
    events: list[MatchEvent] = field(default_factory=list)
    snapshots: int = 0
    done: dict[str, tuple[int, int]] = field(default_factory=dict)
    """What the service said to each request that had an effect."""
    refused: list[str] = field(default_factory=list)
    ended_at_ns: int = 0

    def hear(self, news: News) -> None:
        """Keeps all that is told."""
        self.events += news.events
        self.snapshots += news.snapshot
        if news.table.outcome is not None and not self.ended_at_ns:
            self.ended_at_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    async def play(self) -> None:
        """Answers some questions, each in the roughest way, and then no more."""
        number = 0
        async for table in self.match.questions(self.hear):
            number += 1
            if number <= QUESTIONS:
                await self.answer(table, number)

    async def answer(self, table: TableState, number: int) -> None:
        """One question."""
        before = table.prompt.decision_id
        for wrong in self.wrong_commands(table):
            await self.expect_refusal(wrong, before)
        command = greedy.choose(table)
        assert command is not None
        if before > 1:
            await self.expect_refusal(command, before - 1)
        request_id = str(uuid.uuid4())
        # The connection breaks before, while or after the command is on its way; each client sends it again by itself.
        if number % 3 == 0:
            self.proxy.cut()
        first = asyncio.create_task(self.match.submit(command, decision_id=before, request_id=request_id))
        if number % 3 == 1:
            for _ in range(self.rng.randrange(3)):
                await asyncio.sleep(0)
            self.proxy.cut()
        applied = await first
        if number % 3 == 2:
            self.proxy.cut()
        assert await self.match.submit(command, decision_id=before, request_id=request_id) == applied
        assert request_id not in self.done
        self.done[request_id] = applied.first_sequence, applied.last_sequence
        await self.expect_refusal(command, before, request_id=str(uuid.uuid4()))
        with pytest.raises(CallError) as reused:
            await self.match.submit(command, decision_id=before + 1, request_id=request_id)
        assert reused.value.reason == "REQUEST_ID_REUSED"

    def wrong_commands(self, table: TableState) -> list[Command]:
        """Commands the rules do not allow now."""
        foreign = next(tile for tile in DOUBLE_SIX if tile not in table.hand)
        wrong: list[Command] = [Bid(NORTH, 17), Play(NORTH, foreign, None)]
        legal = table.prompt.legal
        if not legal.draw:
            wrong.append(Draw(NORTH))
        if not legal.pass_turn:
            wrong.append(Pass(NORTH))
        return wrong

    async def expect_refusal(self, command: Command, decision_id: int, request_id: str | None = None) -> None:
        """It must change nothing."""
        with pytest.raises(Refused) as refusal:
            await self.match.submit(command, decision_id=decision_id, request_id=request_id)
        self.refused.append(refusal.value.reason)


@pytest.mark.parametrize("transport", list(Transport))
async def test_one_effect_each_and_a_forfeit_at_the_deadline_and_not_before(
    shared: Stack, transport: Transport
) -> None:
    """North's connection breaks at every question; each command goes out twice under one request id; old questions are
    answered and rules broken in between; then north's clock runs out. North has heard everything once and in order;
    each accepted request has one effect; refusals have none; the forfeit comes with proof that the deadline had passed.
    """
    players = BySeat(*await shared.players(2))
    match_id = await shared.create(
        players, time_control=time_control(BANK_MS, DELAY_MS), continue_limit_ms=500
    )
    async with Proxy(HOST, shared.ports["game"]) as proxy:
        north = await shared.client(players.north, game_address=proxy.address)
        south = await shared.client(players.south)
        async with north.play(match_id, proxy.address, transport=transport) as match:
            rough = Rough(proxy, match, random.Random(3))
            async with asyncio.TaskGroup() as group:
                group.create_task(rough.play())
                group.create_task(play(south.play(match_id), greedy.choose))
        assert proxy.accepted > QUESTIONS / 2
        assert match.reattached > QUESTIONS / 2

    # Nothing lost, nothing repeated: what north heard is what the log tells north.
    row, log = await shared.row(match_id), await matches.get_log(shared.pool, match_id)
    story = Story.from_log(row, log)
    assert rough.snapshots == 1
    first = rough.events[0].sequence
    assert first <= 2  # south may have pressed Start before north looked
    assert rough.events == events_of(story, Audience.NORTH, first - 1)

    # One effect each: every answered request is in the log once, with the numbers of its answer, and no other.
    assert len(rough.done) == QUESTIONS
    stored = await shared.pool.fetch(
        "select * from match_log where match_id = $1 and seat = 'north' order by revision", match_id
    )
    assert {row["request_id"]: (row["first_sequence"], row["last_sequence"]) for row in stored} == rough.done
    assert len(rough.refused) >= 4 * QUESTIONS
    assert {"STALE_DECISION", "NOT_STARTED"} <= set(rough.refused)

    check_charges(
        await shared.pool.fetch("select * from match_log where match_id = $1 order by revision", match_id)
    )

    # The forfeit: not before the deadline, with proof, and every event of the loser's last decision is there.
    outcome, evidence = await shared.outcome(match_id), await shared.evidence(match_id)
    assert outcome is not None
    assert (outcome["winner"], outcome["cause"]) == ("south", "time")
    detail = evidence["detail"]
    bank_ns, delay_ns = detail["bank_ns"], DELAY_MS * 1_000_000
    assert detail["delay_ns"] == delay_ns
    assert detail["deadline_ns"] == detail["start_ns"] + delay_ns + bank_ns - detail["consumed_ns"]
    assert detail["proof"] == "watermark"
    assert detail["proof_ns"] >= detail["deadline_ns"]
    assert rough.ended_at_ns >= detail["deadline_ns"]
    # The bank it ran out of is the one that the charges before left.
    charged = sum(row["charge_ns"] for row in stored if row["charge_ns"] is not None)
    assert bank_ns == BANK_MS * 1_000_000 - charged
    assert (story.state.banks[NORTH], story.state.phase) == (0, Phase.OVER)
    assert story.state.banks[SOUTH] > 0


def check_charges(rows: Sequence[asyncpg.Record]) -> None:
    """Works every stored charge out again, from its stamps alone."""
    banks = dict.fromkeys(("north", "south"), BANK_MS * 1000000)
    consumed = 0
    judged = [row for row in rows if row["start_ns"] is not None]
    assert judged
    for row in judged:
        elapsed = consumed + max(0, row["arrive_ns"] - row["start_ns"])
        assert row["elapsed_ns"] == elapsed
        drew = '"tile_drawn"' in row["events"]
        consumed = elapsed if drew else 0
        charge = 0 if drew else max(0, elapsed - DELAY_MS * 1_000_000)
        assert row["charge_ns"] == charge
        banks[row["seat"]] -= charge
        assert row["bank_after_ns"] == banks[row["seat"]]
