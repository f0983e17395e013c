"""A room: one live match, and the only writer of its log.

One coroutine with a bounded inbox, so there are no locks. The order of every command is: repeated? which question? legal?
then the clock's verdict, then the commit, then the news, and only then the next decision opens. Whatever waits for
the verdict, the disk or the readers is therefore nobody's time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from engine import clock
from engine.command import Draw, Resign, Start
from engine.event import Event, TileDrawn, TurnTimed
from engine.eventjson import events_to_text
from engine.match import Phase, cancel, expire, void
from engine.refusal import Refusal
from engine.seats import Seat
from services.common import tracing
from services.common.errors import ServiceError, busy, limit_reached, try_again
from services.common.logs import get_logger
from services.game import limits
from services.game.answers import Answered
from services.game.asked import Asked, held_error, parting, repeated, rule
from services.game.course import Answer
from services.game.deals import with_deal
from services.game.decision import OpenDecision, touched_by
from services.game.departure import Departure
from services.game.endings import ending_of, log_end
from services.game.hearing import Ended, Hearing
from services.game.inbox import Declared, LogLost, Message, Probed
from services.game.listeners import Waking
from services.game.metrics import Stage
from services.game.resumption import RESUME_GRACE_SECONDS, Resumed
from services.game.shell import Shell
from services.game.steps import pause
from services.game.story import Audience, Story
from services.storage.endings import Evidence
from services.storage.entry import Entry, Judged
from services.storage.incidents import Effect, Incident, Kind, Touched
from services.storage.invitations import Seated
from services.storage.journal import FencedError
from services.storage.mending import LogLostError
from services.storage.pool import TRANSIENT
from services.storage.script import Script
from services.wire.clock_messages import (
    Arrival,
    Key,
    Mismatch,
    OpenCause,
    Stale,
    Timeout,
    Verdict,
    Void,
)
from services.wire.commands import refusal_error
from services.wire.tables import Left


class Room(Hearing):
    """One live match in this process."""

    def __init__(self, story: Story, fence: int, shell: Shell, resumed: Resumed | None = None) -> None:
        super().__init__(shell)
        self.story = story
        self.fence = fence
        self.departure = Departure()
        self.closed = False
        """No news will come any more: the match is over, or this process does not own it any more."""
        self.held = False
        """A fault of ours stopped the match at its last stored revision."""
        self.lost: str | None = None
        """Why its log in the database cannot be made whole; it is to be void at what is left of it."""
        self._script = Script.load(story.row.script)
        self._limit = limits.Limit(shell.livetime)
        self._answering: Asked | None = None
        self._late_ns: int | None = None
        self._resumed = resumed
        self._log = get_logger().bind(match_id=story.row.match_id, fence=fence)

    # What others call; nothing of it waits.

    def ask(self, asked: Asked) -> None:
        """Puts a command in line. Raises ServiceError when the line is full or the match is not played here."""
        if self.held:
            raise held_error()
        if (self.closed or self.departure.begun) and not self.story.over:
            raise try_again("the match is moving to another process")
        if self._inbox.full(asked.command.seat):
            raise limit_reached("too many commands of this seat are waiting", 0.2)
        self._post(asked)

    def listen(self, wake: Waking, audience: Audience) -> None:
        """Sets `wake` with all news until `listeners.remove`."""
        self.listeners.add(wake, audience)
        # The player to act may be back.
        self._steps.go()

    def leave(self) -> None:
        """Stops at the next boundary between commands, so that another process can go on. Streams stay until `part`."""
        self.departure.begin()
        self._steps.go()

    def part(self, successor: str = "") -> None:
        """Ends the streams of a match that is not played here any more, naming who plays it if that is known."""
        self.departure.successor = successor
        self.closed = True
        self.listeners.announce()

    def left(self) -> Left | None:
        """What the running decision has left now; None while no clock runs."""
        return None if self._decision is None else self._decision.left(self._shell.livetime)

    @property
    def turn_ns(self) -> int | None:
        """How much of its time the running turn has used by now, in nanoseconds; None while no clock runs."""
        decision = self._decision
        if decision is None:
            return None
        return decision.consumed_ns + self._shell.livetime.mark() - decision.opened.start_ns

    # What runs the match.

    async def run(self) -> None:
        """Plays the match to its end, or until this process loses it or stops."""
        await self._steps.run(self._run())

    async def _run(self) -> None:
        try:
            await self._wait_for_the_decider()
            resumes = self.story.revision or self._resumed is not None
            self._open_decision(OpenCause.RESUME if resumes else OpenCause.NEW)
            if self.story.state.phase is Phase.AWAITING_DEAL:
                # An earlier process did not get to it.
                await self._commit(with_deal(self.story, (), self._script))
            while not self.story.over:
                message = await self._next()
                if isinstance(message, Asked):
                    await self._take(message)
                elif message is not None:
                    tracing.enter(None)
                    await self._handle(message)
                elif self.departure.begun:
                    self.departure.cleanly = True
                    return
                else:
                    await self._commit(with_deal(self.story, limits.reached(self.story.state), self._script))
        except FencedError:
            self._log.warning("fenced")
        except LogLostError as error:
            self.held, self.lost = True, error.why
            self._log.error("log_lost", revision=self.story.revision, why=error.why)
        except asyncio.CancelledError:
            raise
        except Exception:  # noqa: BLE001 - whatever it was
            # A bug never decides a match: it stays at its last stored revision.
            self.held = True
            self._shell.metrics.held.inc()
            self._log.exception("room_held", revision=self.story.revision)
        finally:
            self._leave()

    async def give_up(self) -> None:
        """Voids a held match, since nobody will go on with it: no earlier than a match may be held."""
        await asyncio.sleep(self._shell.policy.hold_max_ns / clock.SECOND)
        try:
            await self._steps.run(self._void("internal_fault", None, {"revision": self.story.revision}))
        except Exception:  # noqa: BLE001 - the same fault again: operators have the log
            self._log.exception("room_not_voided", revision=self.story.revision)
        else:
            self.held = False
            self._leave()

    async def void_lost(self, why: str, told: int) -> None:
        """Voids a match of which the database has lost rulings, at what is left of its log; `told` revisions were told."""
        detail: dict[str, object] = {"summary": why, "revision": self.story.revision, "told_revision": told}
        incident = self._shell.gaps.log_lost(self.story.row.match_id, why)
        await self._steps.run(self._void("log_lost", None, detail, touched=(Touched(incident, Effect.VOID),)))
        self.held = False
        self._leave()

    def _leave(self) -> None:
        match_id, outcome = self.story.row.match_id, self.story.state.outcome
        if outcome is not None:
            self._shell.clock.close(match_id, self.fence, outcome.cause)
            log_end(self._log, outcome, self._late_ns)
        elif self.departure.begun:
            self._shell.clock.release(match_id, self.fence, self._shell.livetime.mark())
        elif not self.held:
            # What is heard from now on is not heard for this match.
            self._shell.clock.close(match_id, self.fence, "not played here")
        # Whoever still waits, the one in the middle of it included, is told where the match stands now.
        for asked in (self._answering, *self._inbox.drain()):
            if asked is not None:
                asked.settle(parting(self.story, asked, held=self.held))
        if not self.departure.cleanly:
            self.closed = True
        self.listeners.announce()

    async def _wait_for_the_decider(self) -> None:
        """After an outage the clock goes on when the player to act is back, or has had time to come back."""
        state = self.story.state
        if self._resumed is None or state.to_act is None:
            return
        decider = self.story.audience_at(state.to_act)
        until = asyncio.get_running_loop().time() + RESUME_GRACE_SECONDS
        while not (self.listeners.present(decider) or self._inbox or self.departure.begun):
            if not await self._steps.change(until):
                return

    async def _next(self) -> Message | None:
        """The next message; None when leaving, or when the start or continue limit is reached first (rule 7.2)."""
        while not self._inbox:
            if self.departure.begun:
                return None
            if self._limit.at is None:
                await pause
            elif not await self._steps.change(self._limit.at) and self._limit.over() and not self._inbox:
                return None
        return self._inbox.pop()

    async def _handle(self, message: Probed | Ended) -> None:
        """What is heard of the match from anybody but its players."""
        match message:
            case Probed():
                probe = message.probe
                if self._current(probe.key):
                    self._shell.clock.probe_reply(probe.key, probe.probe_no, message.watermark_ns)
            case Timeout():
                if self._current(message.key):
                    await self._forfeit(message)
            case Void():
                await self._void(message.reason, message.evidence_id, {"summary": message.summary})
            case Declared():
                await self._void_by_operator(message.incident)
            case Stale():
                raise FencedError(self.story.row.match_id)
            case LogLost():
                raise LogLostError(self.story.row.match_id, message.why)
            case Mismatch():
                await self._mismatch(message)

    # Commands.

    async def _take(self, asked: Asked) -> None:
        """A command."""
        tracing.enter(asked.course.trace)
        self._answering = asked
        asked.course.reached(Stage.QUEUE)
        answer: Answer | None
        ruling = self._ruling(asked)
        if not isinstance(ruling, tuple):
            answer = ruling
        elif asked.untimed:
            answer = await self._carry_out_untimed(asked, ruling)
        else:
            answer = await self._carry_out(asked, ruling)
        if answer is not None:
            asked.settle(answer)
        self._answering = None

    def _ruling(self, asked: Asked) -> tuple[Event, ...] | Answer:
        """The events of a command; its answer, if it has no effect or had it before."""
        story = self.story
        before = repeated(story, asked)
        if before is not None:
            return before
        ruling = rule(story.state, asked)
        if ruling is Refusal.NOT_STARTED and isinstance(asked.command, Resign) and story.row.asked_for:
            # Nobody is held to a match that one of the two has made: whoever leaves before it begins cancels it.
            ruling = cancel(story.state, (asked.command.seat,))
        if isinstance(ruling, tuple):
            return ruling
        self._shell.metrics.refusals.labels(ruling.value).inc()
        return refusal_error(ruling)

    async def _carry_out_untimed(self, asked: Asked, ruling: tuple[Event, ...]) -> ServiceError | None:
        """A command that takes no turn; why it has no effect, if it has none."""
        if isinstance(asked.command, Start) and (refused := await self._take_seat(asked)) is not None:
            return refused
        await self._commit(with_deal(self.story, ruling, self._script), asked=asked)
        return None

    async def _take_seat(self, asked: Asked) -> ServiceError | None:
        """Who was invited accepts by pressing Start; why that cannot be, if it cannot."""
        row = self.story.row
        player = row.north if asked.command.seat is Seat.NORTH else row.south
        if not row.takes_seat(player):
            return None
        try:
            taking = self._shell.journal.seat(row.match_id, self.fence, player.player_id)
            seated = await asyncio.ensure_future(taking)
        except TRANSIENT:
            return try_again("the seat could not be taken now")
        return None if isinstance(seated, Seated) else busy(seated.match_id)

    async def _carry_out(self, asked: Asked, ruling: tuple[Event, ...]) -> ServiceError | None:
        """A command that takes a turn, once the clock has judged it; why it has no effect, if it has none."""
        decision = self._decision
        assert decision is not None, "a timed command answers an open decision"
        effect = clock.Effect.CONTINUES if isinstance(asked.command, Draw) else clock.Effect.ENDS
        arrival = decision.arrival(asked, effect)
        judgement = await self._judge(arrival)
        if not isinstance(judgement, Verdict):
            return await self._without_verdict(judgement, arrival)
        asked.course.judged(judgement)
        cost = decision.cost(arrival)
        told = (judgement.elapsed_ns, judgement.consumed_ns, judgement.charge_ns, judgement.bank_after_ns)
        if told != cost:
            # A verdict is a pure function of its stamps: two results mean that one of us is broken.
            self._shell.metrics.mismatches.inc()
            await self._void("verdict_mismatch", None, {"told": told, "expected": cost}, arrival)
            return refusal_error(Refusal.MATCH_OVER)
        timed = TurnTimed(decision.opened.seat, decision.key.decision_no, *cost)
        judged = decision.judged(arrival, cost, judgement, self._shell)
        await self._commit((timed, *ruling), asked=asked, judged=judged)
        return None

    async def _without_verdict(self, judgement: Ended | None, arrival: Arrival) -> ServiceError:
        """What ends the match while a command waits to be judged; None when nothing is said for too long."""
        if isinstance(judgement, Timeout):
            await self._forfeit(judgement, arrival)
            return refusal_error(Refusal.CLOCK_EXPIRED)
        if judgement is None:
            await self._void("clock_unreachable", None, {"hold_ns": self._shell.policy.hold_max_ns})
        else:
            await self._handle(judgement)
        return refusal_error(Refusal.MATCH_OVER)

    async def _commit(
        self,
        events: Sequence[Event],
        *,
        asked: Asked | None = None,
        judged: Judged | None = None,
        evidence: Evidence | None = None,
        touched: tuple[Touched, ...] = (),
    ) -> None:
        """Durable first: nobody may hear of an event that a crash could take back."""
        story, answered = self.story, None
        entry = Entry(
            match_id=story.row.match_id,
            revision=story.revision + 1,
            first_sequence=story.sequence + 1,
            last_sequence=story.sequence + len(events),
            fence=self.fence,
            events=events_to_text(events),
            seat=None if asked is None else asked.command.seat,
            request_id=None if asked is None else asked.request_id,
            request_hash=None if asked is None else asked.payload,
            judged=judged,
            ending=ending_of(story, events, evidence),
            touched=touched + touched_by(self._decision, asked, judged, events, self._shell),
        )
        await self._shell.journal.append(entry)
        self._shell.tally.stored(entry, rated=story.row.rated)
        # Whoever cannot prove to be the owner opens and publishes nothing.
        if not self._shell.lease.fresh:
            await asyncio.ensure_future(self._shell.lease.until_fresh())
        if asked is not None:
            asked.course.reached(Stage.COMMIT)
            answered = Answered(asked.payload, entry.first_sequence, entry.last_sequence)
            story.answers.put(story.asked_as(asked.command.seat, asked.request_id), answered)
            if judged is not None and self._decision is not None:
                self._shell.clock.applied(self._decision.key, asked.request_id, entry.last_sequence)
        continues = isinstance(events[-1], TileDrawn)
        story.revision += 1
        story.tell(events, credited_ns=0 if judged is None else judged.credited_ns or 0)
        if not continues and not self._inbox and self.departure.begins_between_turns():
            self._decision = None  # the next owner opens it
        else:
            self._open_decision(OpenCause.CONTINUE if continues else OpenCause.NEW)
        if asked is not None and answered is not None:
            asked.tell(answered)
        to_act = story.state.to_act
        self.listeners.announce(None if to_act is None else story.audience_at(to_act))
        if asked is not None and answered is not None:
            asked.course.published(story.revision)
            asked.settle(answered)

    # Decisions and limits.

    def _open_decision(self, cause: OpenCause) -> None:
        """Opens what the state asks. Called after the commit and immediately before the news is told."""
        story = self.story
        state = story.state
        self._decision = None
        resumed = self._resumed if cause is OpenCause.RESUME else None
        limit_ns = limits.limit_ns(story.row, state)
        if limit_ns is None:
            self._limit.stop()
        elif self._limit.at is None or not state.pressed:
            if resumed is not None:
                limit_ns = limits.left_ns(limit_ns, resumed.waited_ns)
            self._limit.start(limit_ns)
        if state.to_act is not None:
            key = Key(story.row.match_id, self.fence, state.turn)
            now = self._shell.livetime.starting()
            self._decision = OpenDecision.begin(
                state, key, cause, now, credited_total_ns=story.credited_ns, resumed=resumed
            )
            self._shell.clock.open(self._decision.opened, self)

    # Ends that nobody asked for.

    async def _forfeit(self, proven: Timeout, arrival: Arrival | None = None) -> None:
        """Rule 6.7, with the proof stored before the outcome."""
        decision = self._decision
        assert decision is not None, "only an open decision times out"
        evidence = decision.proof(proven, arrival, self._shell)
        await self._commit(expire(self.story.state), evidence=evidence)
        self._late_ns = decision.late_ns(proven, self._shell.livetime)
        if self._late_ns is not None:
            self._shell.metrics.lateness.observe(self._late_ns / clock.SECOND)

    async def _void(
        self,
        reason: str,
        evidence_id: str | None,
        detail: dict[str, object],
        arrival: Arrival | None = None,
        touched: tuple[Touched, ...] = (),
    ) -> None:
        """Rule 6.8. Never decides for a player."""
        if self.story.over:
            return
        facts = {} if self._decision is None else self._decision.facts(arrival)
        evidence = self._shell.evidence("void", evidence_id, {"reason": reason, **facts, **detail})
        await self._commit(void(self.story.state, reason), evidence=evidence, touched=touched)

    async def _void_by_operator(self, incident: Incident) -> None:
        """Declared by a person, or by a process that has told more of the match than this one could read."""
        detail: dict[str, object] = {
            "incident_id": incident.incident_id,
            "summary": f"{incident.noticed_by}: {incident.reason}",
        }
        touched = (Touched(incident, Effect.VOID),)
        if incident.kind is Kind.LOG_LOST:
            await self._void("log_lost", None, detail, touched=touched)
        else:
            await self._void("operator", None, detail, touched=touched)

    async def _mismatch(self, mismatch: Mismatch) -> None:
        self._shell.metrics.mismatches.inc()
        said = {"field": mismatch.field, "expected": mismatch.expected, "got": mismatch.got}
        await self._void("verdict_mismatch", None, {**said})
