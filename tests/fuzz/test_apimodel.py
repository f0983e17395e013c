"""The model of the API's fuzzer, on paper: it finds nothing in a match that is right, and each thing that is wrong."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Final

import grpc
import pytest

from client.errors import call_error
from engine.event import MatchEnded, PointsMoved, RoundDealt, TilePlaced, TurnTimed
from engine.match import Cause, Outcome
from engine.seats import NORTH, SOUTH
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import table_pb2
from tests.fuzz.apicalls import METHODS, RULES, STATUS, Heard, unfit, unfit_error
from tests.fuzz.apicourse import Entry
from tests.fuzz.apiledger import judged
from tests.fuzz.apipaper import WATCHER, Paper

SEED: Final = 13
COMMANDS: Final = 25


def faults(paper: Paper) -> list[str]:
    """What the model finds."""
    return judged(paper.ledger, paper.course())


@pytest.mark.parametrize("seed", [1, 2, SEED])
def test_nothing_is_found_in_a_match_that_is_right(seed: int) -> None:
    """Legal, repeated, stale and senseless commands, looks and streams of both seats and a watcher."""
    paper = Paper(seed).play(COMMANDS)
    assert faults(paper) == []
    said = {exchange.said for exchange in paper.ledger.exchanges}
    assert {"NOT_SEATED", "STALE_DECISION"} <= said


def shows_a_tile_to_the_watcher(paper: Paper) -> None:
    """One tile of a hand in a snapshot."""
    shown = paper.look(WATCHER).messages[0][1].snapshot.table
    shown.hand.append(table_pb2.Tile(low=0, high=paper.rng.randrange(7)))


def shows_the_drawn_tile(paper: Paper) -> None:
    """A drawn tile in what the other seat hears."""
    told = next(
        event
        for player_id in ("north", "south")
        for event in paper.told(player_id, "tile_drawn").events
        if event.HasField("tile_drawn") and not event.tile_drawn.HasField("tile")
    )
    told.tile_drawn.tile.CopyFrom(table_pb2.Tile(low=3, high=3))


def shows_what_is_legal_to_the_other_seat(paper: Paper) -> None:
    """The list of the seat to act names its tiles."""
    streams = [each for each in paper.ledger.listened if len(each.messages) > 2]
    asked, other = (
        next(each for each in streams if each.player_id == player_id) for player_id in ("north", "south")
    )
    plays = next(
        (number, message.prompt.legal.plays)
        for number, (_, message) in enumerate(asked.messages)
        if message.prompt.legal.plays
    )
    other.messages[plays[0]][1].prompt.legal.plays.extend(plays[1])


def writes_the_salt_into_an_error(paper: Paper) -> None:
    """The salt of a deal in an error text."""
    number, place = paper.place(RoundDealt)
    dealt = paper.entries[number].events[place]
    assert isinstance(dealt, RoundDealt)
    paper.ledger.raw.append(b"no such match " + dealt.salt.hex().encode())


def carries_out_a_request_twice(paper: Paper) -> None:
    """The second Start of a seat under the same id, as if it were the other's."""
    first = paper.entries[0]
    paper.entries[1] = dataclasses.replace(first, first=2, last=2)


def carries_out_what_nobody_asked(paper: Paper) -> None:
    """A placement under an id that nobody sent."""
    number, _ = paper.place(TilePlaced)
    paper.entries[number] = dataclasses.replace(paper.entries[number], request_id="nobody")


def lets_the_watcher_play(paper: Paper) -> None:
    """What had an effect was sent by somebody without a seat."""
    number, _ = paper.place(TilePlaced)
    request_id = paper.entries[number].request_id
    paper.ledger.sent[:] = [
        dataclasses.replace(sent, player_id=WATCHER) if sent.request.request_id == request_id else sent
        for sent in paper.ledger.sent
    ]


def takes_a_stale_answer(paper: Paper) -> None:
    """What had an effect answered the question before."""
    number, _ = paper.place(TilePlaced)
    request_id = paper.entries[number].request_id
    for sent in paper.ledger.sent:
        if sent.request.request_id == request_id:
            sent.request.decision_id -= 1


