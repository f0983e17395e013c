"""Two players at one device (rules 6.5, 7.4): one connection, both seats, and each hand only in its own turn."""

from __future__ import annotations

import asyncio
import random
import time

import grpc
import pytest

from client.errors import CallError
from engine.command import Bid, Continue, Decline, Resign, Reveal, Start
from engine.event import Revealed, TurnTimed
from engine.seats import NORTH, SEATS, SOUTH
from engine.tiles import tile_set
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import table_pb2
from tests.engine.tables import deal, play
from tests.hidden import tiles_in
from tests.seats import Table, ends, legal_commands, scripted
from tests.stack import Stack, time_control

pytestmark = pytest.mark.asyncio(loop_scope="session")

DEAL = deal("6|6 1|2", "0|6 0|1", "3|3")


async def test_a_hand_is_shown_after_its_reveal_and_hidden_when_its_turn_ends(shared: Stack) -> None:
    """Rule 7.4: dealt, but shown to nobody; Reveal shows the tiles of the seat whose turn begins; its move hides them."""
    table = await Table.on_one_device(shared, deals=scripted(DEAL))
    view = await table.view(NORTH)
    assert view.same_device
    assert not view.hand
    assert view.prompt.kind == table_pb2.DECISION_KIND_REVEAL
    assert view.prompt.legal.reveal
    assert not view.prompt.legal.plays
    watching = await table.events(NORTH)
    await table.do(Reveal(NORTH))
    view = await table.view(NORTH)
    assert tile_set(DEAL.north) == tiles_in(pb.Snapshot(table=table_pb2.Table(hand=view.hand)))
    assert (view.prompt.to_act, view.prompt.kind) == (table_pb2.SEAT_NORTH, table_pb2.DECISION_KIND_OPEN)
    await table.do(play(NORTH, "6|6"))
    view = await table.view(NORTH)
    assert not view.hand
    assert view.prompt.kind == table_pb2.DECISION_KIND_REVEAL
    assert (await table.refused(Reveal(NORTH))).reason == "REVEAL_NOT_DUE"
    assert (await table.refused(play(SOUTH, "0|6", "6|6 line_a"))).reason == "NOT_REVEALED"
    await table.do(Reveal(SOUTH))
    await table.do(Resign(SOUTH))
    responses = await watching.to_the_end()
    truth = await shared.truth(table.match_id)
    # Before each Reveal and after each turn, nothing but the table.
    revealed = {NORTH: False, SOUTH: False}
    for response in responses:
        for event in response.events:
            happened = truth.events[event.sequence - 1]
            if isinstance(happened, Revealed):
                revealed[happened.seat] = True
            tiles = tiles_in(event)
            for seat in SEATS:
                assert revealed[seat] or not tiles & tile_set(DEAL.hand(seat))
    assert ends(responses[-1])


async def test_no_time_passes_before_a_reveal(shared: Stack) -> None:
    """Scenario 7, rule 6.5: the clocks stand still from the end of one turn until the other seat has revealed. With a bank and a
    delay that would be over long before, nobody loses on time until somebody has revealed."""
    table = await Table.on_one_device(shared, deals=scripted(DEAL), time_control=time_control(0, 300))
    await asyncio.sleep(1.0)  # what is tested is that time does nothing
    view = await table.view(NORTH)
    assert not view.HasField("outcome")
    assert view.prompt.clock.running == table_pb2.SEAT_UNSPECIFIED
    await table.do(Reveal(NORTH))
    await table.until_over()
    view = await table.view(NORTH)
    assert (view.outcome.cause, view.outcome.winner) == (table_pb2.CAUSE_TIME, table_pb2.SEAT_SOUTH)


async def test_the_clocks_stand_still_while_the_device_is_handed_over(shared: Stack) -> None:
    """Rule 6.5, between two turns: with a delay of 1 ms each moment of a turn is charged, and none of the time in which the
    device goes from one to the other. Both figures are of this machine's clock."""
    pause_ns = 500_000_000
    table = await Table.on_one_device(shared, deals=scripted(DEAL), time_control=time_control(60_000, 1))
    await table.do(Reveal(NORTH))
    await table.do(play(NORTH, "6|6"))
    before = (await table.view(NORTH)).prompt.clock
    await asyncio.sleep(pause_ns / 1e9)  # what is tested is that time does nothing
    after = (await table.view(NORTH)).prompt.clock
    assert (after.running, before.running) == (table_pb2.SEAT_UNSPECIFIED, table_pb2.SEAT_UNSPECIFIED)
    assert (after.north_bank_ms, after.south_bank_ms) == (before.north_bank_ms, 60_000)
    revealing = time.monotonic_ns()
    await table.do(Reveal(SOUTH))
    await table.do(play(SOUTH, "0|6", "6|6 line_a"))
    took = time.monotonic_ns() - revealing
    timed = [event for event in await shared.events(table.match_id) if isinstance(event, TurnTimed)]
    assert [event.seat for event in timed] == [NORTH, SOUTH]
    # A process that stands still dates what it hears meanwhile to the beginning of that.
    assert timed[-1].elapsed_ns < took + pause_ns // 2
    await table.do(Reveal(NORTH))
    await table.do(Resign(NORTH))


