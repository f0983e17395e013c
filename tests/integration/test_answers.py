"""Every refusal and every failure that can be met over the wire, with its reason, its rule and its status."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import grpc
import pytest

from client.errors import CallError, from_rpc
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
from services.common.auth import TokenIssuer, write_new_keys
from services.common.host import MESSAGE_BYTES_MAX
from services.wire.commands import STATUS
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import refusal_pb2, table_pb2
from tests.engine.tables import deal, play
from tests.integration.rounds import find_round
from tests.seats import SECONDS_MAX, Table, new_id, scripted, tile_to_pb
from tests.stack import AUDIENCE, ISSUER, Metadata, Player, Stack

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


# What is wrong in any state.

GOOD_END: Final = table_pb2.End(tile=tile_to_pb("6|6"), port=table_pb2.PORT_LINE_A)
MALFORMED: Final = [
    ("request_id", pb.SubmitRequest(request_id="")),
    ("request_id", pb.SubmitRequest(request_id="x" * 65)),
    ("request_id", pb.SubmitRequest(request_id="two words")),
    ("request_id", pb.SubmitRequest(request_id="tab\t")),
    ("command", pb.SubmitRequest(command=pb.Command())),
    ("decision_id", pb.SubmitRequest(decision_id=-1)),
    ("command.bid.amount", pb.SubmitRequest(command=pb.Command(bid=pb.Bid()))),
    ("command.play.tile", pb.SubmitRequest(command=pb.Command(play=pb.PlaceTile()))),
    (
        "command.play.tile",
        pb.SubmitRequest(command=pb.Command(play=pb.PlaceTile(tile=table_pb2.Tile(low=0)))),
    ),
    (
        "command.play.tile",
        pb.SubmitRequest(command=pb.Command(play=pb.PlaceTile(tile=table_pb2.Tile(high=0)))),
    ),
    (
        "command.play.tile",
        pb.SubmitRequest(command=pb.Command(play=pb.PlaceTile(tile=table_pb2.Tile(low=3, high=2)))),
    ),
    (
        "command.play.tile",
        pb.SubmitRequest(command=pb.Command(play=pb.PlaceTile(tile=table_pb2.Tile(low=6, high=7)))),
    ),
    (
        "command.play.tile",
        pb.SubmitRequest(command=pb.Command(play=pb.PlaceTile(tile=table_pb2.Tile(low=-1, high=7)))),
    ),
    (
        "command.play.end.tile",
        pb.SubmitRequest(command=pb.Command(play=pb.PlaceTile(tile=tile_to_pb("0|6"), end=table_pb2.End()))),
    ),
    (
        "command.play.end.port",
        pb.SubmitRequest(
            command=pb.Command(
                play=pb.PlaceTile(tile=tile_to_pb("0|6"), end=table_pb2.End(tile=tile_to_pb("6|6")))
            )
        ),
    ),
    (
        "command.play.end",
        pb.SubmitRequest(
            command=pb.Command(
                play=pb.PlaceTile(
                    tile=tile_to_pb("0|6"),
                    end=table_pb2.End(tile=tile_to_pb("6|6"), port=table_pb2.PORT_HIGH),
                )
            )
        ),
    ),
    ("seat", pb.SubmitRequest(seat=7)),  # type: ignore[arg-type]
]


def damaged(table: Table, damage: pb.SubmitRequest) -> pb.SubmitRequest:
    """A request that would be fine but for what `damage` says."""
    request = table.request(Draw(NORTH), 2)
    for name, value in damage.ListFields():
        if name.message_type is not None:
            request.ClearField(name.name)  # type: ignore[arg-type]
            getattr(request, name.name).CopyFrom(value)
        else:
            setattr(request, name.name, value)
    if damage == pb.SubmitRequest():  # an empty id is the default and not listed
        request.request_id = ""
    return request


async def test_a_malformed_command_is_an_invalid_argument_that_names_the_field(shared: Stack) -> None:
    """Over Submit and over Play: the same reason and the same words. Nothing is a default that would make sense: a
    forgotten half of a tile or a forgotten amount is an error."""
    table = await Table.create(shared)
    for field_name, damage in MALFORMED:
        request = damaged(table, damage)
        with pytest.raises(CallError) as error:
            await table.send(NORTH, request)
        assert (error.value.code, error.value.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED")
        assert error.value.message.startswith(f"{field_name}:"), error.value.message
        (answer,) = await on_a_stream(table, table.players.north, request)
        assert answer.refused.reason == refusal_pb2.REFUSAL_REASON_UNSPECIFIED
        assert (answer.refused.reason_word, answer.refused.message) == ("MALFORMED", error.value.message)
        assert answer.refused.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]


async def failure(call: Any) -> CallError:
    """How a call fails; a stream is read."""
    try:
        answer = await (call.read() if hasattr(call, "read") else call)
    except grpc.aio.AioRpcError as error:
        return from_rpc(error)
    raise AssertionError(f"it worked: {answer}")


NOBODY = "00000000-0000-4000-8000-000000000000"


async def test_calls_about_no_match_say_so(shared: Stack) -> None:
    """A bad id is malformed, an unknown one is not found, for every call that names a match."""
    (player,) = await shared.players(1)
    stub, metadata = shared.matches(), player.metadata

    def calls(match_id: str) -> list[Any]:
        submit = pb.SubmitRequest(
            match_id=match_id, request_id=new_id(), decision_id=1, command=pb.Command(draw=pb.Draw())
        )
        return [
            stub.Submit(submit, metadata=metadata),
            stub.Watch(pb.WatchRequest(match_id=match_id), metadata=metadata),
            stub.GetMatch(pb.GetMatchRequest(match_id=match_id), metadata=metadata),
            stub.GetRecord(pb.GetRecordRequest(match_id=match_id), metadata=metadata),
        ]

    for match_id, code, reason in (
        ("", grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED"),
        (NOBODY.upper().replace("0", "A"), grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED"),
        ("1; drop table match", grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED"),
        (NOBODY, grpc.StatusCode.NOT_FOUND, "MATCH_NOT_FOUND"),
    ):
        for call in calls(match_id):
            error = await failure(call)
            assert (error.code, error.reason) == (code, reason), match_id
        stream = stub.Play(metadata=metadata)
        await stream.write(pb.PlayRequest(join=pb.WatchRequest(match_id=match_id)))
        error = await failure(stream)
        assert (error.code, error.reason) == (code, reason)


async def test_a_stream_that_begins_wrongly_ends_at_once(shared: Stack) -> None:
    """Play: the first message must be join, and it comes once; other matches have other streams. Watch: no resume point
    before the beginning."""
    table = await Table.create(shared)
    metadata = table.players.north.metadata
    for first in (pb.PlayRequest(), pb.PlayRequest(submit=table.request(Draw(NORTH), 2))):
        call = table.stub.Play(metadata=metadata)
        await call.write(first)
        assert (await failure(call)).reason == "MALFORMED"
    call = table.stub.Play(metadata=metadata)
    await call.done_writing()
    assert (await failure(call)).reason == "MALFORMED"
    request = pb.WatchRequest(match_id=table.match_id, resume_after=-1)
    assert (await failure(table.stub.Watch(request, metadata=metadata))).reason == "MALFORMED"
    other = table.request(Draw(NORTH), 2)
    other.match_id = NOBODY
    (answer,) = await on_a_stream(table, table.players.north, other)
    assert answer.refused.reason_word == "MALFORMED"


async def test_only_the_own_seat_can_be_played(shared: Stack) -> None:
    """Neither a spectator nor the other player acts for a seat, whatever the request names."""
    table = await Table.create(shared)
    request = table.request(Resign(NORTH), 0)
    stranger = shared.spectator()
    (bystander,) = await shared.players(1)
    for player, seat in (
        (stranger, table_pb2.SEAT_UNSPECIFIED),
        (stranger, table_pb2.SEAT_NORTH),
        (bystander, table_pb2.SEAT_NORTH),
        (table.players.south, table_pb2.SEAT_NORTH),
        (table.players.north, table_pb2.SEAT_SOUTH),
    ):
        request.seat = seat
        error = await failure(table.stub.Submit(request, metadata=player.metadata))
        assert (error.code, error.reason) == (grpc.StatusCode.PERMISSION_DENIED, "NOT_SEATED")
        (answer,) = await on_a_stream(table, player, request)
        assert answer.refused.reason_word == "NOT_SEATED"
    assert (await shared.outcome(table.match_id)) is None


async def test_a_request_id_belongs_to_one_payload(shared: Stack) -> None:
    """The same id with another command, another decision or from the other seat is refused; the same again is answered."""
    table = await Table.create(shared, deals=scripted(deal("6|6 1|2", "0|6 0|1")))
    request = table.request(play(NORTH, "6|6"), 2)
    applied = await table.send(NORTH, request)
    assert await table.send(NORTH, request) == applied
    for changed in (
        table.request(Draw(NORTH), 2, request.request_id),
        table.request(play(NORTH, "6|6"), 3, request.request_id),
    ):
        with pytest.raises(CallError) as error:
            await table.send(NORTH, changed)
        assert (error.value.code, error.value.reason) == (
            grpc.StatusCode.INVALID_ARGUMENT,
            "REQUEST_ID_REUSED",
        )
    with pytest.raises(CallError) as error:
        await table.send(SOUTH, request)
    assert error.value.reason == "REQUEST_ID_REUSED"


async def test_tokens_are_checked(shared: Stack) -> None:
    """No token, a broken one, one of another key, one that has expired, one for somebody unnamable."""
    (player,) = await shared.players(1)
    write_new_keys(shared.folder / "other.pem", shared.folder / "other.json")
    other = TokenIssuer(shared.folder / "other.pem", ISSUER, AUDIENCE)
    elsewhere = TokenIssuer(shared.folder / "key.pem", ISSUER, "another-game")
    tokens: list[tuple[Metadata, str]] = [
        ((), "TOKEN_INVALID"),
        ((("authorization", "Basic abc"),), "TOKEN_INVALID"),
        ((("authorization", "Bearer "),), "TOKEN_INVALID"),
        ((("authorization", "Bearer a.b.c"),), "TOKEN_INVALID"),
        ((("authorization", f"Bearer {player.token[:-6]}AAAAAA"),), "TOKEN_INVALID"),
        ((("authorization", f"Bearer {other.issue(player.player_id, 'x')[0]}"),), "TOKEN_INVALID"),
        ((("authorization", f"Bearer {elsewhere.issue(player.player_id, 'x')[0]}"),), "TOKEN_INVALID"),
        ((("authorization", f"Bearer {shared.token('No Player!')}"),), "TOKEN_INVALID"),
        ((("authorization", f"Bearer {shared.token(player.player_id, seconds=-1)}"),), "TOKEN_EXPIRED"),
    ]
    stub = shared.matches()
    for metadata, reason in tokens:
        for call in (
            stub.ListMyMatches(pb.ListMyMatchesRequest(), metadata=metadata),
            stub.Watch(pb.WatchRequest(match_id=NOBODY), metadata=metadata),
            stub.Play(metadata=metadata),
        ):
            error = await failure(call)
            assert (error.code, error.reason) == (grpc.StatusCode.UNAUTHENTICATED, reason), metadata


async def limited(call: Awaitable[object]) -> bool:
    """Whether a call is refused because of a limit."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        if from_rpc(error).reason == "LIMIT_REACHED":
            return True
        raise
    return False


