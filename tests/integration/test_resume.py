"""Broken connections and repeated commands: cases from the field, through real processes and real broken networks."""

from __future__ import annotations

import asyncio
import random
import signal
import urllib.request
from dataclasses import dataclass, field

import grpc
import pytest

from client.connection import Connections
from client.errors import CallError
from client.match import HEARTBEAT_SECONDS_MAX, MatchStream
from client.session import CASUAL
from engine.command import Draw, Resign
from engine.seats import NORTH, SEATS, SOUTH, BySeat, Seat
from services.common.settings import CommonSettings
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import table_pb2
from spectacularbid.match.v1.match_service_pb2_grpc import MatchServiceStub
from tests.engine.tables import deal, play
from tests.proxy import Proxy, Way
from tests.seats import (
    SECONDS_MAX,
    Sitting,
    Table,
    Watching,
    ends,
    eventually,
    legal_commands,
    new_id,
    scripted,
)
from tests.stack import HOST, Stack

pytestmark = pytest.mark.asyncio(loop_scope="session")

WATCH = "/spectacularbid.match.v1.MatchService/Watch"


@dataclass
class Burst(Sitting):
    """Sends two answers to each question, under two request ids, in one burst."""

    bursts: list[tuple[str, str, bool]] = field(default_factory=list)
    """Both request ids in their order, and whether the question was one of a turn."""

    def choose(self, prompt: table_pb2.Prompt) -> list[pb.SubmitRequest]:
        """Two commands, different ones where there are two."""
        commands = legal_commands(prompt.legal)
        first = super().choose(prompt)
        if not first:
            return []
        others = [command for command in commands if command != first[0].command] or commands
        second = pb.SubmitRequest(
            request_id=new_id(), decision_id=prompt.decision_id, command=self.rng.choice(others)
        )
        timed = prompt.to_act != table_pb2.SEAT_UNSPECIFIED and not first[0].command.HasField("resign")
        self.bursts.append((first[0].request_id, second.request_id, timed))
        return [*first, second]


async def test_fc_23_the_second_answer_to_a_question_is_stale(shared: Stack) -> None:
    """FC-23: two commands with different request ids for the same decision, sent in one burst in either order, more than
    200 times: the first to arrive acts, the second is refused and changes nothing."""
    rng = random.Random(23)
    bursts: list[tuple[str, str, bool]] = []
    answers: dict[str, list[pb.Answer]] = {}
    effects: set[str] = set()

    async def one_match(number: int) -> None:
        players = BySeat(*await shared.players(2))
        match_id = await shared.create(players)
        sittings = [
            Burst(shared.matches(), player.metadata, match_id, random.Random(number), patience=15)
            for player in players
        ]
        await asyncio.gather(*(sitting.play() for sitting in sittings))
        for sitting in sittings:
            bursts.extend(sitting.bursts)
            answers.update(sitting.answers)
        stored = await shared.pool.fetch(
            "select request_id from match_log where match_id = $1 and request_id is not null", match_id
        )
        assert len(stored) == len({row["request_id"] for row in stored})
        effects.update(row["request_id"] for row in stored)

    await asyncio.gather(*(one_match(rng.randrange(10**6)) for _ in range(12)))
    asked = 0
    for first, second, timed in bursts:
        assert second not in effects
        if second not in answers:
            continue  # the match, and with it the stream, ended before
        (refused,) = answers[second]
        if timed:
            asked += 1
            assert [answer.WhichOneof("result") for answer in answers[first]] == ["applied"]
            assert refused.refused.reason_word in {"STALE_DECISION", "ROUND_SETTLED", "MATCH_OVER"}
        if answers.get(first) and answers[first][0].HasField("applied"):
            assert first in effects
    assert asked >= 200
    assert sum(a[0].refused.reason_word == "STALE_DECISION" for a in answers.values()) >= 180


async def test_fc_25_nothing_falls_between_the_snapshot_and_the_stream(shared: Stack) -> None:
    """FC-25: 400 tight joins during matches that run as fast as they can: what happens between snapshot and
    subscription comes as the next event, and so does every question."""
    joins = 0

    async def one_match(number: int) -> None:
        nonlocal joins
        players = BySeat(*await shared.players(2))
        match_id = await shared.create(players)
        stub = shared.matches()
        sittings = [
            Sitting(stub, player.metadata, match_id, random.Random(number), patience=120)
            for player in players
        ]
        playing = [asyncio.create_task(sitting.play()) for sitting in sittings]

        async def keep_joining(seat: Seat) -> None:
            nonlocal joins
            while not all(task.done() for task in playing):
                watching = Watching(stub, players[seat].metadata, match_id)
                first = await watching.read()
                assert first is not None
                assert first.HasField("snapshot")
                joins += 1
                # `read` checks that each message goes on exactly where the one before ended.
                for _ in range(3):
                    if await watching.read() is None:
                        assert ends(watching.responses[-1])
                        break
                watching.call.cancel()

        await asyncio.gather(*(keep_joining(seat) for seat in (*SEATS, *SEATS)), *playing)
        # The seats themselves heard it all: every question they had to answer has come to them.
        for sitting in sittings:
            assert sitting.over

    while joins < 400:
        await asyncio.gather(*(one_match(number) for number in range(4)))


