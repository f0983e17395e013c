"""Every refusal of the rules over the wire, with its reason, its rule and its status."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from client.errors import CallError
from engine.command import (
    Accept,
    Bid,
    Command,
    Continue,
    Decline,
    Draw,
    Pass,
    Resign,
    Reveal,
    Start,
)
from engine.event import Event
from engine.match import Match
from engine.refusal import Refusal
from engine.seats import NORTH, SOUTH
from services.wire.commands import STATUS
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import refusal_pb2, table_pb2
from tests.engine.tables import deal, play
from tests.integration.rounds import find_round
from tests.seats import SECONDS_MAX, Table, on_a_stream, scripted
from tests.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="session")

UNREACHABLE: Final = {
    Refusal.AWAITING_DEAL,  # the service deals in the same ruling that makes a deal due
    Refusal.DEAL_NOT_DUE,  # of records only
    Refusal.CLOCK_EXPIRED,  # needs a clock that is late: in test_restarts
}


@dataclass(frozen=True)
class Scene:
    """A command in a position where it is refused."""

    refusal: Refusal
    command: Command
    before: Sequence[Command] = ()
    wanted: dict[str, Any] = field(default_factory=dict)
    start: bool = True
    one_device: bool = False
    decision_id: int | None = None


def passed(_: Sequence[Event], states: Sequence[Match]) -> bool:
    """A round in which somebody passes."""
    return any(state.passes for state in states)


def scenes() -> list[Scene]:
    """One for each refusal."""
    forced = {"deals": scripted(deal("6|6 1|2", "0|6 0|1"))}
    auction = {"jockey": table_pb2.SEAT_NORTH}
    drawing = {"deals": scripted(deal("0|0 0|1 0|2 1|1 1|2 2|2 0|3", "6|6 5|5", "1|3 0|6"))}
    opened = [play(NORTH, "6|6")]
    dealt, course = find_round(passed, 1)
    whole_round = {"deals": scripted(dealt)}
    first_pass = next(number for number, command in enumerate(course) if isinstance(command, Pass))
    r = Refusal
    return [
        Scene(r.MATCH_OVER, Draw(NORTH), [Resign(NORTH)], forced),
        Scene(r.NOT_STARTED, Draw(NORTH), start=False),
        Scene(r.ROUND_SETTLED, Draw(NORTH), course, whole_round),
        Scene(r.START_NOT_DUE, Start(NORTH), wanted=forced),
        Scene(r.CONTINUE_NOT_DUE, Continue(NORTH), wanted=forced),
        Scene(r.NOT_SAME_DEVICE, Reveal(NORTH), wanted=forced),
        Scene(r.REVEAL_NOT_DUE, Reveal(SOUTH), wanted=forced, one_device=True),
        Scene(r.ALREADY_PRESSED, Start(NORTH), [Start(NORTH)], start=False),
        Scene(r.STALE_DECISION, Draw(SOUTH), opened, forced, decision_id=2),
        Scene(r.NOT_YOUR_TURN, Draw(SOUTH), wanted=forced),
        Scene(r.NOT_REVEALED, play(NORTH, "6|6"), wanted=forced, one_device=True),
        Scene(r.NO_AUCTION, Bid(NORTH, 15), wanted=forced),
        Scene(r.AUCTION_OPEN, Draw(SOUTH), wanted=auction),
        Scene(r.BID_STANDS, Decline(NORTH), [Bid(SOUTH, 15)], auction),
        Scene(r.NO_BID_STANDS, Accept(SOUTH), wanted=auction),
        Scene(
            r.MUST_DECLINE,
            Bid(SOUTH, 15),
            wanted={**auction, "balances": table_pb2.Balances(north=290, south=10)},
        ),
        Scene(r.BID_NOT_A_MULTIPLE_OF_FIVE, Bid(SOUTH, 17), wanted=auction),
        Scene(r.BID_BELOW_MINIMUM, Bid(SOUTH, 10), wanted=auction),
        Scene(r.RAISE_TOO_SMALL, Bid(NORTH, 15), [Bid(SOUTH, 15)], auction),
        Scene(r.BID_UNAFFORDABLE, Bid(SOUTH, 155), wanted=auction),
        Scene(r.MUST_OPEN, Pass(NORTH), wanted=forced),
        Scene(r.TILE_NOT_IN_HAND, play(NORTH, "0|1"), wanted=forced),
        Scene(r.OPENING_TILE_FORCED, play(NORTH, "1|2"), wanted=forced),
        Scene(r.END_GIVEN_FOR_OPENING, play(NORTH, "6|6", "1|2 low"), wanted=forced),
        Scene(r.MUST_PLAY_DRAWN_TILE, Draw(NORTH), [play(SOUTH, "6|6"), Draw(NORTH), Draw(NORTH)], drawing),
        Scene(r.END_MISSING, play(SOUTH, "0|6"), opened, forced),
        Scene(r.END_NOT_OPEN, play(SOUTH, "0|6", "5|5 line_a"), opened, forced),
        Scene(r.BRANCH_CLOSED, play(SOUTH, "0|6", "6|6 branch_a"), opened, forced),
        Scene(r.TILE_DOES_NOT_FIT, play(SOUTH, "0|1", "6|6 line_a"), opened, forced),
        Scene(r.MUST_PLAY, Draw(SOUTH), opened, forced),
        Scene(r.BONEYARD_EMPTY, Draw(course[first_pass].seat), course[:first_pass], whole_round),
        Scene(r.MUST_DRAW, Pass(NORTH), [play(SOUTH, "6|6")], drawing),
    ]


SCENES: Final = scenes()


async def met(made: Stack, scene: Scene) -> None:
    """The refusal over both transports, and nothing changed by it."""
    create = Table.on_one_device if scene.one_device else Table.create
    table = await create(made, start=scene.start, **scene.wanted)
    for command in scene.before:
        await table.do(command)
    revision = await made.pool.fetchval(
        "select max(revision) from match_log where match_id = $1", table.match_id
    )
    error = await table.refused(scene.command, decision_id=scene.decision_id)
    assert (error.reason, error.metadata, error.code) == (
        scene.refusal.value,
        {"rule": scene.refusal.rule},
        STATUS[scene.refusal],
    )
    assert scene.refusal.rule in error.message
    decision_id = scene.decision_id or (await table.view(scene.command.seat)).prompt.decision_id
    if scene.refusal is not Refusal.MATCH_OVER:  # a stream of a finished match ends at once
        await met_on_a_stream(table, scene, decision_id, error)
    assert revision == await made.pool.fetchval(
        "select max(revision) from match_log where match_id = $1", table.match_id
    )


async def met_on_a_stream(table: Table, scene: Scene, decision_id: int, error: CallError) -> None:
    """The same over Play."""
    player = table.players[scene.command.seat]
    (answer,) = await on_a_stream(table, player, table.request(scene.command, decision_id))
    refused = answer.refused
    assert refused.reason == refusal_pb2.RefusalReason.Value(f"REFUSAL_REASON_{scene.refusal}")
    assert (refused.rule, refused.reason_word) == (scene.refusal.rule, scene.refusal.value)
    assert refused.code == STATUS[scene.refusal].value[0]
    assert refused.message == error.message


async def test_every_refusal_comes_with_its_reason_its_rule_and_its_status(shared: Stack) -> None:
    """The table of refusals, over Submit and over Play; nothing is stored for any of them."""
    assert {scene.refusal for scene in SCENES} == set(Refusal) - UNREACHABLE
    async with asyncio.TaskGroup() as group:
        for scene in SCENES:
            group.create_task(met(shared, scene))


async def test_what_comes_behind_the_end_on_a_stream_is_answered(shared: Stack) -> None:
    """MATCH_OVER over Play: the command that was in line when the match ended."""
    table = await Table.create(shared)
    requests = [table.request(command, 2) for command in (Resign(NORTH), Draw(NORTH), Resign(NORTH))]
    call = table.stub.Play(metadata=table.players.north.metadata)
    await call.write(pb.PlayRequest(join=pb.WatchRequest(match_id=table.match_id)))
    await call.read()
    # Written while the process stands still: so all three are there when it reads the first.
    shared.processes["game"].signal(signal.SIGSTOP)
    try:
        for request in requests:
            await call.write(pb.PlayRequest(submit=request))
    finally:
        shared.processes["game"].signal(signal.SIGCONT)
    answers: list[pb.Answer] = []
    async with asyncio.timeout(SECONDS_MAX):
        while isinstance(message := await call.read(), pb.PlayResponse):
            answers += message.answers
    assert [answer.request_id for answer in answers] == [request.request_id for request in requests]
    assert answers[0].HasField("applied")
    assert [answer.refused.reason_word for answer in answers[1:]] == ["MATCH_OVER", "MATCH_OVER"]
