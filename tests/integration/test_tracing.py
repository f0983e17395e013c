"""One trace across the three services, told to a real receiver of OTLP."""

from __future__ import annotations

import asyncio
import itertools
import re
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
import pytest_asyncio
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as otlp
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as otlp_grpc
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from client.wire import command_to_pb
from engine.command import Accept, Command, Decline, Draw, Pass, Play, Resign, Start
from engine.match import Match, legal
from engine.seats import NORTH, SOUTH, Seat
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.matchmaking.v1 import matchmaking_service_pb2 as matchmaking_pb
from spectacularbid.matchmaking.v1 import matchmaking_service_pb2_grpc as matchmaking_grpc
from tests.seats import SECONDS_MAX, eventually, new_id
from tests.stack import HOST, Metadata, Player, Stack, stack

pytestmark = pytest.mark.asyncio(loop_scope="session")
SERVICES = ("clock", "matchmaking", "game")
OURS = "4bf92f3577b34da6a3ce929d0e0e4736"
SUBMIT = "match.v1.MatchService/Submit"
SEEK = "matchmaking.v1.MatchmakingService/Seek"
CALLER = "00f067aa0ba902b7"
OTHER = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"


@dataclass(frozen=True)
class Told:
    """A span, and which service told it."""

    service: str
    span: Span

    @property
    def attributes(self) -> dict[str, Any]:
        """By name."""
        return {
            each.key: getattr(each.value, each.value.WhichOneof("value") or "string_value")
            for each in self.span.attributes
        }


