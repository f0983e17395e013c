"""How matches end: the outcome is the same wherever it is asked for, and the record proves the match."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import grpc

from client.conformance.bench import expect_error, failure
from client.conformance.check import checks_of, expect
from client.conformance.hearing import Watching
from client.conformance.table import Table
from client.conformance.truth import Truth
from client.wire import outcome_from_pb
from engine.command import Resign
from engine.outcome import Cause
from engine.recordlines import MalformedRecordError, MatchLine, read_record
from engine.seats import NORTH, SEATS, SOUTH
from engine.verify import problems
from spectacularbid.ladder.v1 import ladder_service_pb2
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import table_pb2

if TYPE_CHECKING:
    from client.conformance.bench import Bench

_KINDS: Final = {
    "Started": "started",
    "Continued": "continued",
    "RoundDealt": "hand_dealt",
    "Revealed": "revealed",
    "BidMade": "bid_made",
    "OpeningWon": "opening_won",
    "PointsMoved": "points_moved",
    "TilePlaced": "tile_placed",
    "TileDrawn": "tile_drawn",
    "TurnPassed": "turn_passed",
    "RoundWentOut": "went_out",
    "RoundBlocked": "round_blocked",
    "TurnTimed": "turn_timed",
    "MatchEnded": "match_ended",
}


async def a_resignation_ends_the_match(bench: Bench) -> None:
    """A seat may resign whoever is on the move, without a decision_id; the other wins and no points move (rule 7.3)."""
    async with await Table.create(bench) as table:
        seat = (await table.to_act()).opponent
        await table.send(table.request(Resign(seat), 0), seat)
        view = await table.view(seat)
        winner = table_pb2.SEAT_SOUTH if seat is NORTH else table_pb2.SEAT_NORTH
        expect(view.outcome.cause == table_pb2.CAUSE_RESIGNATION, f"it ended by cause {view.outcome.cause}")
        expect(view.outcome.winner == winner, f"the winner is {view.outcome.winner}, not {winner}")
        expect((view.balances.north, view.balances.south) == (150, 150), "points moved")


async def an_outcome_is_the_same_everywhere(bench: Bench) -> None:
    """GetMatch after the end, Watch after the end, ListMyMatches, ListMatches and the streams tell one outcome."""
    played = await bench.played()
    stub = bench.matches(played.address)
    (end,) = [event for event in played.heard[None].events.values() if event.HasField("match_ended")]
    outcome = end.match_ended.outcome
    for who, guest in (("north", played.guests.north), ("a spectator", played.spectator)):
        answer = await bench.ask(stub.GetMatch, pb.GetMatchRequest(match_id=played.match_id), guest)
        table = answer.snapshot.table
        expect(table.outcome == outcome, f"GetMatch tells {who} another outcome than the stream")
        expect(table.prompt.legal == table_pb2.Legal(), f"the prompt still offers {who} something")
        expect(table.balances.north + table.balances.south == 300, "the balances are not 300 together")
    async with Watching(bench, played.address, played.match_id, played.spectator) as watching:
        heard = await watching.to_the_end()
    expect(heard.messages[0].snapshot.table.outcome == outcome, "Watch after the end tells another outcome")
    mine = await bench.ask(stub.ListMyMatches, pb.ListMyMatchesRequest(), played.guests.south)
    summary = next((match for match in mine.matches if match.match_id == played.match_id), None)
    expect(summary is not None, "ListMyMatches does not have the match")
    expect(summary is not None and summary.outcome == outcome, "ListMyMatches has another outcome")
    request = ladder_service_pb2.ListMatchesRequest()
    page = await bench.ask(bench.ladder.ListMatches, request, played.guests.north)
    finished = next((match for match in page.matches if match.match_id == played.match_id), None)
    expect(finished is not None, "ListMatches does not have the match")
    expect(finished is not None and finished.outcome == outcome, "ListMatches has another outcome")


async def a_record_proves_the_match(bench: Bench) -> None:
    """The record verifies: deals as committed to when they were dealt, every command legal, the outcome as told."""
    played = await bench.played()
    record = read_record(played.record.encode())
    try:
        faults = list(problems(record))
    except MalformedRecordError as error:
        faults = [str(error)]
    expect(not faults, f"the record does not verify: {faults[0] if faults else ''}")
    claimed = next(line.claimed for _, line in record.lines if isinstance(line, MatchLine))
    (end,) = [event for event in played.heard[None].events.values() if event.HasField("match_ended")]
    expect(claimed == outcome_from_pb(end.match_ended.outcome), f"the record claims {claimed}")
    expect(claimed is not None and claimed.cause is not Cause.VOID, "the match is void: a fault of the stack")


async def a_record_tells_what_the_streams_told(bench: Bench) -> None:
    """The record comes to the events that were told, number by number, with the commitments that were told."""
    played = await bench.played()
    truth = Truth.of(played.record)
    told = played.heard[None]
    expect(
        len(truth.events) == told.sequence,
        f"{told.sequence} events were told, the record has {len(truth.events)}",
    )
    commitments = []
    for number, event in enumerate(truth.events, 1):
        if number not in told.events:
            continue
        kind, due = told.events[number].WhichOneof("kind"), _KINDS[type(event).__name__]
        expect(kind == due, f"event {number} was told as {kind}, the record has {due}")
        if kind == "hand_dealt":
            commitments.append(told.events[number].hand_dealt.commitment)
    kept = [
        line.commitment
        for _, line in read_record(played.record.encode()).lines
        if hasattr(line, "commitment")
    ]
    expect(kept[-len(commitments) :] == commitments, "a deal was told with another commitment than recorded")
    for seat in SEATS:
        balance = truth.states[-1].balances[seat]
        points = [
            event.points_moved.balances for event in told.events.values() if event.HasField("points_moved")
        ]
        if points:
            last = points[-1].north if seat is NORTH else points[-1].south
            expect(last == balance, f"{seat} was told to have {last} points, the record comes to {balance}")


async def a_live_match_has_no_record(bench: Bench) -> None:
    """GetRecord of a live match is MATCH_LIVE, for those who play it."""
    async with await Table.create(bench) as table:
        request = pb.GetRecordRequest(match_id=table.match_id)
        for guest in table.guests:
            error = await failure(bench.ask(table.stub.GetRecord, request, guest))
            expect_error(error, grpc.StatusCode.FAILED_PRECONDITION, "MATCH_LIVE")


async def the_record_of_an_unrated_match_is_private(bench: Bench) -> None:
    """Both who played an unrated match may have its record; who else asks is told RECORD_PRIVATE."""
    played = await bench.played()
    stub, request = bench.matches(played.address), pb.GetRecordRequest(match_id=played.match_id)
    error = await failure(bench.ask(stub.GetRecord, request, played.spectator))
    expect_error(error, grpc.StatusCode.PERMISSION_DENIED, "RECORD_PRIVATE")
    other = await bench.ask(stub.GetRecord, request, played.guests.south)
    expect(other.record == played.record, "the two who played have different records")


async def an_ended_match_frees_its_players(bench: Bench) -> None:
    """A player with a live match gets PLAYER_BUSY with its id for another one, and is free when it has ended."""
    async with await Table.create(bench) as table:
        one, other = table.guests
        third = await bench.guest()
        stub = table.stub

        async def create() -> pb.CreateMatchResponse:
            return await bench.create(one, player_id=third.player_id)

        error = await failure(create())
        expect_error(error, grpc.StatusCode.FAILED_PRECONDITION, "PLAYER_BUSY")
        expect(error.metadata.get("match_id") == table.match_id, "PLAYER_BUSY does not name the match")
        live = await bench.ask(stub.ListMyMatches, pb.ListMyMatchesRequest(live_only=True), other)
        expect(
            [match.match_id for match in live.matches] == [table.match_id], "live_only lists other matches"
        )
        await table.do(Resign(SOUTH))
        made = await create()
        await bench.resign(made.address, made.match_id, third)


CHECKS: Final = checks_of(
    "ends",
    a_resignation_ends_the_match,
    an_outcome_is_the_same_everywhere,
    a_record_proves_the_match,
    a_record_tells_what_the_streams_told,
    a_live_match_has_no_record,
    the_record_of_an_unrated_match_is_private,
    an_ended_match_frees_its_players,
)
