"""What is true about a run, known from outside, and whether what game processes do and store fits it.

The names I1 to I23 are those of the invariants of the time model; `docs/time.md` and the tests use the same. What
clocks say is looked at in `verdicts`, what is left at the end in `records`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from engine.clock import SECOND
from engine.command import Start
from engine.match import Cause
from engine.seats import Seat
from services.game.answers import Answered
from services.game.course import Answer
from services.game.room import Room
from services.game.story import Story
from services.wire import clock_messages as m
from spectacularbid.match.v1 import match_service_pb2 as pb
from tests.simulation.database import WALL, Database, Row
from tests.simulation.enginewatch import EngineWatch
from tests.simulation.game import GameProcess, Heard
from tests.simulation.opened import RESOLUTION_NS, Opened, Openings, slack
from tests.simulation.process import THRESHOLD_NS
from tests.simulation.records import Records
from tests.simulation.verdicts import Verdicts, tell
from tests.simulation.world import EPOCH, World

if TYPE_CHECKING:
    from tests.simulation.player import Connection

_RETRY: Final = ("TRY_AGAIN", "LIMIT_REACHED", "MATCH_HELD", "REQUEST_ID_REUSED", "WRONG_ADDRESS")


class Truth:
    """Sees everything."""

    def __init__(self, world: World, database: Database) -> None:
        self.world = world
        self.database = database
        self.faultless = True
        """Nothing was done to anybody, so that stamps must be right in both directions."""
        self.openings = Openings()
        self.verdicts = Verdicts(world, self.openings)
        self.records = Records(world, database)
        self._checked: Counter[str] = Counter()
        self._last_told: dict[Connection, int] = {}
        self._banks: dict[tuple[str, Seat], int] = {}
        self.on_read: list[Callable[[], None]] = []
        self.on_opened: list[Callable[[], None]] = []
        database.on_commit.append(self._committed)

    @property
    def severe(self) -> bool:
        """Whether something was done that may cost a match."""
        return self.verdicts.severe

    @severe.setter
    def severe(self, severe: bool) -> None:
        self.verdicts.severe = self.records.severe = severe

    # What processes do.

    def watch(self, process: GameProcess) -> EngineWatch:
        """Sees what a process opens."""
        open_ = process.clock.open

        def opening(opened: m.Open, listener: Any) -> None:
            self._opens(process, opened, listener)
            open_(opened, listener)

        process.clock.open = opening  # type: ignore[method-assign]
        self.verdicts.processes.append(process)
        return EngineWatch(self.world, process)

    def _opens(self, process: GameProcess, opened: m.Open, room: Room) -> None:
        key = opened.key
        state = room.story.state
        stored = self.database.tables.log[key.match_id]
        asked_at = stored[-1]["true_at"] if stored else EPOCH
        self.openings.add(process, opened, state.decision_id, self.world.now, asked_at)
        if room.story.sequence > (stored[-1]["last_sequence"] if stored else 0):
            self.world.violate("I17", f"a decision was opened before {room.story.sequence} was stored")
        if state.awaiting_reveal is not None or state.to_act is not opened.seat:
            self.world.violate("R10", f"{key} was opened for {opened.seat}, who cannot act in it yet")
        if self.database.tables.owner[key.match_id]["fence"] == key.fence:
            self._goes_on(opened)
        tell(self.on_opened)

    def _goes_on(self, opened: m.Open) -> None:
        """I19: a bank is what its last turn left. I20: what a draw has used stays used."""
        key = opened.key
        match = self.database.tables.match[key.match_id]
        bank = self._banks.get((key.match_id, opened.seat), match.bank_ns)
        self.world.count("checked I19")
        if (opened.bank_ns, opened.delay_ns) != (bank, match.delay_ns):
            self.world.violate("I19", f"{key} opens with a bank of {opened.bank_ns} ns, {bank} were left")
        turn = [row for row in self.database.tables.log[key.match_id] if row["turn"] == key.decision_no]
        used = turn[-1]["consumed_ns"] if turn else 0
        if opened.consumed_ns != used and (
            opened.cause is not m.OpenCause.RESUME or opened.consumed_ns > used
        ):
            self.world.violate("I20", f"{key} opens with {opened.consumed_ns} ns used, {used} were")

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
            self.records.told[match_id, audience, event.sequence] = event
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
            self._banks[match_id, Seat(row["seat"])] = row["bank_after_ns"]

    def _charged(self, match_id: str, row: Row) -> None:
        record = self.openings.part(m.Key(match_id, row["fence"], row["turn"]), row["start_ns"])
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
        if charged > took + slack(record.stalls, first.stalls):
            self.world.violate(
                "I3",
                f"{charged} ns were counted of ruling {row['revision']}, the player was heard after {took}",
            )
        if row["charge_ns"] > max(0, row["elapsed_ns"] - record.opened.delay_ns):
            self.world.violate("I3", f"ruling {row['revision']} is charged {row['charge_ns']} ns")
        if self.faultless and charged < took - RESOLUTION_NS:
            self.world.violate("I6", f"{charged} ns were counted of ruling {row['revision']}, it took {took}")
        self.world.count("verdicts")
        self._credited(record, row)

    def _credited(self, record: Opened, row: Row) -> None:
        """I14: only what was done to a process is credited, nothing that a client did."""
        process = record.process
        stalls = 1 + process.stalls - record.stalls
        most = process.true_gap - record.true_gap + stalls * (THRESHOLD_NS + RESOLUTION_NS)
        self.world.count("checked I14")
        if (row["credited_ns"] or 0) > most + record.credit_bound_ns:
            self.world.violate(
                "I14",
                f"{row['credited_ns']} ns were credited to ruling {row['revision']}, {most} were lost in it"
                f" and {record.credit_bound_ns} before it",
            )

    # At the end.

    def finish(self, match_ids: list[str]) -> None:
        """Looks at everything that is stored."""
        for match_id in match_ids:
            self.records.look(match_id)
            outcome = self.database.tables.outcome.get(match_id)
            if outcome is not None and outcome["cause"] == Cause.CANCELLED:
                self._cancelled(match_id, outcome)

    def _cancelled(self, match_id: str, outcome: Row) -> None:
        """Who is said not to have pressed Start has not pressed it in time, as far as the last owner could hear."""
        match = self.database.tables.match[match_id]
        created_at = EPOCH + (match.created_at - WALL) // timedelta(microseconds=1) * 1000
        for process in self.verdicts.processes:
            for heard in process.commands_heard:
                if (heard.match_id, heard.fence) != (match_id, outcome["fence"]):
                    continue
                if (
                    not isinstance(heard.command, Start)
                    or heard.command.seat not in outcome["detail"].split()
                ):
                    continue
                early = created_at + match.start_limit_ns - heard.reached_at
                if early > RESOLUTION_NS:
                    self.world.violate(
                        "limit",
                        f"{match_id} is cancelled, {heard.command} came {early / SECOND:.3f} s before",
                    )
