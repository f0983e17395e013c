"""Each refusal of the rules that can be met from outside: its reason, its rule, its status, and that it changes nothing."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import grpc

from client.conformance.bench import expect_error, failure
from client.conformance.check import Check, expect
from client.conformance.table import Table, scripted
from engine.command import Accept, Bid, Continue, Decline, Draw, Pass, Play, Resign, Reveal, Start
from engine.deal import Deal
from engine.match import RANKED, Match, Phase, deal_round, decide, legal, replay
from engine.refusal import Refusal
from engine.seats import NORTH, SEATS, SOUTH, BySeat, Seat
from engine.tiles import DOUBLE_SIX, End, Tile
from spectacularbid.match.v1 import refusal_pb2, table_pb2

if TYPE_CHECKING:
    from collections.abc import Sequence

    from client.conformance.bench import Bench
    from client.errors import CallError
    from engine.command import Command
    from spectacularbid.match.v1 import match_service_pb2 as pb

UNREACHABLE: Final = {
    Refusal.AWAITING_DEAL: "a service deals as soon as a deal is due",
    Refusal.DEAL_NOT_DUE: "of records only",
    Refusal.CLOCK_EXPIRED: "a command that late mostly meets MATCH_OVER; see a-late-command-loses",
}
"""Refusals that cannot be provoked from outside, and why."""


def status_of(refusal: Refusal) -> grpc.StatusCode:
    """The status that goes with a refusal."""
    match refusal:
        case Refusal.NOT_SAME_DEVICE | Refusal.BID_NOT_A_MULTIPLE_OF_FIVE:
            return grpc.StatusCode.INVALID_ARGUMENT
        case Refusal.STALE_DECISION:
            return grpc.StatusCode.ABORTED
        case _:
            return grpc.StatusCode.FAILED_PRECONDITION


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


def deal(north: str = "", south: str = "", boneyard: str = "") -> Deal:
    """A deal with these tiles where they are said to be (the boneyard from its top); the rest fills up in order."""
    named = [tuple(Tile.parse(word) for word in text.split()) for text in (north, south, boneyard)]
    rest = [tile for tile in DOUBLE_SIX if not any(tile in pile for pile in named)]
    filled = []
    for pile, size in zip(named, (7, 7, 14), strict=True):
        missing = size - len(pile)
        filled.append(pile + tuple(rest[:missing]))
        rest = rest[missing:]
    return Deal(*filled)


def play(seat: Seat, tile: str, end: str | None = None) -> Play:
    """A Play command from texts."""
    return Play(seat, Tile.parse(tile), None if end is None else End.parse(end))


@cache
def settled_round() -> tuple[Deal, tuple[Command, ...]]:
    """A first round with a pass in it that leaves the match going on: its deal, and commands from deal to settlement."""
    rng = random.Random(1)  # noqa: S311  a script, always the same
    while True:
        order = list(DOUBLE_SIX)
        rng.shuffle(order)
        dealt = Deal.from_shuffle(order)
        commands = _course(dealt, rng)
        if commands is not None and any(isinstance(command, Pass) for command in commands):
            return dealt, commands


def _course(dealt: Deal, rng: random.Random) -> tuple[Command, ...] | None:
    state = Match.start(balances=BySeat(150, 150), opening=RANKED)
    for seat in SEATS:
        state = _after(state, Start(seat))
    ruling = deal_round(state, dealt, bytes(32))
    assert not isinstance(ruling, Refusal)
    state = replay(state, ruling)
    commands: list[Command] = []
    while state.to_act is not None:
        allowed, seat = legal(state), state.to_act
        if allowed.play:
            tile, end = rng.choice(allowed.play)
            command: Command = Play(seat, tile, end)
        else:
            command = Draw(seat) if allowed.draw else Pass(seat)
        state = _after(state, command)
        commands.append(command)
    return tuple(commands) if state.phase is Phase.SETTLED else None


def _after(state: Match, command: Command) -> Match:
    ruling = decide(state, command)
    assert not isinstance(ruling, Refusal), f"{command} is legal"
    return replay(state, ruling)


@cache
def scenes() -> tuple[Scene, ...]:
    """One for each refusal that can be reached."""
    forced = {"deals": scripted(deal("6|6 1|2", "0|6 0|1"))}
    auction = {"jockey": table_pb2.SEAT_NORTH}
    drawing = {"deals": scripted(deal("0|0 0|1 0|2 1|1 1|2 2|2 0|3", "6|6 5|5", "1|3 0|6"))}
    opened: list[Command] = [play(NORTH, "6|6")]
    dealt, course = settled_round()
    whole_round = {"deals": scripted(dealt)}
    first_pass = next(number for number, command in enumerate(course) if isinstance(command, Pass))
    poor = {**auction, "balances": table_pb2.Balances(north=290, south=10)}
    drawn: list[Command] = [play(SOUTH, "6|6"), Draw(NORTH), Draw(NORTH)]
    r = Refusal
    return (
        Scene(r.MATCH_OVER, Draw(NORTH), [Resign(NORTH)]),
        Scene(r.NOT_STARTED, Draw(NORTH), start=False),
        Scene(r.ROUND_SETTLED, Draw(NORTH), course, whole_round),
        Scene(r.START_NOT_DUE, Start(NORTH)),
        Scene(r.CONTINUE_NOT_DUE, Continue(NORTH)),
        Scene(r.NOT_SAME_DEVICE, Reveal(NORTH)),
        Scene(r.REVEAL_NOT_DUE, Reveal(SOUTH), wanted=forced, one_device=True),
        Scene(r.ALREADY_PRESSED, Start(NORTH), [Start(NORTH)], start=False),
        Scene(r.STALE_DECISION, Draw(SOUTH), opened, forced, decision_id=2),
        Scene(r.NOT_YOUR_TURN, Draw(SOUTH), wanted=forced),
        Scene(r.NOT_REVEALED, play(NORTH, "6|6"), wanted=forced, one_device=True),
        Scene(r.NO_AUCTION, Bid(NORTH, 15), wanted=forced),
        Scene(r.AUCTION_OPEN, Draw(SOUTH), wanted=auction),
        Scene(r.BID_STANDS, Decline(NORTH), [Bid(SOUTH, 15)], auction),
        Scene(r.NO_BID_STANDS, Accept(SOUTH), wanted=auction),
        Scene(r.MUST_DECLINE, Bid(SOUTH, 15), wanted=poor),
        Scene(r.BID_NOT_A_MULTIPLE_OF_FIVE, Bid(SOUTH, 17), wanted=auction),
        Scene(r.BID_BELOW_MINIMUM, Bid(SOUTH, 10), wanted=auction),
        Scene(r.RAISE_TOO_SMALL, Bid(NORTH, 15), [Bid(SOUTH, 15)], auction),
        Scene(r.BID_UNAFFORDABLE, Bid(SOUTH, 155), wanted=auction),
        Scene(r.MUST_OPEN, Pass(NORTH), wanted=forced),
        Scene(r.TILE_NOT_IN_HAND, play(NORTH, "0|1"), wanted=forced),
        Scene(r.OPENING_TILE_FORCED, play(NORTH, "1|2"), wanted=forced),
        Scene(r.END_GIVEN_FOR_OPENING, play(NORTH, "6|6", "1|2 low"), wanted=forced),
        Scene(r.MUST_PLAY_DRAWN_TILE, Draw(NORTH), drawn, drawing),
        Scene(r.END_MISSING, play(SOUTH, "0|6"), opened, forced),
        Scene(r.END_NOT_OPEN, play(SOUTH, "0|6", "5|5 line_a"), opened, forced),
        Scene(r.BRANCH_CLOSED, play(SOUTH, "0|6", "6|6 branch_a"), opened, forced),
        Scene(r.TILE_DOES_NOT_FIT, play(SOUTH, "0|1", "6|6 line_a"), opened, forced),
        Scene(r.MUST_PLAY, Draw(SOUTH), opened, forced),
        Scene(r.BONEYARD_EMPTY, Draw(course[first_pass].seat), course[:first_pass], whole_round),
        Scene(r.MUST_DRAW, Pass(NORTH), [play(SOUTH, "6|6")], drawing),
    )


async def _meet(scene: Scene, bench: Bench) -> None:
    create = Table.on_one_device if scene.one_device else Table.create
    async with await create(bench, start=scene.start, **scene.wanted) as table:
        for command in scene.before:
            await table.do(command)
        seat = scene.command.seat
        before = await table.snapshot(seat)
        request = await table.asked(scene.command, scene.decision_id)
        error = await failure(table.send(request, seat))
        expect_error(error, status_of(scene.refusal), scene.refusal.value)
        expect(
            error.metadata.get("rule") == scene.refusal.rule,
            f"ErrorInfo names rule {error.metadata.get('rule')!r}, not {scene.refusal.rule}",
        )
        if scene.refusal is not Refusal.MATCH_OVER:  # a stream of a finished match ends at once
            (answer,) = await table.on_a_stream(seat, table.request(scene.command, request.decision_id))
            _same(answer, scene.refusal, error)
        after = await table.snapshot(seat)
        for snapshot in (before, after):  # what is left of the time is all that may differ
            snapshot.table.prompt.ClearField("clock")
        expect(after == before, "the table is another one after the refusal")


def _same(answer: pb.Answer, refusal: Refusal, error: CallError) -> None:
    """The same facts on Play."""
    refused = answer.refused
    said = (refused.reason, refused.reason_word, refused.rule, refused.code, refused.message)
    due = (
        refusal_pb2.RefusalReason.Value(f"REFUSAL_REASON_{refusal}"),
        refusal.value,
        refusal.rule,
        status_of(refusal).value[0],
        error.message,
    )
    expect(said == due, f"Play says {said}, and Submit {due}")


def _check(scene: Scene) -> Check:
    async def run(bench: Bench) -> None:
        await _meet(scene, bench)

    name = scene.refusal.lower().replace("_", "-")
    promise = (
        f"{scene.refusal} (rule {scene.refusal.rule}) is said on Submit and on Play, and nothing changes."
    )
    return Check("refusals", f"refusal-{name}", promise, run)


def checks() -> tuple[Check, ...]:
    """A check for each scene."""
    return tuple(map(_check, scenes()))