async def test_limits_are_refused_with_a_time_to_come_back(shared: Stack) -> None:
    """At most 32 streams a player, at most 64 waiting commands a match, 64 KiB a message."""
    table = await Table.create(shared)
    spectator = shared.spectator()
    streams = [await table.events(spectator) for _ in range(32)]
    for stream in streams:
        await stream.read()
    error = await failure(
        table.stub.Watch(pb.WatchRequest(match_id=table.match_id), metadata=spectator.metadata)
    )
    assert (error.code, error.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "LIMIT_REACHED")
    assert error.retry_after_seconds
    for stream in streams:
        stream.call.cancel()
    async with asyncio.timeout(SECONDS_MAX):
        # The places are free again as soon as the service has seen the ends.
        while await limited((await table.events(spectator)).read()):
            pass
    big = table.request(Draw(NORTH), 2, "x" * MESSAGE_BYTES_MAX)
    with pytest.raises(CallError) as too_big:
        await table.send(NORTH, big)
    assert too_big.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_fault_of_ours_reaches_nobody_in_words(shared: Stack) -> None:
    """An uncaught exception is INTERNAL with an opaque id, which the log explains; and it takes nothing else with it.

    The fault: a match whose stored script makes no sense.
    """
    players = await shared.players(2)
    match_id = await shared.pool.fetchval(
        """
        insert into match (match_id, mode, rated, north, south, bank_ns, delay_ns, start_limit_ns, continue_limit_ns,
                           script)
        values (gen_random_uuid(), 'created', false, $1, $2, 1, 1, 1, 1, '{"secret": "1|4"}') returning match_id
        """,
        players[0].player_id,
        players[1].player_id,
    )
    await shared.pool.execute(
        "insert into match_owner (match_id, engine_id, fence) values ($1, 'game', 1)", match_id
    )
    stub, metadata = shared.matches(), players[0].metadata
    for call in (
        stub.GetMatch(pb.GetMatchRequest(match_id=str(match_id)), metadata=metadata),
        stub.Watch(pb.WatchRequest(match_id=str(match_id)), metadata=metadata),
        stub.GetRecord(pb.GetRecordRequest(match_id=str(match_id)), metadata=metadata),
    ):
        error = await failure(call)
        assert (error.code, error.reason) == (grpc.StatusCode.INTERNAL, "INTERNAL")
        assert not {"secret", "KeyError", "Traceback", "balances"} & set(
            error.message.replace("'", " ").split()
        )
        opaque_id = error.message.split()[-1]
        logged = await shared.processes["game"].event("call_failed", error_id=opaque_id)
        assert "balances" in logged["exception"]
    await shared.pool.execute("delete from match_owner where match_id = $1", match_id)
    assert (await Table.create(shared)).match_id


