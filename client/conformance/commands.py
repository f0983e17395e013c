"""Commands: one effect each, however often they come; none for an earlier question; none from somebody else."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import grpc

from client.conformance.bench import expect_error, failure, new_id
from client.conformance.check import checks_of, expect
from client.conformance.hearing import Watching
from client.conformance.played import commands as legal_commands
from client.conformance.table import Table
from engine.command import Resign, Start
from engine.seats import NORTH, SEATS, SOUTH
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import table_pb2

if TYPE_CHECKING:
    from client.conformance.bench import Bench
    from engine.seats import Seat

_INVALID: Final = grpc.StatusCode.INVALID_ARGUMENT
_AT_ONCE: Final = 5


async def next_move(table: Table) -> tuple[Seat, pb.SubmitRequest]:
    """A legal answer to the question on the table, and whose."""
    seat = await table.to_act()
    prompt = (await table.view(seat)).prompt
    choices = legal_commands(prompt.legal)
    expect(choices, f"nothing is legal for {seat}, who must act")
    request = pb.SubmitRequest(
        match_id=table.match_id, request_id=new_id(), decision_id=prompt.decision_id, command=choices[0]
    )
    return seat, request


async def nothing_is_dealt_before_both_start(bench: Bench) -> None:
    """Start is pressed by both; before the last press no tile is dealt and no clock runs (rule 7.1)."""
    async with await Table.create(bench, start=False) as table:
        await table.do(Start(SOUTH))
        for seat in SEATS:
            view = await table.view(seat)
            expect(not view.hand and view.round == 0, f"{seat} was dealt tiles after one press")
            expect(
                view.prompt.clock.running == table_pb2.SEAT_UNSPECIFIED, "a clock runs before the last press"
            )
            expect(view.prompt.legal.start is (seat is NORTH), f"legal.start is wrong for {seat}")
        await table.do(Start(NORTH))
        for seat in SEATS:
            view = await table.view(seat)
            expect(len(view.hand) == 7, f"{seat} holds {len(view.hand)} tiles after the deal")
            expect(view.commitment, "the deal came without a commitment")
            expect(
                view.prompt.clock.running == view.prompt.to_act != table_pb2.SEAT_UNSPECIFIED,
                "the clock of the seat to act does not run",
            )


async def a_repeated_request_has_its_first_answer(bench: Bench) -> None:
    """The same request again, on Submit or Play, now or later, has no second effect and gets the same answer."""
    async with await Table.create(bench) as table, Watching.of(table, NORTH) as watching:
        seat, request = await next_move(table)
        first = await table.send(request, seat)
        for _ in range(2):
            again = await table.send(request, seat)
            expect(again == first, f"the first answer was {_shown(first)}, the repeat got {_shown(again)}")
        (answer,) = await table.on_a_stream(seat, request)
        expect(answer.applied == first, f"Submit answered {_shown(first)}, Play {_shown(answer.applied)}")
        later_seat, later = await next_move(table)
        applied = await table.send(later, later_seat)
        expect(
            applied.first_sequence == first.last_sequence + 1,
            f"event {applied.first_sequence} follows {first.last_sequence}: the repeats had effects of their own",
        )
        expect(await table.send(request, seat) == first, "another answer after a later command")
        await table.do(Resign(NORTH))
        expect(await table.send(request, seat) == first, "another answer after the end of the match")
        heard = await watching.to_the_end()
        expect(heard.over, "the stream ended without the end of the match")


async def a_request_sent_many_times_at_once_has_one_effect(bench: Bench) -> None:
    """Of the same request sent several times at once, all get one answer, and there is one effect."""
    async with await Table.create(bench) as table:
        seat, request = await next_move(table)
        answers = await asyncio.gather(*(table.send(request, seat) for _ in range(_AT_ONCE)))
        expect(
            all(answer == answers[0] for answer in answers),
            f"different answers: {', '.join(sorted(set(map(_shown, answers))))}",
        )
        sequence = (await table.snapshot(seat)).sequence
        expect(sequence == answers[0].last_sequence, f"event {sequence} exists beyond {_shown(answers[0])}")


async def a_request_id_belongs_to_one_payload(bench: Bench) -> None:
    """A request_id with another payload is REQUEST_ID_REUSED; the other player may use it as well."""
    async with await Table.create(bench) as table:
        seat, request = await next_move(table)
        first = await table.send(request, seat)
        other = pb.SubmitRequest()
        other.CopyFrom(request)
        other.decision_id += 1
        expect_error(await failure(table.send(other, seat)), _INVALID, "REQUEST_ID_REUSED")
        resigning = table.request(Resign(seat), 0, request.request_id)
        expect_error(await failure(table.send(resigning, seat)), _INVALID, "REQUEST_ID_REUSED")
        expect(await table.send(request, seat) == first, "the first request got another answer")
        # The ids of the other player are nobody's business.
        own = table.request(Resign(seat.opponent), 0, request.request_id)
        answer = await table.send(own, seat.opponent)
        expect(
            answer.first_sequence > first.last_sequence,
            "the other player's request got the first one's answer",
        )


async def a_refused_request_id_may_be_used_again(bench: Bench) -> None:
    """A refused command is not stored: its request_id may be used for another one."""
    async with await Table.create(bench) as table:
        seat, request = await next_move(table)
        refused = table.request(Start(seat), request.decision_id, request.request_id)
        await failure(table.send(refused, seat))
        await table.send(request, seat)


async def a_command_for_an_earlier_question_is_stale(bench: Bench) -> None:
    """A command that names an earlier question is STALE_DECISION, never an answer to the present one."""
    async with await Table.create(bench) as table:
        seat, request = await next_move(table)
        await table.send(request, seat)
        now, legal = await next_move(table)
        before = await table.snapshot(now)
        expect(
            legal.decision_id > request.decision_id,
            f"decision_id went from {request.decision_id} to {legal.decision_id}",
        )
        legal.decision_id = request.decision_id
        expect_error(await failure(table.send(legal, now)), grpc.StatusCode.ABORTED, "STALE_DECISION")
        expect((await table.snapshot(now)).sequence == before.sequence, "the stale command had an effect")


async def a_malformed_command_names_its_field(bench: Bench) -> None:
    """A missing or impossible field is MALFORMED, and the message names it; nothing changes."""
    tile, place = table_pb2.Tile, pb.PlaceTile
    good = "request_id"
    wrong = (
        ("request_id", "", None),
        ("request_id", "x" * 65, None),
        ("request_id", "two words", None),
        ("command", good, pb.Command()),
        ("command.bid.amount", good, pb.Command(bid=pb.Bid())),
        ("command.play.tile", good, pb.Command(play=place())),
        ("command.play.tile", good, pb.Command(play=place(tile=tile(high=0)))),
        ("command.play.tile", good, pb.Command(play=place(tile=tile(low=6, high=7)))),
    )
    async with await Table.create(bench) as table:
        seat, request = await next_move(table)
        before = (await table.snapshot(seat)).sequence
        for name, request_id, command in wrong:
            bad = pb.SubmitRequest()
            bad.CopyFrom(request)
            bad.request_id = request_id
            if command is not None:
                bad.command.CopyFrom(command)
            error = await failure(table.send(bad, seat))
            expect_error(error, _INVALID, "MALFORMED")
            expect(error.message.startswith(f"{name}:"), f"{error.message!r} does not name {name}")
        expect((await table.snapshot(seat)).sequence == before, "a malformed command had an effect")


async def only_a_seat_gives_commands(bench: Bench) -> None:
    """A spectator may look and not play: NOT_SEATED, on Submit and on Play; nor may one seat act for the other."""
    async with await Table.create(bench) as table:
        spectator = await bench.guest()
        seat, request = await next_move(table)
        denied = grpc.StatusCode.PERMISSION_DENIED
        expect_error(await failure(table.send(request, spectator)), denied, "NOT_SEATED")
        (answer,) = await table.on_a_stream(spectator, request)
        expect(
            answer.refused.reason_word == "NOT_SEATED",
            f"Play says {answer.refused.reason_word or 'it was carried out'} to a spectator's command",
        )
        view = await table.view(spectator)
        expect(view.seat == table_pb2.SEAT_UNSPECIFIED, "the spectator's view has a seat")
        expect(view.prompt.legal == table_pb2.Legal(), "the spectator's prompt offers something")
        borrowed = pb.SubmitRequest()
        borrowed.CopyFrom(request)
        borrowed.seat = table_pb2.SEAT_NORTH if seat is NORTH else table_pb2.SEAT_SOUTH
        expect_error(await failure(table.send(borrowed, seat.opponent)), denied, "NOT_SEATED")
        expect(await table.send(request, seat), "the seat itself is not heard")


def _shown(applied: pb.Applied) -> str:
    return f"events {applied.first_sequence} to {applied.last_sequence}"


CHECKS: Final = checks_of(
    "commands",
    nothing_is_dealt_before_both_start,
    a_repeated_request_has_its_first_answer,
    a_request_sent_many_times_at_once_has_one_effect,
    a_request_id_belongs_to_one_payload,
    a_refused_request_id_may_be_used_again,
    a_command_for_an_earlier_question_is_stale,
    a_malformed_command_names_its_field,
    only_a_seat_gives_commands,
)
