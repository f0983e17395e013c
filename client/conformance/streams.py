"""Streams: nothing lost, nothing repeated, from any number, by whoever reads however slowly."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from client.conformance.bench import CALL_SECONDS
from client.conformance.check import BrokenError, checks_of, expect
from client.conformance.commands import next_move
from client.conformance.hearing import Heard, Watching
from client.conformance.table import Table
from engine.command import Resign
from engine.seats import NORTH, SEATS, SOUTH
from spectacularbid.match.v1 import match_service_pb2 as pb

if TYPE_CHECKING:
    from client.conformance.bench import Bench
    from client.conformance.table import Viewer
    from spectacularbid.match.v1 import event_pb2

_HEARTBEAT_SECONDS_MAX: Final = 15.0
_MOVES: Final = 4


async def moved(table: Table, moves: int = _MOVES) -> None:
    """A few turns."""
    for _ in range(moves):
        seat, request = await next_move(table)
        await table.send(request, seat)


async def a_watch_begins_with_a_snapshot(bench: Bench) -> None:
    """A Watch without a number begins with the table as GetMatch has it, and goes on behind it."""
    async with await Table.create(bench) as table:
        await moved(table)
        spectator = await bench.guest()
        viewers: tuple[Viewer, ...] = (*SEATS, spectator)
        for viewer in viewers:
            snapshot = await table.snapshot(viewer)
            async with Watching.of(table, viewer) as watching:
                message = await watching.read()
                expect(message is not None and message.HasField("snapshot"), "no snapshot came first")
                assert message is not None
                for told in (snapshot, message.snapshot):
                    told.table.prompt.ClearField("clock")
                expect(message.snapshot == snapshot, "the snapshot of Watch is not the one of GetMatch")
        async with Watching.of(table, NORTH) as watching:
            await watching.read()
            before = watching.heard.sequence
            await moved(table, 1)
            await watching.reached(before + 1)


async def events_are_numbered_without_gap_for_everybody(bench: Bench) -> None:
    """Through a whole match both seats and a spectator get every number once, under each number the same kind of event,
    and the stream ends by itself behind the last."""
    played = await bench.played()
    last = {who: heard.sequence for who, heard in played.heard.items()}
    expect(len(set(last.values())) == 1, f"the streams ended at different numbers: {sorted(last.values())}")
    spectator = played.heard[None].events
    for who, heard in played.heard.items():
        expect(heard.over, f"the stream of {who or 'the spectator'} ended without the end of the match")
        for number, event in heard.events.items():
            other = spectator.get(number)
            expect(
                other is None or other.WhichOneof("kind") == event.WhichOneof("kind"),
                f"event {number} is {event.WhichOneof('kind')} for {who} and another kind for the spectator",
            )


async def a_watch_resumes_from_any_number(bench: Bench) -> None:
    """With resume_after N a Watch goes on with event N + 1, with exactly the events that were told before."""
    async with await Table.create(bench) as table, Watching.of(table, NORTH) as first:
        await first.read()
        begin = first.heard.sequence
        await moved(table)
        last = (await table.snapshot(NORTH)).sequence
        whole = await first.reached(last)
        for number in range(begin, last):
            async with Watching.of(table, NORTH, number) as again:
                heard = await again.reached(last)
                _the_same(whole, heard, number, "Watch")


async def a_play_resumes_from_any_number(bench: Bench) -> None:
    """The same on Play: `join.resume_after`."""
    async with await Table.create(bench) as table, Watching.of(table, SOUTH) as first:
        await first.read()
        begin = first.heard.sequence
        await moved(table)
        last = (await table.snapshot(SOUTH)).sequence
        whole = await first.reached(last)
        for number in range(begin, last):
            heard = Heard(number, begun=True)
            call = await table.join(SOUTH, number)
            while heard.sequence < last:
                message = await call.read()
                if not isinstance(message, pb.PlayResponse):
                    raise BrokenError(f"Play ended before event {last}")
                heard.take(message.news)
            _the_same(whole, heard, number, "Play")


async def a_stream_broken_again_and_again_loses_nothing(bench: Bench) -> None:
    """A client that loses its stream after each message and resumes has at the end what one has whose stream held."""
    async with await Table.create(bench) as table, Watching.of(table, NORTH) as whole:
        await whole.read()
        number = whole.heard.sequence
        pieces: dict[int, event_pb2.MatchEvent] = {}
        for _ in range(_MOVES):
            await moved(table, 1)
            async with Watching.of(table, NORTH, number) as piece:
                await piece.reached(number + 1)
                piece.cut()
            pieces |= piece.heard.events
            number = piece.heard.sequence
        await table.do(Resign(SOUTH))
        async with Watching.of(table, NORTH, number) as piece:
            await piece.to_the_end()
        pieces |= piece.heard.events
        await whole.to_the_end()
        expect(pieces == whole.heard.events, "the events of the broken stream are not those of the whole one")
        expect(piece.heard.over, "the stream resumed last ended without the end of the match")


async def a_number_that_does_not_exist_yet_gets_a_snapshot(bench: Bench) -> None:
    """With resume_after beyond the last event a snapshot comes."""
    async with await Table.create(bench) as table:
        last = (await table.snapshot(NORTH)).sequence
        call = table.stub.Watch(
            pb.WatchRequest(match_id=table.match_id, resume_after=last + 1000),
            metadata=table.guests.north.metadata,
            timeout=CALL_SECONDS,
        )
        try:
            message = await call.read()
        finally:
            call.cancel()
        if not isinstance(message, pb.WatchResponse) or not message.HasField("snapshot"):
            raise BrokenError("no snapshot came")
        expect(
            message.snapshot.sequence == last, f"a snapshot of event {message.snapshot.sequence}, not {last}"
        )


async def a_quiet_stream_has_heartbeats(bench: Bench) -> None:
    """A stream on which nothing happens says so within 15 s, with the last number."""
    async with await Table.create(bench, start=False) as table, Watching.of(table, NORTH) as watching:
        try:
            async with asyncio.timeout(_HEARTBEAT_SECONDS_MAX):
                heard = await watching.until(
                    lambda heard: any(message.HasField("heartbeat") for message in heard.messages),
                    "a heartbeat",
                )
        except TimeoutError:
            raise BrokenError(f"no heartbeat within {_HEARTBEAT_SECONDS_MAX:.0f} s") from None
        number = heard.messages[-1].heartbeat.sequence
        expect(
            number == heard.sequence,
            f"the heartbeat says event {number}, the stream told of {heard.sequence}",
        )


async def a_slow_reader_misses_nothing(bench: Bench) -> None:
    """Who reads nothing until the match is over then has it whole, and has held nobody up."""
    played = await bench.played()
    heard, truth = played.slow, played.heard[None]
    expect(heard.over, "the slow reader never heard of the end")
    expect(
        heard.sequence == truth.sequence, f"the slow reader has {heard.sequence} of {truth.sequence} events"
    )
    same = {number: event for number, event in truth.events.items() if number in heard.events}
    expect(heard.events == same, "the slow reader was told other events than the quick one")


async def a_stream_of_a_finished_match_ends_by_itself(bench: Bench) -> None:
    """Watch of a finished match tells of its end and ends with OK, from the beginning and from any number."""
    async with await Table.create(bench) as table:
        before = (await table.snapshot(NORTH)).sequence
        await table.do(Resign(NORTH))
        for number in (0, before):
            async with Watching.of(table, SOUTH, number) as watching:
                heard = await watching.to_the_end()
            expect(heard.over, f"a Watch after event {number} ended without the end of the match")


def _the_same(whole: Heard, part: Heard, number: int, what: str) -> None:
    for at in range(number + 1, whole.sequence + 1):
        expect(at in part.events, f"{what} resumed after event {number} told nothing of event {at}")
        expect(
            part.events[at] == whole.events[at], f"{what} resumed after event {number} has another event {at}"
        )


CHECKS: Final = checks_of(
    "streams",
    a_watch_begins_with_a_snapshot,
    events_are_numbered_without_gap_for_everybody,
    a_watch_resumes_from_any_number,
    a_play_resumes_from_any_number,
    a_stream_broken_again_and_again_loses_nothing,
    a_number_that_does_not_exist_yet_gets_a_snapshot,
    a_quiet_stream_has_heartbeats,
    a_slow_reader_misses_nothing,
    a_stream_of_a_finished_match_ends_by_itself,
)
