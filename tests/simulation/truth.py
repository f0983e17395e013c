"""What is true about a run, known from outside, and whether what the services decided fits it.

The names I1 to I23 are those of the invariants of the time model; `docs/time.md` and the tests use the same.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from engine import clock
from engine.clock import MILLISECOND, SECOND
from engine.event import MatchEnded
from engine.eventjson import event_from_json
from engine.match import Cause, evolve
from engine.seats import SEATS
from engine.tiles import ALL_TILES, tile_set
from services.clock.explanation import explain
from services.clock.timekeeper import Said
from services.game.asked import Answer
from services.game.livetime import SLACK_NS
from services.game.room import Room
from services.game.story import Answered, Story
from services.storage.evidence import get_time_facts
from services.storage.matches import get_log
from services.storage.script import first_state
from services.wire import clock_messages as m
from spectacularbid.match.v1 import match_service_pb2 as pb
from tests.simulation.connections import Reader, at_once
from tests.simulation.database import Database, Row
from tests.simulation.game import GameProcess, Heard
from tests.simulation.process import TICK_NS
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.player import Connection

RESOLUTION_NS: Final = TICK_NS + SLACK_NS
"""What a stamp may be off, and once more for each stall."""
BLINK_NS: Final = 50 * MILLISECOND
"""A stall that is not long enough for a gap belongs to the player who acts in it."""
_RETRY: Final = ("TRY_AGAIN", "LIMIT_REACHED", "MATCH_HELD", "REQUEST_ID_REUSED", "WRONG_ADDRESS")


@dataclass
class Opened:
    """A decision as a process opened it, and when that was in truth."""

    process: GameProcess
    opened: m.Open
    decision_id: int
    at: int
    true_mark: int
    stalls: int
    consumed_ns: int
    """As the clock said it at last."""
    bound_ns: int
    """The most that can have been used when this part began."""


class Truth:
    """Sees everything."""

    def __init__(self, world: World, database: Database, policy: m.Policy) -> None:
        self.world = world
        self.database = database
        self.policy = policy
        self.faultless = True
        """Nothing was done to anybody, so that stamps must be right in both directions."""
        self.severe = False
        """Something was done that may cost a match."""
        self._opened: dict[tuple[str, int, int], list[Opened]] = {}
        self._newest: dict[tuple[str, int], Opened] = {}
        self._timeouts: set[tuple[str, str, int]] = set()
        self._told: dict[tuple[str, str, int], Any] = {}
        self._checked: Counter[str] = Counter()
        self._last_told: dict[Connection, int] = {}
        self.on_read: list[Callable[[], None]] = []
        self.on_said: list[Callable[[], None]] = []
        self.on_timeout: list[Callable[[], None]] = []
        self.on_opened: list[Callable[[], None]] = []
        database.on_commit.append(self._committed)

    # What processes do.

    def watch(self, process: GameProcess) -> None:
        """Sees what a process opens."""
        open_ = process.clock.open

        def opening(opened: m.Open, listener: Any) -> None:
            self._opens(process, opened, listener)
            open_(opened, listener)

        process.clock.open = opening  # type: ignore[method-assign]

    def _opens(self, process: GameProcess, opened: m.Open, room: Room) -> None:
        key = opened.key
        turn = (key.match_id, key.decision_no)
        before = self._newest.get(turn)
        bound = opened.consumed_ns
        if before is not None and opened.cause is m.OpenCause.RESUME:
            bound = max(bound, before.bound_ns + self._listened(before))
        elif before is not None and opened.cause is m.OpenCause.CONTINUE:
            bound = before.bound_ns + self._listened(before)
        record = Opened(
            process,
            opened,
            room.story.state.decision_id,
            self.world.now,
            process.true_mark,
            process.stalls,
            opened.consumed_ns,
            bound,
        )
        self._opened.setdefault((key.match_id, key.fence, key.decision_no), []).append(record)
        self._newest[turn] = record
        stored = self.database.tables.log[key.match_id]
        if room.story.sequence > (stored[-1]["last_sequence"] if stored else 0):
            self.world.violate("I17", f"a decision was opened before {room.story.sequence} was stored")
        _tell(self.on_opened)

    def _listened(self, record: Opened) -> int:
        process = record.process
        until = process.mark_at_end if process.mark_at_end is not None else process.true_mark
        return max(0, until - record.true_mark) + self._slack(record.stalls, process.stalls)

    @staticmethod
    def _slack(stalls_before: int, stalls_after: int) -> int:
        return RESOLUTION_NS * (1 + stalls_after - stalls_before) + 2 * MILLISECOND

    # What clocks say.

    def said(self, clock_name: str, said: Said) -> None:
        """A clock has decided."""
        if any(isinstance(message, m.Verdict | m.Timeout | m.Armed | m.Probe) for _, message in said):
            _tell(self.on_said)
        for _, message in said:
            match message:
                case m.Armed():
                    self._armed(message)
                case m.Timeout():
                    self._timeout(clock_name, message)
                case m.Verdict():
                    # Another clock, or the next one at this address, could not know.
                    if (clock_name, message.key.match_id, message.key.decision_no) in self._timeouts:
                        self.world.violate("R21", f"{message.key} is in time after it was proven to be lost")
                case m.Mismatch() if not self.severe:
                    self.world.violate("R16", f"{message}")
                case m.Void():
                    self.world.count(f"void said {message.reason}")
                case _:
                    pass

    def _record(self, key: m.Key, deadline_ns: int | None = None) -> Opened | None:
        records = self._opened.get((key.match_id, key.fence, key.decision_no), [])
        for record in reversed(records):
            opened = record.opened
            deadline = clock.deadline(opened.start_ns, record.consumed_ns, opened.bank_ns, opened.delay_ns)
            if deadline_ns is None or deadline == deadline_ns:
                return record
        return None

    def _armed(self, armed: m.Armed) -> None:
        record = self._record(armed.key)
        if record is None:
            return
        opened = record.opened
        budget = opened.bank_ns + opened.delay_ns
        if (
            clock.deadline(opened.start_ns, armed.consumed_ns, opened.bank_ns, opened.delay_ns)
            != armed.deadline_ns
        ):
            return  # of an earlier part of the turn
        record.consumed_ns = armed.consumed_ns
        if opened.cause is m.OpenCause.RESUME:
            self.world.count("resumed")
            floor = min(m.Policy().resume_floor_ns, budget)
            if budget - armed.consumed_ns < floor:
                self.world.violate(
                    "I12", f"{armed.key} goes on with {budget - armed.consumed_ns} ns, not {floor}"
                )
        if armed.consumed_ns > record.bound_ns + RESOLUTION_NS:
            self.world.violate(
                "I12", f"{armed.key} goes on with {armed.consumed_ns} ns used, at most {record.bound_ns} were"
            )

    def _timeout(self, clock_name: str, timeout: m.Timeout) -> None:
        key = timeout.key
        _tell(self.on_timeout)
        again = (clock_name, key.match_id, key.decision_no) in self._timeouts
        self._timeouts.add((clock_name, key.match_id, key.decision_no))
        if timeout.proof_ns < timeout.deadline_ns:
            self.world.violate("I7", f"{key} timed out at {timeout.proof_ns}, before {timeout.deadline_ns}")
        record = self._record(key, timeout.deadline_ns)
        if record is None or again:
            return
        opened, process = record.opened, record.process
        budget = timeout.deadline_ns - opened.start_ns
        for heard in process.commands_heard:
            if (heard.match_id, heard.decision_id, heard.fence) != (
                key.match_id,
                record.decision_id,
                key.fence,
            ):
                continue
            if not heard.timed or not heard.legal or heard.command.seat is not opened.seat:
                continue
            took = heard.true_mark - record.true_mark
            if took + self._slack(record.stalls, heard.stalls) < budget:
                self.world.violate(
                    "I5", f"{key} timed out, but a legal command came {(budget - took) / SECOND:.6f} s before"
                )
                return

    # What players are told.

    def told(self, connection: Connection, response: pb.WatchResponse, story: Story) -> None:
        """News leave a process."""
        match_id = story.row.match_id
        log = self.database.tables.log[match_id]
        stored = log[-1]["last_sequence"] if log else 0
        if story.sequence > stored:
            self.world.violate("I17", f"{story.sequence} was told when {stored} was stored")
        audience = story.audience_of(connection.player_id)
        last = self._last_told.get(connection)
        for event in response.events:
            if last is not None and event.sequence != last + 1:
                self.world.violate("dense", f"event {event.sequence} was told after {last}")
            last = event.sequence
            self._told[match_id, audience, event.sequence] = event
        if response.HasField("snapshot"):
            last = response.snapshot.sequence
        if last is not None:
            self._last_told[connection] = last

    def answered(self, heard: Heard, answer: Answer) -> None:
        """An answer leaves a process."""
        row = self._stored(heard)
        if isinstance(answer, Answered):
            self.world.count("applied")
            if row is None:
                self.world.violate("I17", f"request {heard.request_id} was acknowledged and is not stored")
            elif (row["first_sequence"], row["last_sequence"]) != (
                answer.first_sequence,
                answer.last_sequence,
            ):
                self.world.violate("once", f"request {heard.request_id} was answered in two ways")
        else:
            self.world.count(f"refused {answer.reason}")
            if row is not None and answer.reason not in _RETRY:
                self.world.violate(
                    "once", f"request {heard.request_id} had its effect and was refused with {answer.reason}"
                )

    def _stored(self, heard: Heard) -> Row | None:
        for row in reversed(self.database.tables.log[heard.match_id]):
            if row["request_id"] == heard.request_id:
                return row
        return None

    # What is stored.

    def _committed(self) -> None:
        """Each row is looked at when it is committed."""
        for match_id, log in self.database.tables.log.items():
            for row in log[self._checked[match_id] :]:
                self._checked[match_id] += 1
                self._row(match_id, row)

    def _row(self, match_id: str, row: Row) -> None:
        if row["revision"] != self._checked[match_id]:
            self.world.violate(
                "dense", f"revision {row['revision']} is stored as number {self._checked[match_id]}"
            )
        owner = self.database.tables.owner[match_id]
        if row["fence"] != owner["fence"]:
            self.world.violate("I16", f"fence {row['fence']} wrote when {owner['fence']} owned")
        if row["start_ns"] is not None:
            self._charged(match_id, row)

    def _charged(self, match_id: str, row: Row) -> None:
        records = self._opened.get((match_id, row["fence"], row["turn"]), [])
        record = next((each for each in records if each.opened.start_ns == row["start_ns"]), None)
        if record is None:
            self.world.violate("I3", f"ruling {row['revision']} was charged from a start that nobody opened")
            return
        copies = [
            heard
            for heard in record.process.commands_heard
            if heard.request_id == row["request_id"] and heard.fence == row["fence"]
        ]
        if not copies:
            self.world.violate("I3", f"ruling {row['revision']} rests on a command that nobody sent")
            return
        first = min(copies, key=lambda heard: heard.reached_at)
        took = max(0, first.true_mark - record.true_mark)
        charged = row["elapsed_ns"] - row["carried_ns"]
        if charged > took + self._slack(record.stalls, first.stalls):
            self.world.violate(
                "I3",
                f"{charged} ns were counted of ruling {row['revision']}, the player was heard after {took}",
            )
        if self.faultless and charged < took - RESOLUTION_NS:
            self.world.violate("I6", f"{charged} ns were counted of ruling {row['revision']}, it took {took}")
        self.world.count("verdicts")

    # At the end.

    def finish(self, match_ids: list[str]) -> None:
        """Looks at everything that is stored."""
        for match_id in match_ids:
            self._match(match_id)

    def _match(self, match_id: str) -> None:
        world, tables = self.world, self.database.tables
        outcome = tables.outcome.get(match_id)
        if outcome is None:
            world.violate("I21", f"the match has no outcome; its owner is {tables.owner[match_id]}")
            return
        world.count(f"ended by {outcome['cause']}")
        if outcome["cause"] == Cause.VOID:
            world.count(f"void {outcome['detail']}")
            if not self.severe:
                world.violate("void", f"void without cause: {outcome['detail']} {self._evidence(outcome)}")
        row = tables.match[match_id]
        state, sequence, requests = first_state(row), 0, set()
        credited = 0
        for entry in tables.log[match_id]:
            if entry["first_sequence"] != sequence + 1:
                world.violate("dense", f"sequence {entry['first_sequence']} follows {sequence}")
            if state.outcome is not None:
                world.violate("I4", f"ruling {entry['revision']} comes after the outcome")
            if entry["request_id"] is not None and entry["request_id"] in requests:
                world.violate("once", f"request {entry['request_id']} had two effects")
            requests.add(entry["request_id"])
            banks = state.banks
            for event in map(event_from_json, json.loads(entry["events"])):
                state = evolve(state, event)
                sequence += 1
                if isinstance(event, MatchEnded) and state.outcome is None:
                    world.violate("I4", "an end without outcome")
            if sequence != entry["last_sequence"]:
                world.violate("dense", f"sequence {entry['last_sequence']} is stored for {sequence}")
            if any(not 0 <= state.banks[seat] <= banks[seat] for seat in SEATS):
                world.violate("I1", f"ruling {entry['revision']} turned banks {banks} into {state.banks}")
            self._pieces(state)
            credited += entry["credited_ns"] or 0
        if credited > m.Policy().credit_total_max_ns and outcome["cause"] != Cause.VOID:
            world.violate("I13", f"{credited / SECOND:.3f} s were credited and the match is not void")
        for (incident_id, touched), touch in tables.touched.items():
            stall = touched == match_id and tables.incident[incident_id]["kind"] == "stall"
            if stall and touch["credited_ns"] > m.Policy().gap_max_ns and outcome["cause"] != Cause.VOID:
                world.violate("I13", f"{touch['credited_ns'] / SECOND:.3f} s were credited at once")
        world.count("credited ms", credited // MILLISECOND)
        told = state.outcome
        if told is None or (told.winner, told.cause) != (outcome["winner"], outcome["cause"]):
            world.violate("I4", f"the outcome row says {outcome['winner']}, the log {told}")
        self._retold(match_id)
        self._explained(match_id)

    def _pieces(self, state: Any) -> None:
        balances = state.balances
        if balances.north + balances.south != 300 or min(balances) < 0:
            self.world.violate("points", f"{balances} points")
        if state.round_no:
            table = tile_set(placement.tile for placement in state.layout.placements)
            piles = (state.north_hand, state.south_hand, tile_set(state.boneyard), table)
            if sum(piles) != ALL_TILES:
                self.world.violate("tiles", "28 tiles, each once, are not there")

    def _evidence(self, outcome: Row) -> object:
        evidence = self.database.tables.evidence.get(str(outcome["evidence_id"]))
        return None if evidence is None else evidence["detail"]

    def _retold(self, match_id: str) -> None:
        row = self.database.tables.match[match_id]
        story = Story.from_log(row, at_once(get_log(Reader(self.database), match_id)))  # type: ignore[arg-type]
        for (told_match, audience, sequence), event in self._told.items():
            if told_match != match_id:
                continue
            stored = story._told[audience]  # type: ignore[index]
            if sequence > len(stored) or stored[sequence - 1] != event:
                self.world.violate(
                    "I17", f"event {sequence} was told to {audience} and is not what is stored"
                )
                return

    def _explained(self, match_id: str) -> None:
        facts = at_once(get_time_facts(Reader(self.database), match_id))  # type: ignore[arg-type]
        assert facts is not None
        made = explain(facts, first_state(self.database.tables.match[match_id]))
        for fault in made.faults:
            self.world.violate("I23", f"not reproduced: {fault}")


def _tell(told: list[Callable[[], None]]) -> None:
    for each in list(told):
        each()
