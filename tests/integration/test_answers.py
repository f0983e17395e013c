"""What a call may be answered when something is wrong with it, or with us: reasons, statuses, and nothing of the inside."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Final

import grpc
import pytest

from client.errors import CallError, from_rpc
from engine.command import (
    Command,
    Draw,
    Resign,
    Start,
)
from engine.seats import NORTH, SOUTH, Seat
from services.common.auth import TokenIssuer, write_new_keys
from services.common.guard import MESSAGE_BYTES_MAX
from services.game.story import Story
from services.storage.matches import get_log
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import refusal_pb2, table_pb2
from tests.engine.tables import deal, play
from tests.seats import SECONDS_MAX, Table, new_id, on_a_stream, scripted, tile_to_pb
from tests.stack import AUDIENCE, ISSUER, Metadata, Player, Stack

pytestmark = pytest.mark.asyncio(loop_scope="session")

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


async def test_the_request_ids_of_the_other_player_are_in_nobodys_way(shared: Stack) -> None:
    """Both number their requests alike, or one sits on the ids that the other will use: each is carried out once, and has
    its own answer, also from a process that reads the match back."""
    table = await Table.create(shared, start=False, deals=scripted(deal("6|6 1|2", "0|6 0|1")))
    given: dict[int, tuple[Seat, pb.SubmitRequest, pb.Applied]] = {}
    commands: list[Command] = [Start(NORTH), Start(SOUTH)]
    commands += [play(NORTH, "6|6"), play(SOUTH, "0|6", "6|6 line_a")]
    for number, command in enumerate(commands):
        decision_id = (await table.view(command.seat)).prompt.decision_id
        request = table.request(command, decision_id, f"request-{number // 2}")
        given[number] = (command.seat, request, await table.send(command.seat, request))
    assert len({answer.first_sequence for _, _, answer in given.values()}) == 4
    for seat, request, answer in given.values():
        assert await table.send(seat, request) == answer
    # A request of the other seat, copied, is an own one: refused for what it asks.
    seat, request, _ = given[2]
    with pytest.raises(CallError) as error:
        await table.send(seat.opponent, table.request(Draw(seat.opponent), request.decision_id, "request-9"))
    assert error.value.reason == "STALE_DECISION"
    log = await get_log(shared.pool, table.match_id)
    again = Story.from_log(await shared.row(table.match_id), log)
    for seat, request, answer in given.values():
        known = again.answers.get(again.asked_as(seat, request.request_id))
        assert known is not None
        assert known.first_sequence == answer.first_sequence


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
    """At most 32 streams a player, 64 KiB a message."""
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
    bot = Player("bot-tireless", shared.token("bot-tireless", bot=True))
    tables = [await table.events(bot) for _ in range(40)]
    for stream in tables:
        await stream.read()
        stream.call.cancel()
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
    """Garbage, text that is no UTF-8 and groups in groups without end are refused without a word about the inside; a Play
    stream that got such ends instead of falling silent."""
    table = await Table.create(shared)
    channel, metadata = shared.channel(), table.players.north.metadata
    method = "/spectacularbid.match.v1.MatchService/"
    submit: Any = channel.unary_unary(method + "Submit")
    for wrong in (b"\xff\xff\xff", b"\x0a\x02\xff\xfe", b"\x7b" * 20_000):
        error = await failure(submit(wrong, metadata=metadata))
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