@dataclass
class Receiver(otlp_grpc.TraceServiceServicer):
    """What collects traces: it keeps them."""

    told: list[Told] = field(default_factory=list)

    async def Export(
        self, request: otlp.ExportTraceServiceRequest, context: Any
    ) -> otlp.ExportTraceServiceResponse:
        """One batch."""
        for resource in request.resource_spans:
            names = {each.key: each.value.string_value for each in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.told += [Told(names["service.name"], span) for span in scope.spans]
        return otlp.ExportTraceServiceResponse()

    def of(self, trace_id: str) -> list[Told]:
        """The spans of all traces that began with a call whose client had named this one."""
        begun = {
            told.span.trace_id
            for told in self.told
            if any(link.trace_id.hex() == trace_id for link in told.span.links)
        }
        return [told for told in self.told if told.span.trace_id in begun]


@dataclass(frozen=True)
class Traced:
    """A stack whose services tell their traces."""

    stack: Stack
    receiver: Receiver


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def traced(new_database: Any, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Traced]:
    """Spans are sent every 100 ms instead of every 5 s."""
    receiver = Receiver()
    server = grpc.aio.server()
    otlp_grpc.add_TraceServiceServicer_to_server(receiver, server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port(f"{HOST}:0")
    await server.start()
    settings = {"TRACING_ENDPOINT": f"http://{HOST}:{port}"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        try:
            async with stack(
                tmp_path_factory.mktemp("traced-stack"),
                await asyncio.to_thread(new_database),
                dict.fromkeys(SERVICES, settings),
            ) as made:
                yield Traced(made, receiver)
        finally:
            await server.stop(None)


def parent(trace_id: str) -> Metadata:
    """What a client sends that has begun a trace."""
    return (("traceparent", f"00-{trace_id}-{CALLER}-01"),)


async def _sought(made: Stack, player: Player, trace_id: str) -> tuple[str, Seat]:
    stub = matchmaking_grpc.MatchmakingServiceStub(made.channel("matchmaking"))
    request = matchmaking_pb.SeekRequest(request_id=new_id(), pool=matchmaking_pb.POOL_CASUAL)
    async with asyncio.timeout(SECONDS_MAX):
        async for news in stub.Seek(request, metadata=(*player.metadata, *parent(trace_id))):
            if news.HasField("matched"):
                return news.matched.match_id, Seat("north" if news.matched.seat == 1 else "south")
    raise AssertionError("nobody was found")


def _move(state: Match, seat: Seat) -> Command:
    """Something legal that takes a turn."""
    may = legal(state)
    if may.play:
        tile, end = may.play[0]
        return Play(seat, tile, end)
    if may.decline:
        return Decline(seat)
    return Accept(seat) if may.accept else Draw(seat) if may.draw else Pass(seat)


async def _played(made: Stack, match_id: str, seats: dict[Seat, tuple[Player, str]], ours: Seat) -> str:
    """Plays until `ours` has taken a turn, then that seat resigns; the id of the command that took the turn."""
    stub = made.matches()

    async def submit(command: Command, decision_id: int) -> str:
        player, trace_id = seats[command.seat]
        request = pb.SubmitRequest(
            match_id=match_id,
            request_id=new_id(),
            decision_id=decision_id,
            command=command_to_pb(command),
        )
        await stub.Submit(request, metadata=(*player.metadata, *parent(trace_id)))
        return request.request_id

    for seat in (NORTH, SOUTH):
        await submit(Start(seat), (await made.state(match_id)).decision_id)
    while True:
        state = await made.state(match_id)
        assert state.to_act is not None
        request_id = await submit(_move(state, state.to_act), state.decision_id)
        if state.to_act is ours:
            await submit(Resign(ours), 0)
            return request_id


async def test_a_seek_a_match_and_a_command_are_one_trace_across_three_services(traced: Traced) -> None:
    """Both players seek and play, each under a trace that the client has begun."""
    made, receiver = traced.stack, traced.receiver
    ann, bea = await made.players(2)
    (match_id, ours), (_, other) = await asyncio.gather(_sought(made, ann, OURS), _sought(made, bea, OTHER))
    request_id = await _played(made, match_id, {ours: (ann, OURS), other: (bea, OTHER)}, ours)
    # The match was made for the seek of north.
    placed_in = OURS if ours is NORTH else OTHER
    submit, seek = (f"spectacularbid.{call}" for call in (SUBMIT, SEEK))
    wanted = {
        OURS: {
            ("matchmaking", seek),
            ("game", submit),
            *(("game", name) for name in ("command", "queue", "verdict", "commit", "publish")),
            ("clock", "verdict"),
        }
    }
    wanted.setdefault(placed_in, set()).update({("matchmaking", "make match"), ("game", "place")})

    async def there() -> bool:
        return all(
            names <= {(told.service, told.span.name) for told in receiver.of(trace)}
            for trace, names in wanted.items()
        )

    await eventually(there)
    ours_told = receiver.of(OURS)
    (command,) = (
        told
        for told in ours_told
        if told.span.name == "command" and told.attributes["request_id"] == request_id
    )
    assert command.attributes | {"kind_of_command": ""} == {
        "match_id": match_id,
        "player_id": ann.player_id,
        "request_id": request_id,
        "result": "applied",
        "reason": "",
        "kind_of_command": "",
    }
    by_id = {told.span.span_id: told for told in ours_told}
    call = by_id[command.span.parent_span_id]
    assert (call.service, call.span.name, call.span.parent_span_id) == ("game", submit, b"")
    assert [(link.trace_id.hex(), link.span_id.hex()) for link in call.span.links] == [(OURS, CALLER)]
    assert {told.span.trace_id.hex() for told in receiver.told}.isdisjoint({OURS, OTHER})
    parts = [told for told in ours_told if told.span.parent_span_id == command.span.span_id]
    stages = {told.span.name: told.span for told in parts if told.service == "game"}
    assert sorted(stages, key=lambda name: stages[name].start_time_unix_nano) == [
        "queue",
        "verdict",
        "commit",
        "publish",
    ]
    # They follow each other without a gap, and all of it is the command.
    assert stages["queue"].start_time_unix_nano == command.span.start_time_unix_nano
    for earlier, later in itertools.pairwise(("queue", "verdict", "commit", "publish")):
        assert stages[earlier].end_time_unix_nano == stages[later].start_time_unix_nano
    (judged,) = (told for told in parts if told.service == "clock")
    assert judged.attributes["told"] == "Verdict"
    (made_match,) = (told for told in receiver.of(placed_in) if told.span.name == "make match")
    of_south = receiver.of(OTHER if placed_in == OURS else OURS)
    (sought,) = {told.span.trace_id for told in of_south if told.span.name == seek}
    assert [link.trace_id for link in made_match.span.links] == [sought]
    (placed,) = (told for told in receiver.of(placed_in) if told.span.name == "place")
    assert placed.span.parent_span_id == made_match.span.span_id
    assert placed.attributes == made_match.attributes == {"match_id": match_id}
    # Whoever reads the log finds the same trace.
    line = await made.processes["game"].event("command", request_id=request_id)
    assert (line["trace_id"], line["client_trace_id"]) == (command.span.trace_id.hex(), OURS)
    over = await made.processes["game"].event("match_over", match_id=match_id)
    resigned = await made.processes["game"].event("command", match_id=match_id, kind="resign")
    assert (over["trace_id"], resigned["client_trace_id"]) == (resigned["trace_id"], OURS)


async def test_a_span_says_that_we_failed_and_never_what_was_played(traced: Traced) -> None:
    """A call for a match that is not there is no failure of ours; texts of spans hold no tile and no token. Whether a trace
    is collected is not for its client to say."""
    made, receiver = traced.stack, traced.receiver
    (ann,) = await made.players(1)
    trace_id = secrets.token_hex(16)
    request = pb.SubmitRequest(match_id=new_id(), request_id="6|6", decision_id=1, command=pb.Command())
    request.command.play.tile.low = request.command.play.tile.high = 6
    unsampled = (("traceparent", f"00-{trace_id}-{CALLER}-00"),)
    with pytest.raises(grpc.aio.AioRpcError):
        await made.matches().Submit(request, metadata=(*ann.metadata, *unsampled))

    async def there() -> bool:
        return len(receiver.of(trace_id)) == 2

    await eventually(there)
    told = {each.span.name: each for each in receiver.of(trace_id)}
    assert told["command"].attributes["reason"] == "MATCH_NOT_FOUND"
    assert all(each.span.status.code == Status.STATUS_CODE_UNSET for each in told.values())
    spans = [Span.FromString(each.span.SerializeToString()) for each in receiver.told]
    for span in spans:
        # Chance decides what is in ids.
        for number in ("trace_id", "span_id", "parent_span_id", "links"):
            span.ClearField(number)
    texts = str(spans)
    assert "MATCH_NOT_FOUND" in texts
    assert ann.token not in texts
    assert not re.search(r"[0-5]\|[0-6]|low|high", texts)
