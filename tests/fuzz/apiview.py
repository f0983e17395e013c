"""What one viewer must see of a match: every snapshot and every stream, held against the course of the match."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from client import wire
from client.table import TableState
from engine.match import Match, Phase, legal
from engine.seats import SEATS, Seat
from engine.tiles import Tile, tiles_of
from engine.view import redact, redact_for_device
from services.wire.events import event_to_pb
from spectacularbid.match.v1 import event_pb2
from spectacularbid.match.v1 import match_service_pb2 as pb
from tests.fuzz.apicourse import Course
from tests.fuzz.apideals import announcements
from tests.hidden import Truth

KEPT: Final = 1024
"""Events that are kept for resuming, as the API's page says."""


@dataclass(slots=True)
class Listened:
    """A stream of news, or one look at the table: who asked for it, when, and what came."""

    player_id: str
    resume_after: int
    known: int
    """The highest sequence number that anybody had heard of when it was sent."""
    messages: list[tuple[int, pb.WatchResponse]] = field(default_factory=list)
    """With the moment at which each came."""
    ended_at: int = 0
    """When the service ended it; 0 for one that was cut."""


def seen(state: Match, viewer: Seat | None, *, device: bool) -> dict[str, Any]:
    """What a viewer may see of a position and must be shown, from the allow-list of the rules alone."""
    layout = state.layout
    bid = state.standing_bid
    moved = state.last_transfer
    playing = state.phase not in (Phase.AWAITING_START, Phase.OVER)
    return {
        "balances": state.balances,
        "round_no": state.round_no,
        "hand": _hand(state, viewer, device=device),
        "tiles": (state.north_hand.bit_count(), state.south_hand.bit_count()),
        "boneyard": len(state.boneyard),
        "placements": [tuple(placed) for placed in layout.placements],
        "ends": [(end, end.value, counts) for end, counts in layout.open_ends],
        "spinner": layout.spinner,
        "count": layout.total,
        "last_transfer": None if moved is None else (moved.to, moved.due, moved.moved, moved.reason),
        "jockey": state.jockey,
        "bid": (None, 0) if bid is None else (bid.seat, bid.amount),
        "pressed": state.pressed,
        "commitment": state.commitment or "",
        "hand_totals": state.hand_totals,
        "outcome": state.outcome,
        "decision": (state.decision_id, state.turn, state.to_act, state.decision_kind, state.phase),
        "awaiting_reveal": state.awaiting_reveal,
        "legal": _legal(state, viewer, device=device),
        "resign": playing and (device or viewer is not None),
    }


def _hand(state: Match, viewer: Seat | None, *, device: bool) -> tuple[Tile, ...]:
    holder = state.to_act if device else viewer
    return () if holder is None else tiles_of(state.hand(holder))


def _legal(state: Match, viewer: Seat | None, *, device: bool) -> tuple[Any, ...]:
    everything = legal(state)
    mine = set(SEATS) if device else {viewer}
    if state.to_act is not None and state.to_act not in mine:
        return (frozenset(), False, False, False, False, None, False, False, False)
    bid = everything.bid
    return (
        frozenset(everything.play),
        everything.draw,
        everything.pass_,
        everything.accept,
        everything.decline,
        None if bid is None else tuple(bid),
        bool(mine & set(everything.start)),
        bool(mine & set(everything.continue_)),
        everything.reveal is not None and everything.reveal in mine,
    )


def shown(table: TableState) -> dict[str, Any]:
    """The same of a table as a client reads it."""
    moved, prompt = table.last_transfer, table.prompt
    offered = prompt.legal
    bid = offered.bid
    return {
        "balances": table.balances,
        "round_no": table.round_no,
        "hand": table.hand,
        "tiles": tuple(table.tiles),
        "boneyard": table.boneyard,
        "placements": [(placed.tile, placed.end, placed.joined) for placed in table.placements],
        "ends": [(end.end, end.value, end.counts) for end in table.ends],
        "spinner": table.spinner,
        "count": table.count,
        "last_transfer": None if moved is None else (moved.to, moved.due, moved.moved, moved.reason),
        "jockey": table.jockey,
        "bid": (table.bidder, table.standing_bid),
        "pressed": table.pressed,
        "commitment": table.commitment,
        "hand_totals": table.hand_totals,
        "outcome": table.outcome,
        "decision": (prompt.decision_id, prompt.turn, prompt.to_act, prompt.kind, prompt.phase),
        "awaiting_reveal": prompt.awaiting_reveal,
        "legal": (
            frozenset(offered.plays),
            offered.draw,
            offered.pass_turn,
            offered.accept,
            offered.decline,
            None if bid is None else (bid.lowest, bid.highest, bid.step),
            offered.start,
            offered.continue_round,
            offered.reveal,
        ),
        "resign": offered.resign,
    }


def differences(told: Mapping[str, Any], right: Mapping[str, Any]) -> list[str]:
    """The fields in which two views differ, with both values."""
    return [f"{name} is {told[name]}, not {value}" for name, value in right.items() if told[name] != value]