def moves_305_points(paper: Paper) -> None:
    """Five points more arrive than were paid."""
    number, place = paper.place(PointsMoved)
    moved = paper.entries[number].events[place]
    assert isinstance(moved, PointsMoved)
    paper.replace(number, place, moved._replace(moved=moved.moved + 5))


def shows_305_points(paper: Paper) -> None:
    """A balance in a snapshot that nobody has."""
    paper.look("north").messages[0][1].snapshot.table.balances.north += 5


def charges_too_much(paper: Paper) -> None:
    """A turn costs the bank more than what exceeds the delay."""
    number, place = paper.place(TurnTimed)
    timed = paper.entries[number].events[place]
    assert isinstance(timed, TurnTimed)
    paper.replace(
        number,
        place,
        timed._replace(charge_ns=timed.charge_ns + 1, bank_after_ns=timed.bank_after_ns - 1),
    )


def deals_what_was_not_committed(paper: Paper) -> None:
    """The commitment is that of another deal."""
    number, place = paper.place(RoundDealt)
    dealt = paper.entries[number].events[place]
    assert isinstance(dealt, RoundDealt)
    paper.replace(number, place, dataclasses.replace(dealt, commitment="0" * 64))


def leaves_out_what_a_player_gave(paper: Paper) -> None:
    """The deal was drawn without it."""
    number, place = paper.place(RoundDealt)
    dealt = paper.entries[number].events[place]
    assert isinstance(dealt, RoundDealt)
    assert dealt.contributions is not None
    paper.replace(
        number, place, dataclasses.replace(dealt, contributions=dealt.contributions.put(SOUTH, b"x"))
    )


def announces_another_seed(paper: Paper) -> None:
    """A look announces a seed that is not the one of the next deal."""
    paper.ledger.listened[0].messages[0][1].snapshot.table.next_commitment = "0" * 64


def voids_the_match(paper: Paper) -> None:
    """Nothing failed, and the match is void."""
    last = paper.entries[-1]
    end = MatchEnded(Outcome(None, Cause.VOID, "operator"))
    paper.entries[-1] = Entry(last.first, last.last, None, None, (end,))


def loses_an_event(paper: Paper) -> None:
    """A stream leaves one out."""
    del paper.told(WATCHER, "tile_placed").events[0]


def repeats_an_event(paper: Paper) -> None:
    """A stream tells one twice."""
    message = paper.told("south", "tile_placed")
    message.events.append(message.events[-1])


def shows_an_old_table(paper: Paper) -> None:
    """A look after the end shows how it was at the beginning."""
    old = paper.ledger.listened[0].messages[0]
    paper.look("north").messages[0] = (paper.now(), old[1])


def answers_another_reason(paper: Paper) -> None:
    """A stale command is told that it is not its turn."""
    exchange = next(each for each in paper.ledger.exchanges if each.said == "STALE_DECISION")
    exchange.said = "NOT_YOUR_TURN"


def denies_an_effect(paper: Paper) -> None:
    """Both answers to a command that had its effect say that it had none."""
    said = next(each for each in paper.ledger.exchanges if each.said.startswith("applied"))
    for each in paper.ledger.exchanges:
        if each.sent.request.request_id == said.sent.request.request_id:
            each.said = "NOT_STARTED"


def claims_an_effect(paper: Paper) -> None:
    """A command that was refused is said to be carried out."""
    next(each for each in paper.ledger.exchanges if each.said == "NOT_SEATED").said = "applied 1 1"


def answers_a_repeat_otherwise(paper: Paper) -> None:
    """The second answer to a request has other numbers."""
    exchanges = [each for each in paper.ledger.exchanges if each.said.startswith("applied")]
    exchanges[1].said = "applied 2 2"