async def test_fc_28_the_first_answer_comes_back_for_ever(own: Stack) -> None:
    """FC-28: the response is cut off after the commit; the same request comes again: at once, after a crash and restart of the
    game process, after the end of the match, and after a restart after that. One effect, one answer."""
    table = await Table.create(own, deals=scripted(deal("6|6 1|2", "0|6 0|1")))
    request = table.request(play(NORTH, "6|6"), 2)
    async with (
        Proxy(HOST, own.ports["game"]) as proxy,
        grpc.aio.insecure_channel(proxy.address) as channel,
    ):
        stub, metadata = MatchServiceStub(channel), table.players.north.metadata
        await stub.GetMatch(pb.GetMatchRequest(match_id=table.match_id), metadata=metadata)
        proxy.swallow(Way.DOWN)
        call = stub.Submit(request, metadata=metadata)

        async def done() -> bool:
            return await stored(table, request) == 1

        await eventually(done)
        proxy.cut()
        with pytest.raises(grpc.aio.AioRpcError) as lost:
            await call
        assert lost.value.code() is grpc.StatusCode.UNAVAILABLE
    first = await table.send(NORTH, request)
    assert await table.send(NORTH, request) == first
    own.processes["game"].kill()
    await own.start("game")
    assert await table.send(NORTH, request) == first
    await table.do(Resign(SOUTH))
    assert await table.send(NORTH, request) == first
    await own.processes["game"].terminate()
    await own.start("game")
    assert await table.send(NORTH, request) == first
    changed = table.request(Draw(NORTH), 2, request.request_id)
    with pytest.raises(CallError) as reused:
        await table.send(NORTH, changed)
    assert reused.value.reason == "REQUEST_ID_REUSED"
    with pytest.raises(CallError) as late:
        await table.send(NORTH, table.request(Draw(NORTH), 3))
    assert late.value.reason == "MATCH_OVER"
    assert await stored(table, request) == 1
    truth = await own.truth(table.match_id)
    placed = [event for event in truth.events if type(event).__name__ == "TilePlaced"]
    assert len(placed) == 1


async def stored(table: Table, request: pb.SubmitRequest) -> int:
    """How many effects a request has in the log."""
    count: int = await table.stack.pool.fetchval(
        "select count(*) from match_log where match_id = $1 and request_id = $2",
        table.match_id,
        request.request_id,
    )
    return count


async def gauge(made: Stack, process: str, name: str) -> float:
    """The value of one series, as Prometheus would read it."""
    address = await made.metrics_address(process)

    def read() -> str:
        with urllib.request.urlopen(f"http://{address}/metrics") as answer:
            text: str = answer.read().decode()
        return text

    page = await asyncio.to_thread(read)
    (value,) = [line.split()[-1] for line in page.splitlines() if line.startswith(name + " ")]
    return float(value)


async def test_fc_30_a_swallowed_connection_is_noticed_at_both_ends(own: Stack) -> None:
    """FC-30, twenty times as fast: the network swallows everything in both directions without a reset. The client notices the
    missing heartbeats and attaches anew; the service forgets the stream and the gauge falls. With the real periods: 15 s
    at the client, 40 s at the service."""
    fields = CommonSettings.model_fields
    assert fields["keepalive_seconds"].default + fields["keepalive_timeout_seconds"].default <= 45
    assert HEARTBEAT_SECONDS_MAX <= 15
    fast = {"KEEPALIVE_SECONDS": "1", "KEEPALIVE_TIMEOUT_SECONDS": "1", "HEARTBEAT_SECONDS": "0.2"}
    own.extra["game-fast"] = fast
    await own.start("game-fast")
    deals = scripted(deal("6|6 1|2", "0|6 0|1"))
    table = await Table.create(own, game="game-fast", deals=deals)
    service, method = WATCH[1:].split("/")
    streams = f'spectacular_bid_streams{{grpc_method="{method}",grpc_service="{service}"}}'
    async with Proxy(HOST, own.ports["game-fast"]) as proxy:
        dead = grpc.aio.insecure_channel(proxy.address)
        watching = Watching(
            type(table.stub)(dead),
            own.spectator().metadata,
            table.match_id,
        )
        await watching.read()
        connections = Connections(table.players.north.token)
        match = MatchStream(connections, table.match_id, proxy.address, heartbeat_seconds_max=1.0)
        async with match, asyncio.timeout(2 * SECONDS_MAX):
            news = await anext(match)
            assert await gauge(own, "game-fast", streams) >= 1
            proxy.swallow(Way.UP, Way.DOWN)
            # Something happens while nobody can hear it.
            await table.do(play(NORTH, "6|6"))

            async def forgotten() -> bool:
                return await gauge(own, "game-fast", streams) == 0

            async def noticed() -> bool:
                return match.reattached > 0

            await eventually(forgotten)
            await eventually(noticed)
            proxy.heal()
            while news.table.prompt.to_act is not SOUTH:
                news = await anext(match)
            assert not news.snapshot
        await connections.close()
        await dead.close()


