"""What is hidden: no tile of the other hand, no boneyard, no salt, in any message, before the end of the match."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from client.conformance.bench import expect_error, failure
from client.conformance.check import checks_of, expect
from client.conformance.commands import next_move
from client.conformance.hearing import Watching
from client.conformance.refusals import status_of
from client.conformance.table import Table
from client.conformance.truth import Truth, tiles_in
from engine.command import Play, Resign, Reveal
from engine.refusal import Refusal
from engine.seats import NORTH, SEATS, SOUTH, Seat
from engine.tiles import DOUBLE_SIX, tile_set
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import table_pb2

if TYPE_CHECKING:
    from client.conformance.bench import Bench

_TURNS_ON_DEVICE: Final = 8


async def a_seat_is_told_its_own_tiles_and_the_table(bench: Bench) -> None:
    """Through a whole match no message to a seat, on Play or from GetMatch, holds a tile that the seat could not know."""
    await _clean(bench, *SEATS)


async def a_spectator_is_told_the_table(bench: Bench) -> None:
    """Through a whole match no message to a spectator holds a tile that is not on the table, nor a salt."""
    await _clean(bench, None)


async def _clean(bench: Bench, *receivers: Seat | None) -> None:
    played = await bench.played()
    truth = Truth.of(played.record)
    for receiver in receivers:
        messages = [*played.heard[receiver].messages]
        messages += [pb.WatchResponse(snapshot=snapshot) for snapshot in played.views[receiver]]
        if receiver is None:
            messages += played.slow.messages
        live = [message for message in messages if not message.snapshot.table.HasField("outcome")]
        leaks = truth.leaks(live, receiver)
        expect(not leaks, f"{len(leaks)} leaks; the first: {leaks[0] if leaks else ''}")


async def where_a_tile_lies_is_not_told(bench: Bench) -> None:
    """A tile that is not in the hand gets one and the same answer, wherever it lies."""
    async with await Table.create(bench) as table:
        seat = await table.to_act()
        view = await table.view(seat)
        own = tile_set(tile for tile in DOUBLE_SIX if tile.bit & tiles_in(view))
        answers = set()
        for tile in DOUBLE_SIX:
            if tile.bit & own:
                continue
            request = table.request(Play(seat, tile, None), view.prompt.decision_id)
            error = await failure(table.send(request, seat))
            expect_error(error, status_of(Refusal.TILE_NOT_IN_HAND), Refusal.TILE_NOT_IN_HAND.value)
            answers.add((error.message, tuple(sorted(error.metadata.items()))))
        expect(len(answers) == 1, f"the answers differ: {sorted(answers)[:2]}")


async def tiles_come_with_the_clock(bench: Bench) -> None:
    """Before both have pressed Start nobody is told a tile (rule 7.1)."""
    async with await Table.create(bench, start=False) as table:
        spectator = await bench.guest()
        for viewer in (NORTH, SOUTH, spectator):
            expect(not tiles_in(await table.snapshot(viewer)), "a tile was told before Start")


async def one_device_shows_a_hand_after_its_reveal(bench: Bench) -> None:
    """On one device no message holds a tile of a hand but of the seat whose turn it is, after its Reveal (rule 7.4)."""
    async with await Table.on_one_device(bench) as table:
        guest = table.guests.north
        async with Watching(bench, table.address, table.match_id, guest) as watching:
            views: list[pb.Snapshot] = []
            for _ in range(_TURNS_ON_DEVICE):
                snapshot = await table.snapshot(NORTH)
                views.append(snapshot)
                prompt = snapshot.table.prompt
                seat = NORTH if prompt.awaiting_reveal == table_pb2.SEAT_NORTH else SOUTH
                expect(prompt.awaiting_reveal, "no Reveal is awaited at the beginning of a turn")
                expect(not snapshot.table.hand, "a hand is shown before Reveal")
                expect(
                    prompt.clock.running == table_pb2.SEAT_UNSPECIFIED,
                    "a clock runs before Reveal (rule 6.5)",
                )
                await table.do(Reveal(seat))
                snapshot = await table.snapshot(NORTH)
                views.append(snapshot)
                expect(snapshot.table.hand, "no hand is shown after Reveal")
                expect(
                    snapshot.table.prompt.clock.running == prompt.awaiting_reveal,
                    "the clock of the seat that revealed does not run",
                )
                await _one_turn(table, seat)
            await table.do(Resign(NORTH))
            heard = await watching.to_the_end()
        record = await bench.ask(table.stub.GetRecord, pb.GetRecordRequest(match_id=table.match_id), guest)
        truth = Truth.of(record.record)
        messages = [*heard.messages, *(pb.WatchResponse(snapshot=view) for view in views)]
        leaks = truth.leaks(messages, None, one_device=True)
        expect(not leaks, f"{len(leaks)} leaks; the first: {leaks[0] if leaks else ''}")


async def _one_turn(table: Table, seat: Seat) -> None:
    """Whatever is legal until the turn is over: after draws, a placement or a pass."""
    while True:
        acting, request = await next_move(table)
        if acting is not seat:
            return
        request.seat = table_pb2.SEAT_NORTH if seat is NORTH else table_pb2.SEAT_SOUTH
        await table.send(request, seat)
        prompt = (await table.view(NORTH)).prompt
        if prompt.awaiting_reveal or prompt.to_act != request.seat:
            return


CHECKS: Final = checks_of(
    "hidden",
    a_seat_is_told_its_own_tiles_and_the_table,
    a_spectator_is_told_the_table,
    where_a_tile_lies_is_not_told,
    tiles_come_with_the_clock,
    one_device_shows_a_hand_after_its_reveal,
)