def leaves_a_hole(paper: Paper) -> None:
    """A ruling is gone from the log."""
    del paper.entries[len(paper.entries) // 2]


WRONG: Final[list[Callable[[Paper], None]]] = [
    shows_a_tile_to_the_watcher,
    shows_the_drawn_tile,
    shows_what_is_legal_to_the_other_seat,
    writes_the_salt_into_an_error,
    carries_out_a_request_twice,
    carries_out_what_nobody_asked,
    lets_the_watcher_play,
    takes_a_stale_answer,
    moves_305_points,
    shows_305_points,
    charges_too_much,
    deals_what_was_not_committed,
    leaves_out_what_a_player_gave,
    announces_another_seed,
    voids_the_match,
    loses_an_event,
    repeats_an_event,
    shows_an_old_table,
    answers_another_reason,
    denies_an_effect,
    claims_an_effect,
    answers_a_repeat_otherwise,
    leaves_a_hole,
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: str(wrong.__name__))
def test_each_thing_that_is_wrong_is_found(wrong: Callable[[Paper], None]) -> None:
    """The same match with one thing changed in what was stored or said."""
    paper = Paper(SEED).play(COMMANDS)
    wrong(paper)
    assert faults(paper) != []


def heard(error: Exception | None = None, raw: bytes = b"") -> Heard:
    """An answer to a GetMatch."""
    made = Heard(METHODS["GetMatch"], b"", 1, 2)
    made.raw.append(raw)
    message = pb.GetMatchResponse()
    message.ParseFromString(raw)
    made.messages.append(message)
    return made


def test_the_page_of_the_api_is_read() -> None:
    """Reasons, statuses and rules come from the documentation."""
    assert STATUS["STALE_DECISION"] is grpc.StatusCode.ABORTED
    assert RULES["STALE_DECISION"] == "7.5"
    assert STATUS["TOKEN_EXPIRED"] is grpc.StatusCode.UNAUTHENTICATED
    assert "TOKEN_EXPIRED" not in RULES
    assert len(RULES) == 35


@pytest.mark.parametrize(
    ("code", "reason", "rule", "retry", "found"),
    [
        (grpc.StatusCode.ABORTED, "STALE_DECISION", "7.5", None, False),
        (grpc.StatusCode.INVALID_ARGUMENT, "STALE_DECISION", "7.5", None, True),
        (grpc.StatusCode.ABORTED, "STALE_DECISION", "7.4", None, True),
        (grpc.StatusCode.INTERNAL, "INTERNAL", "", None, True),
        (grpc.StatusCode.UNKNOWN, "", "", None, True),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "LIMIT_REACHED", "", 1.0, False),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "LIMIT_REACHED", "", None, True),
        (grpc.StatusCode.NOT_FOUND, "NO_SUCH_REASON", "", None, True),
    ],
)
def test_an_error_has_the_status_and_the_rule_of_its_reason(
    code: grpc.StatusCode, reason: str, rule: str, retry: float | None, found: bool
) -> None:
    """And says when to come back, where that helps."""
    error = call_error(
        code, reason, "text", metadata={"rule": rule} if rule else {}, retry_after_seconds=retry
    )
    assert bool(unfit_error(error)) is found


def test_what_no_answer_may_hold_is_found() -> None:
    """Fields that nobody knows, and tiles in words."""
    assert unfit(heard()) == []
    assert unfit(heard(raw=b"\xfa\x3f\x05hello")) != []
    words = pb.GetMatchResponse(snapshot=pb.Snapshot(table=table_pb2.Table(match_id="holds 0|6")))
    assert unfit(heard(raw=words.SerializeToString())) != []


def test_a_window_ends_where_something_was_asked_for_later() -> None:
    """What was asked for only after an answer cannot be what the answer was about."""
    paper = Paper(1).play(3)
    course = paper.course()
    last = course.stages[-1]
    assert list(course.window(0, 0)) == [0]
    assert list(course.window(last.sequence, last.asked_at)) == [len(course.stages) - 1]
    assert len(course.window(0, paper.now())) == len(course.stages)
    assert course.seats_of("north") == [NORTH]
    assert course.seats_of("south") == [SOUTH]
