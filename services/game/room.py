"""A room: one live match, and the only writer of its log.

One task with a bounded inbox, so there are no locks. The order of every command is: repeated? which question? legal?
then the clock's verdict, then the commit, then the news, and only then the next decision opens. Whatever waits for
the verdict, the disk or the readers is therefore nobody's time.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from engine import clock
from engine.command import Draw
from engine.event import Event, TileDrawn, TurnTimed
from engine.eventjson import event_to_json
from engine.match import Phase, deal_round, evolve, expire, void
from engine.refusal import Refusal
from services.common.errors import limit_reached, try_again
from services.common.logs import get_logger
from services.game import limits, shuffle
from services.game.asked import Answer, Asked, held_error, parting, repeated, rule
from services.game.decision import OpenDecision
from services.game.endings import ending_of
from services.game.script import Script
from services.game.shell import Shell
from services.game.story import Answered, Story
from services.storage.journal import Entry, Evidence, FencedError, Judged
from services.wire.clock_messages import (
    Armed,
    Arrival,
    Key,
    Mismatch,
    OpenCause,
    Probe,
    Stale,
    Timeout,
    Verdict,
    Void,
)
from services.wire.commands import refusal_error

INBOX_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class Probed:
    """A probe, behind everything that was heard before it."""

    probe: Probe
    watermark_ns: int


Message = Asked | Probed | Timeout | Void | Stale | Mismatch


class Room:
    """One live match in this process."""

    def __init__(self, story: Story, fence: int, shell: Shell) -> None:
        self.story = story
        self.fence = fence
        self.closed = False
        """No news will come any more: the match is over, or this process does not own it any more."""
        self.held = False
        """A fault of ours stopped the match at its last stored revision."""
        self._shell = shell
        self._script = Script.load(story.row.script)
        self._inbox: deque[Message] = deque()
        self._wake = asyncio.Event()
        self._judgement: asyncio.Future[Verdict | Timeout | Void | Stale | Mismatch] | None = None
        self._decision: OpenDecision | None = None
        self._limit_at: float | None = None
        self._answering: Asked | None = None
        self._listeners: set[asyncio.Event] = set()
        self._log = get_logger().bind(match_id=story.row.match_id, fence=fence)
        self.news = 0
        """Grows with everything that listeners should look at."""

    # What others call; nothing of it waits.

    def ask(self, asked: Asked) -> None:
        """Puts a command in line. Raises ServiceError when the line is full or the match is not played here."""
        if self.held:
            raise held_error()
        if self.closed and not self.story.over:
            raise try_again("the match is moving to another process")
        if len(self._inbox) >= INBOX_MAX:
            raise limit_reached("too many commands of this match are waiting", 0.2)
        self._post(asked)

    def listen(self, wake: asyncio.Event) -> None:
        """Sets `wake` with all news until `unlisten`."""
        self._listeners.add(wake)

    def unlisten(self, wake: asyncio.Event) -> None:
        """Ends `listen`."""
        self._listeners.discard(wake)

    def remaining_ns(self) -> int | None:
        """What the running decision has left now, on the safe side; None while no clock runs."""
        if self._decision is None:
            return None
        return max(0, self._decision.deadline_ns - self._shell.livetime.soon())

    # What the clock says, in order; called on the loop.

    def on_armed(self, armed: Armed) -> None:
        """The clock counts from here; after a resume it may have granted time."""
        decision = self._decision
        if decision is not None and decision.key == armed.key and decision.armed(armed):
            self._announce()

    def on_verdict(self, verdict: Verdict) -> None:
        """A command is in time."""
        self._judged(verdict)

    def on_probe(self, probe: Probe, watermark_ns: int) -> None:
        """Behind everything already in line: then nothing heard before the watermark is left."""
        self._post(Probed(probe, watermark_ns))

    def on_timeout(self, timeout: Timeout) -> None:
        """The deadline passed, with proof."""
        self._judged(timeout)

    def on_void(self, void_: Void) -> None:
        """Time can no longer be judged."""
        self._judged(void_)

    def on_stale(self, stale: Stale) -> None:
        """A newer owner exists."""
        self._judged(stale)

    def on_mismatch(self, mismatch: Mismatch) -> None:
        """The clock contradicts us."""
        self._judged(mismatch)

    def _judged(self, message: Verdict | Timeout | Void | Stale | Mismatch) -> None:
        if self._judgement is not None and not self._judgement.done():
            if not isinstance(message, Verdict | Timeout | Mismatch) or self._current(message.key):
                self._judgement.set_result(message)
        elif not isinstance(message, Verdict):
            self._post(message)

    def _current(self, key: Key) -> bool:
        return self._decision is not None and key == self._decision.key

    def _post(self, message: Message) -> None:
        self._inbox.append(message)
        self._wake.set()

    # The task.

    async def run(self) -> None:
        """Plays the match to its end, or until this process loses it or stops."""
        self._shell.rooms_live.inc()
        try:
            self._open_decision(OpenCause.RESUME if self.fence > 1 else OpenCause.NEW)
            await self._settle_what_is_due()
            while not self.story.over:
                message = await self._next()
                if message is None:
                    await self._commit(self._with_what_follows(limits.reached(self.story.state)))
                else:
                    await self._handle(message)
        except FencedError:
            self._log.warning("fenced")
        except asyncio.CancelledError:
            raise
        except Exception:  # noqa: BLE001 - whatever it was
            # A bug never decides a match: it stays at its last stored revision.
            self.held = True
            self._shell.rooms_held.inc()
            self._log.exception("room_held", revision=self.story.revision)
        finally:
            self._shell.rooms_live.dec()
            self._leave()

    async def give_up(self) -> None:
        """Voids a held match, since nobody will go on with it: no earlier than a match may be held."""
        await asyncio.sleep(self._shell.policy.hold_max_ns / clock.SECOND)
        try:
            await self._void("internal_fault", None, {"revision": self.story.revision})
        except Exception:  # noqa: BLE001 - the same fault again: operators have the log
            self._log.exception("room_not_voided", revision=self.story.revision)
        else:
            self.held = False
            self._leave()

    def _leave(self) -> None:
        self.closed = True
        state = self.story.state
        if state.outcome is not None:
            self._shell.clock.close(self.story.row.match_id, self.fence, state.outcome.cause)
        # Whoever still waits, the one in the middle of it included, is told where the match stands now.
        for message in (self._answering, *self._inbox):
            if isinstance(message, Asked) and not message.answer.done():
                message.answer.set_result(parting(self.story, message, held=self.held))
        self._inbox.clear()
        self._announce()

    async def _next(self) -> Message | None:
        """The next message; None when the start or continue limit is reached first (rule 7.2)."""
        while not self._inbox:
            self._wake.clear()
            if self._limit_at is None:
                await self._wake.wait()
                continue
            try:
                async with asyncio.timeout_at(self._limit_at):
                    await self._wake.wait()
            except TimeoutError:
                return None
        return self._inbox.popleft()

    async def _handle(self, message: Message) -> None:
        match message:
            case Asked():
                self._answering = message
                answer = await self._answer(message)
                if not message.answer.done():
                    message.answer.set_result(answer)
                self._answering = None
            case Probed():
                if self._current(message.probe.key):
                    self._shell.clock.probe_reply(
                        message.probe.key, message.probe.probe_no, message.watermark_ns
                    )
            case Timeout():
                if self._current(message.key):
                    await self._forfeit(message)
            case Void():
                await self._void(message.reason, message.evidence_id, {"summary": message.summary})
            case Stale():
                raise FencedError(self.story.row.match_id)
            case Mismatch():
                await self._mismatch(message)

    # Commands.

    async def _answer(self, asked: Asked) -> Answer:
        before = repeated(self.story, asked)
        if before is not None:
            return before
        ruling = rule(self.story.state, asked)
        if isinstance(ruling, Refusal):
            self._shell.refusals.labels(ruling.value).inc()
            return refusal_error(ruling)
        if asked.untimed:
            return await self._carry_out(asked, ruling, None)
        return await self._carry_out_timed(asked, ruling)

    async def _carry_out_timed(self, asked: Asked, ruling: tuple[Event, ...]) -> Answer:
        decision = self._decision
        assert decision is not None, "a timed command answers an open decision"
        effect = clock.Effect.CONTINUES if isinstance(asked.command, Draw) else clock.Effect.ENDS
        arrival = decision.arrival(asked, effect)
        judgement = await self._judge(arrival)
        match judgement:
            case Verdict():
                pass
            case Timeout():
                await self._forfeit(judgement, arrival)
                return refusal_error(Refusal.CLOCK_EXPIRED)
            case Void():
                await self._void(judgement.reason, judgement.evidence_id, {"summary": judgement.summary})
                return refusal_error(Refusal.MATCH_OVER)
            case Mismatch():
                await self._mismatch(judgement)
                return refusal_error(Refusal.MATCH_OVER)
            case Stale():
                raise FencedError(self.story.row.match_id)
            case None:
                await self._void("clock_unreachable", None, {"hold_ns": self._shell.policy.hold_max_ns})
                return refusal_error(Refusal.MATCH_OVER)
        cost = decision.cost(arrival)
        told = (judgement.elapsed_ns, judgement.consumed_ns, judgement.charge_ns, judgement.bank_after_ns)
        if told != cost:
            # A verdict is a pure function of its stamps: two results mean that one of us is broken.
            self._shell.mismatches.inc()
            await self._void("verdict_mismatch", None, {"told": told, "expected": cost}, arrival)
            return refusal_error(Refusal.MATCH_OVER)
        timed = TurnTimed(decision.opened.seat, decision.key.decision_no, *cost)
        judged = decision.judged(arrival, cost, judgement, self._shell)
        return await self._carry_out(asked, (timed, *ruling), judged)

    async def _judge(self, arrival: Arrival) -> Verdict | Timeout | Void | Stale | Mismatch | None:
        """What the clock says of a command; None when it said nothing for as long as a match may be held."""
        self._judgement = asyncio.get_running_loop().create_future()
        self._shell.clock.arrive(arrival)
        self._shell.held_commands.inc()
        try:
            async with asyncio.timeout(self._shell.policy.hold_max_ns / clock.SECOND):
                return await self._judgement
        except TimeoutError:
            return None
        finally:
            self._shell.held_commands.dec()
            self._judgement = None

    async def _carry_out(self, asked: Asked, ruling: tuple[Event, ...], judged: Judged | None) -> Answer:
        events = self._with_what_follows(ruling)
        await self._commit(events, asked=asked, judged=judged)
        return self.story.answers[asked.request_id]

    def _with_what_follows(self, events: tuple[Event, ...]) -> tuple[Event, ...]:
        """A ruling with the deal it makes due: both are stored and told together (rule 7.1)."""
        state = self.story.state
        for event in events:
            state = evolve(state, event)
        if state.phase is not Phase.AWAITING_DEAL:
            return events
        scripted = self._script.deals
        deal = scripted[state.round_no] if state.round_no < len(scripted) else shuffle.shuffled()
        dealt = deal_round(state, deal, shuffle.salt())
        assert not isinstance(dealt, Refusal), dealt
        return (*events, *dealt)

    async def _commit(
        self,
        events: Sequence[Event],
        *,
        asked: Asked | None = None,
        judged: Judged | None = None,
        evidence: Evidence | None = None,
    ) -> None:
        """Durable first: nobody may hear of an event that a crash could take back."""
        story = self.story
        entry = Entry(
            match_id=story.row.match_id,
            revision=story.revision + 1,
            first_sequence=story.sequence + 1,
            last_sequence=story.sequence + len(events),
            fence=self.fence,
            events=json.dumps([event_to_json(event) for event in events], separators=(",", ":")),
            seat=None if asked is None else asked.command.seat.value,
            request_id=None if asked is None else asked.request_id,
            request_hash=None if asked is None else asked.payload,
            judged=judged,
            ending=ending_of(story, events, evidence),
        )
        await self._shell.journal.append(entry)
        if asked is not None:
            answered = Answered(asked.payload, entry.first_sequence, entry.last_sequence)
            story.answers[asked.request_id] = answered
            if judged is not None and self._decision is not None:
                self._shell.clock.applied(self._decision.key, asked.request_id, entry.last_sequence)
        continues = any(isinstance(event, TileDrawn) for event in events)
        story.revision += 1
        story.tell(events, credited_ns=0 if judged is None else judged.credited_ns or 0)
        self._open_decision(OpenCause.CONTINUE if continues else OpenCause.NEW)
        self._announce()

    # Decisions and limits.

    def _open_decision(self, cause: OpenCause) -> None:
        """Opens what the state asks. Called after the commit and immediately before the news is told."""
        story = self.story
        state = story.state
        self._decision = None
        limit_ns = limits.limit_ns(story.row, state)
        if limit_ns is None:
            self._limit_at = None
        elif self._limit_at is None or not state.pressed:
            self._limit_at = asyncio.get_running_loop().time() + limit_ns / clock.SECOND
        if state.to_act is not None:
            key = Key(story.row.match_id, self.fence, state.turn)
            now = self._shell.livetime.starting()
            self._decision = OpenDecision.begin(state, key, cause, now, story.credited_ns)
            self._shell.clock.open(self._decision.opened, self)

    async def _settle_what_is_due(self) -> None:
        """After a restart: a deal that an earlier process did not get to."""
        if self.story.state.phase is Phase.AWAITING_DEAL:
            await self._commit(self._with_what_follows(()))

    # Ends that nobody asked for.

    async def _forfeit(self, proven: Timeout, arrival: Arrival | None = None) -> None:
        """Rule 6.7, with the proof stored before the outcome."""
        decision = self._decision
        assert decision is not None, "only an open decision times out"
        detail = {
            **decision.facts(arrival),
            "deadline_ns": proven.deadline_ns,
            "proof": proven.proof,
            "proof_ns": proven.proof_ns,
        }
        evidence = self._shell.evidence(
            "timeout",
            proven.evidence_id,
            detail,
            from_ns=decision.opened.start_ns,
            to_ns=proven.proof_ns,
        )
        await self._commit(expire(self.story.state), evidence=evidence)

    async def _void(
        self,
        reason: str,
        evidence_id: str | None,
        detail: dict[str, object],
        arrival: Arrival | None = None,
    ) -> None:
        """Rule 6.8. Never decides for a player."""
        if self.story.over:
            return
        facts = {} if self._decision is None else self._decision.facts(arrival)
        evidence = self._shell.evidence("void", evidence_id, {"reason": reason, **facts, **detail})
        await self._commit(void(self.story.state, reason), evidence=evidence)

    async def _mismatch(self, mismatch: Mismatch) -> None:
        self._shell.mismatches.inc()
        detail: dict[str, object] = {
            "field": mismatch.field,
            "expected": mismatch.expected,
            "got": mismatch.got,
        }
        await self._void("verdict_mismatch", None, detail)

    def _announce(self) -> None:
        self.news += 1
        for wake in self._listeners:
            wake.set()