async def test_the_seat_must_be_named_and_belongs_to_the_device(shared: Stack) -> None:
    """One connection acts for both seats and says for which; nobody else acts for either. Never rated."""
    table = await Table.on_one_device(shared, deals=scripted(DEAL), start=False)
    request = table.request(Start(NORTH), 1)
    request.seat = table_pb2.SEAT_UNSPECIFIED
    with pytest.raises(CallError) as error:
        await table.send(NORTH, request)
    assert (error.value.reason, error.value.code) == ("MALFORMED", grpc.StatusCode.INVALID_ARGUMENT)
    await table.start()
    stranger = shared.spectator()
    request = table.request(Reveal(NORTH), 2)
    with pytest.raises(grpc.aio.AioRpcError) as denied:
        await table.stub.Submit(request, metadata=stranger.metadata)
    assert denied.value.code() is grpc.StatusCode.PERMISSION_DENIED
    await table.do(Reveal(NORTH))
    assert not (await table.view(stranger)).hand
    assert (await table.view(stranger)).prompt.legal == table_pb2.Legal()
    row = await shared.row(table.match_id)
    assert (row.mode, row.rated) == ("same_device", False)
    await table.do(Resign(NORTH))


async def test_an_auction_hides_the_hand_with_each_word(shared: Stack) -> None:
    """Rules 6.4, 7.4: a bid hands the turn, and with it the screen, to the other seat."""
    table = await Table.on_one_device(shared, jockey=table_pb2.SEAT_NORTH, deals=scripted(DEAL))
    await table.do(Reveal(SOUTH))
    assert len((await table.view(SOUTH)).hand) == 7
    await table.do(Bid(SOUTH, 15))
    assert not (await table.view(SOUTH)).hand
    assert (await table.refused(Bid(NORTH, 20))).reason == "NOT_REVEALED"
    await table.do(Reveal(NORTH))
    assert (await table.refused(Decline(NORTH))).reason == "BID_STANDS"
    await table.do(Bid(NORTH, 20))
    await table.do(Reveal(SOUTH))
    await table.do(Resign(SOUTH))


async def test_no_hand_is_on_the_screen_out_of_turn(shared: Stack) -> None:
    """Six random matches: what the device and a spectator hear, streams and snapshots, is looked up in the truth."""

    async def one_match(number: int) -> None:
        table = await Table.on_one_device(shared, start=False)
        streams = [await table.events(viewer) for viewer in (NORTH, shared.spectator())]
        listening = [asyncio.create_task(stream.to_the_end()) for stream in streams]
        views = await play_both_seats(table, random.Random(number), commands_max=80)
        on_device, by_others = await asyncio.gather(*listening)
        truth = await shared.truth(table.match_id)
        assert truth.leaks(by_others, None) == []
        assert truth.leaks_on_device(on_device) == []
        assert truth.leaks_on_device([pb.WatchResponse(snapshot=view) for view in views]) == []
        assert any(event.HasField("tile_placed") for response in on_device for event in response.events)

    await asyncio.gather(*(one_match(number) for number in range(6)))


async def play_both_seats(table: Table, rng: random.Random, commands_max: int) -> list[pb.Snapshot]:
    """Answers every question for the seat it is for, and resigns in the end; everything the device saw."""
    seen: list[pb.Snapshot] = []
    for _ in range(commands_max):
        seen.append(await table.snapshot(NORTH))
        view = seen[-1].table
        if view.HasField("outcome"):
            return seen
        match view.prompt.kind:
            case table_pb2.DECISION_KIND_START:
                await table.start()
            case table_pb2.DECISION_KIND_CONTINUE:
                for seat in SEATS:
                    await table.do(Continue(seat))
            case _:
                # While a reveal is awaited nobody is to act, and the view is that of the seat that must reveal.
                request = table.request(Reveal(NORTH), view.prompt.decision_id)
                request.seat = view.prompt.to_act or view.seat
                request.command.CopyFrom(rng.choice(legal_commands(view.prompt.legal)))
                await table.send(NORTH, request)
    await table.do(Resign(SOUTH))
    return seen