class Viewer:
    """One player's way of seeing one match."""

    def __init__(self, course: Course, player_id: str, truth: Truth) -> None:
        own = course.seats_of(player_id)
        self.course = course
        self.device = len(own) == len(SEATS)
        self.seat = own[0] if len(own) == 1 else None
        self.truth = truth
        self._announced = announcements(course.events)

    def faults(self, listened: Listened) -> list[str]:
        """All that is wrong with a stream or a look."""
        messages = [message for _, message in listened.messages]
        newest = max((_newest(message) for message in messages), default=0)
        if newest > len(self.course.events):
            return [f"event {newest}, and there are {len(self.course.events)}"]
        found = self.truth.leaks_on_device(messages) if self.device else self.truth.leaks(messages, self.seat)
        if (
            listened.ended_at
            and self.course.stages[self.course.window(0, listened.ended_at)[-1]].state.outcome is None
        ):
            found.append("the end of the stream, before that of the match")
        sequence, table = listened.resume_after, None
        for number, (at, message) in enumerate(listened.messages):
            begins = number == 0
            sequence, table, wrong = self._message(listened, at, message, sequence, table, begins=begins)
            found += wrong
        return found

    def _message(
        self,
        listened: Listened,
        at: int,
        message: pb.WatchResponse,
        sequence: int,
        table: TableState | None,
        *,
        begins: bool,
    ) -> tuple[int, TableState | None, list[str]]:
        """One message: the sequence number and table after it, and what is wrong."""
        course = self.course
        window = course.window(listened.known if begins else 0, at)
        newest = course.stages[window[-1]].sequence if window else 0
        found: list[str] = []
        if message.HasField("snapshot"):
            if not begins:
                found.append("a snapshot in the middle of a stream")
            elif 0 < sequence <= newest and all(
                sequence <= course.stages[each].sequence < sequence + KEPT for each in window
            ):
                found.append(f"a snapshot instead of the events after {sequence}")
            sequence, table = message.snapshot.sequence, wire.table_from_pb(message.snapshot, 0.0)
            if sequence not in [course.stages[each].sequence for each in window]:
                found.append(f"a snapshot of {sequence}, which it cannot have been")
            found += self._deal(message.snapshot)
        elif begins and sequence == 0 and not message.HasField("heartbeat"):
            found.append("a stream that begins without a snapshot")
        for event in message.events:
            sequence += 1
            if sequence > len(course.events):
                return sequence, None, [*found, "more events than there are"]
            found += self._event(event, sequence, newest)
            if table is not None and event.sequence == sequence:
                table = wire.evolve(table, event)
        if message.HasField("prompt") and table is not None:
            table = replace(table, prompt=wire.prompt_from_pb(message.prompt, 0.0))
        numbered = [message.prompt.sequence] if message.HasField("prompt") else []
        numbered += [message.heartbeat.sequence] if message.HasField("heartbeat") else []
        found += [f"numbered {told} after event {sequence}" for told in numbered if told != sequence]
        if table is not None and 0 <= sequence < len(course.states) and not message.HasField("heartbeat"):
            right = seen(course.states[sequence], self.seat, device=self.device)
            if not message.HasField("prompt") and not message.HasField("snapshot"):
                right = {name: right[name] for name in right if name not in ("decision", "legal", "resign")}
            found += [f"at {sequence}: {each}" for each in differences(shown(table), right)]
        return sequence, table, found

    def _deal(self, snapshot: pb.Snapshot) -> list[str]:
        """What a snapshot says of the next deal."""
        announced, given = self._announced[snapshot.sequence]
        found = []
        if announced not in (None, snapshot.table.next_commitment):
            found.append(f"the next seed is announced as {snapshot.table.next_commitment}, not {announced}")
        shown = snapshot.table.contributions
        pressed = bool(self.course.states[snapshot.sequence].pressed)
        if (shown.north, shown.south) != (tuple(given) if pressed else (b"", b"")):
            found.append(f"contributions are shown as {shown}, not {given}")
        return found

    def _event(self, event: event_pb2.MatchEvent, sequence: int, newest: int) -> list[str]:
        course = self.course
        if event.sequence != sequence:
            return [f"event {event.sequence} instead of {sequence}"]
        if sequence > newest:
            return [f"event {sequence} before anybody asked for it"]
        true, state = course.events[sequence - 1], course.states[sequence]
        told = redact_for_device(true) if self.device else redact(true, self.seat, course.states[0].mode)
        rights = [event_to_pb(sequence, told, state, course.credited_ns[sequence - 1])]
        if self.device:
            # Of a turn that is over, a device that comes back is told without its tiles.
            hidden = redact(true, None, course.states[0].mode)
            rights.append(event_to_pb(sequence, hidden, state, course.credited_ns[sequence - 1]))
        return [] if event in rights else [f"event {sequence} is told as {event}, not {rights[0]}"]


def _newest(message: pb.WatchResponse) -> int:
    """The highest sequence number that a message names."""
    numbers = [message.snapshot.sequence, message.prompt.sequence, message.heartbeat.sequence]
    return max(numbers + [event.sequence for event in message.events])


def look(player_id: str, known: int, at: int, snapshot: pb.Snapshot) -> Listened:
    """One look at the table (GetMatch) as a stream of one message."""
    return Listened(player_id, 0, known, [(at, pb.WatchResponse(snapshot=snapshot))])