async def test_fc_32_a_rematch_is_a_new_match(shared: Stack) -> None:
    """FC-32: both seek again at once, while one still talks about the old match. New id; old commands: match over; the old
    stream replays its end and closes."""
    players = BySeat(*await shared.players(2))
    clients = [await shared.client(player) for player in players]
    old = await asyncio.gather(*(client.seek(CASUAL) for client in clients))
    assert old[0].match_id == old[1].match_id
    by_seat = {handle.seat: player for handle, player in zip(old, players, strict=True)}
    table = Table(shared, old[0].match_id, BySeat(by_seat[NORTH], by_seat[SOUTH]))
    await table.start()
    request = table.request(Resign(NORTH), 0)
    applied = await table.send(NORTH, request)

    async def old_business() -> None:
        for _ in range(10):
            assert (await table.refused(Draw(NORTH), decision_id=3)).reason == "MATCH_OVER"
            assert (
                await table.refused(Resign(SOUTH), decision_id=3)
            ).code is grpc.StatusCode.FAILED_PRECONDITION
            assert await table.send(NORTH, request) == applied
            for seat in SEATS:
                watching = await table.events(seat, resume_after=2)
                responses = await watching.to_the_end()
                assert ends(responses[-1])
                assert responses[-1].events[-1].match_ended.outcome.winner == table_pb2.SEAT_SOUTH

    new, _ = await asyncio.gather(
        asyncio.gather(*(client.seek(CASUAL) for client in clients)), old_business()
    )
    assert new[0].match_id == new[1].match_id != old[0].match_id
    rematch = Table(shared, new[0].match_id, table.players)
    assert (await rematch.view(NORTH)).prompt.phase == table_pb2.PHASE_AWAITING_START
    await rematch.start()
    await rematch.do(Resign(NORTH))


async def test_a_stream_resumes_exactly_anywhere(shared: Stack) -> None:
    """Whatever the last number of a reader: it gets exactly the rest, from the live match and from the finished one;
    a number of the future gets a snapshot."""
    table = await Table.create(shared, deals=scripted(deal("6|6 1|2", "0|6 0|1")))
    await table.do(play(NORTH, "6|6"))

    async def told(after: int) -> list[int]:
        watching = await table.events(SOUTH, resume_after=after)
        message = await watching.read()
        watching.call.cancel()
        assert message is not None
        assert not message.HasField("snapshot")
        return [event.sequence for event in message.events]

    last = (await table.snapshot(SOUTH)).sequence
    for after in range(1, last + 1):
        assert await told(after) == list(range(after + 1, last + 1))
    watching = await table.events(SOUTH, resume_after=last + 5)
    message = await watching.call.read()
    assert isinstance(message, pb.WatchResponse)
    assert message.snapshot.sequence == last
    watching.call.cancel()
    await table.do(Resign(SOUTH))
    for after in range(1, last + 1):
        assert await told(after) == list(range(after + 1, last + 2))


async def test_a_stop_tells_open_streams_to_connect_again(own: Stack) -> None:
    """SIGTERM with open streams and a command under way whose verdict does not come, because the clock stands still: each
    stream ends with `reconnect`, the command is answered that it may be sent again, the process ends in time."""
    table = await Table.create(own, deals=scripted(deal("6|6 1|2", "0|6 0|1")))
    watching = [await table.events(own.spectator()) for _ in range(20)]
    for stream in watching:
        await stream.read()
    own.processes["clock"].signal(signal.SIGSTOP)
    request = table.request(play(NORTH, "6|6"), 2)
    call = table.stub.Play(metadata=table.players.north.metadata)
    await call.write(pb.PlayRequest(join=pb.WatchRequest(match_id=table.match_id)))
    await call.write(pb.PlayRequest(submit=request))
    unary = asyncio.create_task(table.send(NORTH, request))

    async def under_way() -> bool:
        return await gauge(own, "game", "spectacular_bid_game_held_commands") == 1

    await eventually(under_way)
    own.processes["game"].signal(signal.SIGTERM)
    for stream in watching:
        responses = await stream.to_the_end()
        assert responses[-1].HasField("reconnect")
    answers: list[pb.Answer] = []
    reconnect = False
    async with asyncio.timeout(SECONDS_MAX):
        while isinstance(message := await call.read(), pb.PlayResponse):
            answers += message.answers
            reconnect = reconnect or message.news.HasField("reconnect")
    assert reconnect
    assert [answer.refused.reason_word for answer in answers] == ["TRY_AGAIN"]
    assert answers[0].refused.retry_after_ms > 0
    with pytest.raises(CallError) as again:
        await unary
    assert again.value.retryable
    assert await own.processes["game"].ended() == 0
    assert await stored(table, request) == 0
    own.processes["clock"].signal(signal.SIGCONT)
    await own.start("game")
    await table.send(NORTH, request)
    assert await stored(table, request) == 1
