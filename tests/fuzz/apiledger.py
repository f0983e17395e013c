"""All that was said to and by one match, and the judgement of it when it is over."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from client.errors import CallError
from engine.deal import Deal
from engine.eventjson import event_from_json
from engine.playback import play_back
from engine.recordlines import read_record
from engine.seats import NORTH, SOUTH, Seat
from engine.verify import problems
from services.storage.script import first_state
from spectacularbid.match.v1 import match_service_pb2 as pb
from tests.fuzz.apicourse import LEGAL, Course, Entry, Sent
from tests.fuzz.apideals import Deals
from tests.fuzz.apiview import Listened, Viewer
from tests.hidden import Truth
from tests.stack import Stack

BUSY: Final = frozenset({"TRY_AGAIN", "LIMIT_REACHED"})
"""Answers that a busy service may give to anything, if they say when to come back."""
ANOTHER: Final = "another match: "
"""Before what a player of this match was told who wanted a second one."""
ASTRAY: Final = "astray: "
"""Before what somebody was told who asked another game process than the one that plays the match."""
BESIDE: Final = BUSY | {"REQUEST_ID_REUSED"}
GONE: Final = frozenset({"CANCELLED", "UNAVAILABLE", "UNANSWERED"})
"""No answer: the stream was cut before."""


@dataclass(slots=True)
class Exchange:
    """A command and its answer."""

    sent: Sent
    known: int
    """The highest sequence number that anybody had heard of when it was sent."""
    said: str = "UNANSWERED"
    """`applied 4 6`, or the reason."""
    answered_at: int = 0
    others: list[pb.SubmitRequest] = field(default_factory=list)
    """Other requests of the same stream and id, one of which may have got this answer."""


@dataclass(slots=True)
class Look:
    """A call for the record, and what came."""

    player_id: str
    known: int
    sent_at: int
    answered_at: int
    said: str
    record: str = ""


class Ledger:
    """One match."""

    def __init__(
        self,
        match_id: str,
        north: str,
        south: str,
        deals: Sequence[Deal] = (),
        *,
        rated: bool = False,
        home: str = "game",
    ) -> None:
        self.match_id = match_id
        self.players = {NORTH: north, SOUTH: south}
        self.rated = rated
        self.home = home
        """The process that plays it."""
        self.deals = deals
        self.known = 0
        """The highest sequence number that anybody has heard of."""
        self.over = False
        """Whether somebody has heard of its end."""
        self.sent: list[Sent] = []
        self.exchanges: list[Exchange] = []
        self.listened: list[Listened] = []
        self.records: list[Look] = []
        self.raw: list[bytes] = []
        """Everything that was received about it before its end, apart from the news."""
        self.calls: list[str] = []
        """In words, for whoever looks into a finding."""

    @property
    def same_device(self) -> bool:
        """Whether one player holds both seats."""
        return self.players[NORTH] == self.players[SOUTH]

    def send(self, player_id: str, request: pb.SubmitRequest, at: int) -> Exchange:
        """A command goes out."""
        kept = pb.SubmitRequest()
        kept.CopyFrom(request)
        sent = Sent(player_id, kept, at)
        self.sent.append(sent)
        self.exchanges.append(Exchange(sent, self.known))
        self.note(at, player_id, "Submit", _in_short(kept))
        return self.exchanges[-1]

    def answer(self, exchange: Exchange, said: pb.Applied | CallError, at: int) -> None:
        """Its answer came."""
        exchange.answered_at = at
        if isinstance(said, CallError):
            exchange.said = said.reason or said.code.name
        else:
            exchange.said = f"applied {said.first_sequence} {said.last_sequence}"
            self.known = max(self.known, said.last_sequence)
        self.note(
            at, exchange.sent.player_id, "answer", f"{exchange.sent.request.request_id} {exchange.said}"
        )

    def hear(self, listened: Listened, message: pb.WatchResponse, at: int) -> None:
        """News came."""
        listened.messages.append((at, message))
        snapshot = message.snapshot
        self.known = max(self.known, snapshot.sequence, *(event.sequence for event in message.events), 0)
        if snapshot.table.HasField("outcome") or any(e.HasField("match_ended") for e in message.events):
            self.over = True

    def note(self, at: int, player_id: str, what: str, text: str = "") -> None:
        """Something for whoever looks into a finding."""
        self.calls.append(f"{at} {player_id} {what} {text}")


def _in_short(request: pb.SubmitRequest) -> str:
    return f"{request.request_id} decision {request.decision_id} seat {request.seat} {str(request.command)!r}"


async def course_of(made: Stack, ledger: Ledger) -> Course:
    """The match as the database has it, gone through by the rules."""
    rows = await made.pool.fetch(
        """
        select first_sequence, last_sequence, seat, request_id, events, credited_ns
        from match_log where match_id = $1 order by revision
        """,
        ledger.match_id,
    )
    row = await made.row(ledger.match_id)
    return Course(
        first_state(row),
        ledger.players,
        map(_entry, rows),
        ledger.sent,
        Deals(ledger.match_id, ledger.deals),
        created_by=row.created_by if row.asked_for else None,
    )


def _entry(row: Any) -> Entry:
    return Entry(
        first=row["first_sequence"],
        last=row["last_sequence"],
        seat=None if row["seat"] is None else Seat(row["seat"]),
        request_id=row["request_id"],
        events=tuple(map(event_from_json, json.loads(row["events"]))),
        credited_ns=row["credited_ns"] or 0,
    )


def judged(ledger: Ledger, course: Course) -> list[str]:
    """Everything that was wrong with a match, with what anybody was told of it. Empty when all is well."""
    found = list(course.faults)
    for exchange in ledger.exchanges:
        found += _misjudged(course, exchange)
    found += _unanswered_for(ledger, course)
    truth = Truth(course.states[0], course.events)
    viewers: dict[str, Viewer] = {}
    for listened in ledger.listened:
        viewer = viewers.setdefault(listened.player_id, Viewer(course, listened.player_id, truth))
        found += [f"{listened.player_id} was told: {fault}" for fault in viewer.faults(listened)]
    found += truth.secrets(b"\0".join(ledger.raw))
    for record in ledger.records:
        found += _misrecorded(course, record, rated=ledger.rated)
    return found


def _misjudged(course: Course, exchange: Exchange) -> list[str]:
    said = exchange.said
    if said in GONE or said in BUSY:
        return []
    player_id = exchange.sent.player_id
    window = course.window(exchange.known, exchange.answered_at)
    possible: set[str] = set()
    for request in (exchange.sent.request, *exchange.others):
        for at in window:
            possible |= course.verdict(at, player_id, request)
    late = said == "CLOCK_EXPIRED" and LEGAL in possible
    if said == "PLAYER_BUSY" and LEGAL in possible and player_id == course.invited:
        # An invitation is accepted by Start, which a player cannot do who is in another match.
        return [] if exchange.sent.request.command.HasField("start") else [f"{player_id} was told {said}"]
    if said in possible or (late and any(course.ended_on_time(seat) for seat in course.seats_of(player_id))):
        return []
    return [
        f"{player_id} was told {said}, not one of {sorted(possible)}, at stages {window.start} to {window.stop - 1}: "
        + _in_short(exchange.sent.request)
    ]


def _unanswered_for(ledger: Ledger, course: Course) -> list[str]:
    """Effects of requests of which every answer said that they had none."""
    denied: Counter[tuple[str, str]] = Counter()
    asked: Counter[tuple[str, str]] = Counter()
    for exchange in ledger.exchanges:
        key = (exchange.sent.player_id, exchange.sent.request.request_id)
        asked[key] += 1
        denied[key] += not exchange.said.startswith("applied") and exchange.said not in GONE | BUSY
    return [
        f"request {request_id} of {seat} was refused, and had its effect"
        for seat, request_id in course.told
        if asked[key := (course.players[seat], request_id)] and denied[key] == asked[key]
    ]


def _misjudged_beside(course: Course, look: Look) -> list[str]:
    """What a player should have been told who wanted a second match."""
    busy = [course.seated(at, look.player_id) for at in course.window(look.known, look.answered_at)]
    said = look.said.removeprefix(ANOTHER)
    fits = {"PLAYER_BUSY": True in busy, "OK": False in busy}
    # An invited player may have made another match before, and be busy there.
    if fits.get(said, said in BESIDE) or (said == "PLAYER_BUSY" and course.invited == look.player_id):
        return []
    return [f"{look.player_id} wanted a second match and was told {said}"]


def _misrecorded(course: Course, look: Look, *, rated: bool) -> list[str]:
    """What a call for the record of an unrated or rated match should have said."""
    if look.said in GONE or look.said in BUSY:
        return []
    if look.said.startswith(ANOTHER):
        return _misjudged_beside(course, look)
    outcomes = [course.stages[at].state.outcome for at in course.window(look.known, look.answered_at)]
    if look.said.startswith(ASTRAY):
        fits = {f"{ASTRAY}WRONG_ADDRESS": None in outcomes, f"{ASTRAY}OK": any(outcomes)}
        said = look.said.removeprefix(ASTRAY)
        return [] if fits.get(look.said, said in BUSY) else [f"{look.player_id} at the other process: {said}"]
    right = set()
    if None in outcomes:
        right.add("MATCH_LIVE")
    if any(outcome is not None for outcome in outcomes):
        right.add("OK" if rated or course.seats_of(look.player_id) else "RECORD_PRIVATE")
    if look.said not in right:
        return [f"{look.player_id} got {look.said} for the record, not one of {sorted(right)}"]
    if look.said != "OK":
        return []
    found = [f"the record: {problem}" for problem in problems(read_record(look.record.encode()))]
    *_, last = play_back(read_record(look.record.encode()))
    if last.state.balances != course.states[-1].balances:
        found.append("the record comes to other balances")
    return found
