"""What one game process says to the clock, how its live time moves, and what a refused command does to either."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from engine.clock import MILLISECOND, SECOND
from engine.refusal import Refusal
from services.game.asked import Asked, repeated, rule
from services.game.massloss import WINDOW_SECONDS
from services.game.room import Room
from services.wire import clock_messages as m
from tests.simulation.process import THRESHOLD_NS
from tests.simulation.world import LOST_MIN, World

if TYPE_CHECKING:
    from tests.simulation.game import GameProcess

MARK_SLACK_NS = 7 * MILLISECOND
"""What live time may be ahead of the truth, and once more for each stall: a tick that was seen and one that was not."""


class EngineWatch:
    """Invariants I8, I9 and I15, on the side of the game process."""

    def __init__(self, world: World, process: GameProcess) -> None:
        self._world = world
        self._process = process
        self.said: Counter[str] = Counter()
        """How much was said to the clock about each match, heard by a clock or not."""
        self.arrivals: dict[tuple[m.Key, str], m.Arrival] = {}
        """By decision and command, the commands the clock was told of."""
        self.heard_at: dict[tuple[m.Key, str], int] = {}
        """When that was, in the time of the world."""
        self.left_at: dict[tuple[str, int], int] = {}
        """The live time in truth at which it stopped playing a match, by match and fence."""
        self._watermarks: dict[m.Key, int] = {}
        self._lost: dict[m.Key, int] = {}
        self._broken: dict[str, int] = {}
        """When a stream of each match broke last."""
        self._mark = 0
        self._gaps_seen = 0
        self._gap_end = 0
        self._gap_sum = 0
        self._listen_in()

    def _listen_in(self) -> None:
        live, link = self._process.live, self._process.clock
        mark, say, close = live.mark, link._say, link.close

        def marked() -> int:
            now = mark()
            self._marked(now)
            return now

        def said(message: m.EngineMessage, *, waited_for: bool = True) -> None:
            self._said(message)
            say(message, waited_for=waited_for)

        def closed(match_id: str, fence: int, reason: str) -> None:
            self.left_at.setdefault((match_id, fence), self._process.true_mark)
            close(match_id, fence, reason)

        link.close = closed  # type: ignore[method-assign]
        live.mark = marked  # type: ignore[method-assign]
        link._say = said  # type: ignore[method-assign]

    # Live time.

    def _marked(self, now: int) -> None:
        """I9: the mark never goes back, is never ahead of listening, and stands still across each recorded gap."""
        live, process = self._process.live, self._process
        if now < self._mark:
            self._world.violate("I9", f"the mark of {process.name} went back by {self._mark - now} ns")
        self._mark = max(now, self._mark)
        raw = process.kernel.read(self._world.now)
        if now + live.gap_total_ns > raw and not process.kernel.went_back:
            self._world.violate("I9", f"the mark of {process.name} is ahead of its kernel clock")
        self._world.count("checked I9")
        if live._gaps_seen != self._gaps_seen:
            self._gaps()

    def _gaps(self) -> None:
        """Every gap is recorded once, is longer than the threshold, and none overlaps another."""
        live, process = self._process.live, self._process
        gaps, self._gaps_seen = live.gaps_since(self._gaps_seen)
        for gap in gaps:
            self._gap_sum += gap.size_ns
            if gap.size_ns <= THRESHOLD_NS or gap.from_raw_ns < self._gap_end:
                self._world.violate("I9", f"{process.name} recorded {gap} after {self._gap_end}")
            self._gap_end = gap.to_raw_ns
        if self._gap_sum != live.gap_total_ns:
            self._world.violate("I9", f"{live.gap_total_ns} ns are gaps, {self._gap_sum} ns are recorded")

    def waits(self) -> None:
        """It has nothing left to do: what it counts as listening is not more than what was."""
        process = self._process
        ahead = process.live.mark() - process.true_mark
        if ahead > MARK_SLACK_NS * (1 + process.stalls):
            self._world.violate("I9", f"{process.name} counts {ahead} ns in which it did not listen")

    def lose(self, match_id: str) -> None:
        """A stream of a player broke, and the process hears of it."""
        self._broken[match_id] = self._world.now

    def holds(self) -> None:
        """I14: live time stands still for many matches whose players are gone at once, never for one."""
        since = self._world.now - int(WINDOW_SECONDS * SECOND)
        gone = [match_id for match_id, at in self._broken.items() if at >= since]
        self._world.count("checked hold")
        if len(gone) < LOST_MIN:
            self._world.violate("I14", f"time stands still in {self._process.name} for {gone}")

    # What the clock is told.

    def _said(self, message: m.EngineMessage) -> None:
        if isinstance(message, m.Pong):
            return
        key = getattr(message, "key", None)
        self.said[message.match_id if key is None else key.match_id] += 1  # type: ignore[union-attr]
        if isinstance(message, m.ProbeReply):
            self._watermarks[message.key] = max(
                message.watermark_ns, self._watermarks.get(message.key, message.watermark_ns)
            )
        elif isinstance(message, m.Arrival):
            self._arrives(message)

    def _arrives(self, arrival: m.Arrival) -> None:
        """I8: nothing dates from before what was said to have been heard in full."""
        key, stamp = arrival.key, arrival.arrive_ns
        self._world.count("checked I8")
        if stamp < self._watermarks.get(key, stamp):
            self._world.violate(
                "I8", f"{key}: a command of {stamp} comes after the watermark {self._watermarks[key]}"
            )
        if stamp < self._lost.get(key, stamp):
            self._world.violate(
                "I8", f"{key}: a command of {stamp} comes after a timeout at {self._lost[key]}"
            )
        self.arrivals.setdefault((key, arrival.command_id), arrival)
        self.heard_at.setdefault((key, arrival.command_id), self._world.now)

    def lost(self, timeout: m.Timeout) -> None:
        """A decision of this process was proven to be lost."""
        self._lost[timeout.key] = timeout.deadline_ns

    # Commands that have no effect.

    def take_place(self, room: Room) -> None:
        """Looks at what this room answers."""
        take = room._take
        if getattr(take, "watched", False):
            return

        async def watched(asked: Asked) -> None:
            await self._taken(room, asked, take)

        watched.watched = True  # type: ignore[attr-defined]
        room._take = watched  # type: ignore[method-assign]

    async def _taken(self, room: Room, asked: Asked, take: Callable[[Asked], Awaitable[None]]) -> None:
        """I15: what is illegal, stale or a repeat changes nothing, not even for the clock."""
        story = room.story
        if repeated(story, asked) is None and not isinstance(rule(story.state, asked), Refusal):
            await take(asked)
            return
        before = self._clock_state(room)
        await take(asked)
        self._world.count("checked I15")
        if self._clock_state(room) != before:
            self._world.violate("I15", f"{asked.command}, which has no effect, changed what the clock knows")

    def _clock_state(self, room: Room) -> Any:
        match_id, decision = room.story.row.match_id, room._decision
        governed = self._process.clock._matches.get(match_id)
        return (
            self.said[match_id],
            None
            if governed is None
            else (governed.fence, governed.opened, governed.arrival, governed.verdict),
            None if decision is None else (decision.opened, decision.consumed_ns, decision.granted_ns),
            (room.story.revision, room.story.state.banks, room.story.state.consumed_ns),
        )