async def test_a_match_the_database_does_not_take_is_held_and_says_so(shared: Stack) -> None:
    """A bug of ours decides no match: it stands at its last stored revision, its players are told, others go on."""
    table, other = await Table.create(shared), await Table.create(shared)
    await shared.pool.execute(
        f"alter table match_log add constraint broken check (match_id <> '{table.match_id}') not valid"
    )
    try:
        request = table.request(Resign(NORTH), 0)
        with pytest.raises(CallError) as error:
            await table.send(NORTH, request)
        assert (error.value.code, error.value.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "MATCH_HELD")
        with pytest.raises(CallError) as error:
            await table.send(SOUTH, table.request(Resign(SOUTH), 0))
        assert error.value.reason == "MATCH_HELD"
        (answer,) = await on_a_stream(table, table.players.south, table.request(Resign(SOUTH), 0))
        assert answer.refused.reason_word == "MATCH_HELD"
        assert (await table.view(NORTH)).prompt.decision_id == 2
        await other.do(Resign(NORTH))
    finally:
        await shared.pool.execute("alter table match_log drop constraint broken")
    assert await shared.outcome(table.match_id) is None


async def test_bytes_that_are_no_message_end_the_call_and_only_that(shared: Stack) -> None:
    """Garbage is refused without a word about the inside; a Play stream that got it ends instead of falling silent."""
    table = await Table.create(shared)
    channel, metadata = shared.channel(), table.players.north.metadata
    method = "/spectacularbid.match.v1.MatchService/"
    submit: Any = channel.unary_unary(method + "Submit")
    error = await failure(submit(b"\xff\xff\xff", metadata=metadata))
    assert (error.code, error.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED")
    play_stream: Any = channel.stream_stream(method + "Play")
    call = play_stream(metadata=metadata)
    try:
        join = pb.PlayRequest(join=pb.WatchRequest(match_id=table.match_id))
        await call.write(join.SerializeToString())
        assert isinstance(await call.read(), bytes)
        await call.write(b"\xff\xff\xff")
        async with asyncio.timeout(SECONDS_MAX):
            status = await call.code()
        assert status is grpc.StatusCode.INVALID_ARGUMENT
    finally:
        call.cancel()
    await table.do(Resign(NORTH))
