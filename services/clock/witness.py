"""The witness: do the clocks of an engine and of this process keep moving together?

A verdict compares stamps of one kernel clock only. What it cannot see is that clock itself going wrong, so each
answer to a ping tells where the two clocks stand to each other: the engine read its own between the ping's departure
and the answer's arrival. Two clocks may drift by 1000 ppm; anything more is a disruption, and says by how much.

A disruption never changes a verdict in time. It keeps a forfeit from being enforced when nobody can tell that the
player's time had not run too fast (rule R17).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from engine.clock import MILLISECOND, SECOND

DRIFT_PPM: Final = 1000
"""What two sound clocks may drift apart."""
DISRUPTION_MAX_NS: Final = 100 * MILLISECOND
"""A forfeit is not enforced when more than this is in doubt. Part of the policy `v1`."""
SETTLE_NS: Final = 1 * SECOND
"""After this every engine has answered a ping, and it is known whether others saw the same."""
JURY_MIN: Final = 3
"""With fewer engines nobody can tell whose clock it was."""
REPORT_NS: Final = 10 * SECOND
"""A clock that keeps going wrong is reported this often."""
DISRUPTIONS_KEPT: Final = 4096
UNREPORTED_NS_MAX: Final = 600 * SECOND
"""What stays too small to be reported is forgotten after this."""


class Culprit(StrEnum):
    """Whose clock it was."""

    CLOCK = "clock"
    """This process's own: most engines saw the same at the same time."""
    ENGINE = "engine"
    """The engine's: most others saw nothing."""
    UNKNOWN = "unknown"
    """Too few engines, or too early to tell."""


@dataclass(slots=True, eq=False)
class Disruption:
    """The two clocks moved against each other between two answers. Nanoseconds, on this process's own time."""

    since_ns: int
    at_ns: int
    since_raw_ns: int
    at_raw_ns: int
    """The same on the engine's kernel clock."""
    size_ns: int
    """At least this much; more than zero."""
    ahead: bool
    """Whether the engine's clock ran ahead of ours."""
    covered_ns: int = 0
    """Of a jump ahead: what the engine itself did not count as listening, so that nobody was charged for it."""
    culprit: Culprit | None = None
    """None while it is too early to tell."""
    report_id: str = ""
    """The incident that tells of it."""

    @property
    def charged_ns(self) -> int:
        """What a player may have been charged because of it, if it was the engine's clock."""
        return max(0, self.size_ns - self.covered_ns) if self.ahead else 0


@dataclass(frozen=True, slots=True)
class Report:
    """What is to be kept of one or more disruptions in a row."""

    report_id: str
    since_raw_ns: int
    at_raw_ns: int
    lasted_ns: int
    size_ns: int
    ahead: bool
    covered_ns: int
    culprit: Culprit


@dataclass(slots=True)
class _Last:
    low: int
    high: int
    pinged_at: int
    at_ns: int
    raw_ns: int
    gap_total_ns: int
    uncovered: Disruption | None = None
    spare_gap_ns: int = 0


@dataclass(slots=True, eq=False)
class Witness:
    """What is known of one incarnation of an engine. `jury` are the witnesses of all engines, this one included."""

    jury: Callable[[], Iterable[Witness]]
    new_id: Callable[[], str]
    disruptions: deque[Disruption] = field(default_factory=lambda: deque(maxlen=DISRUPTIONS_KEPT))
    _last: _Last | None = None
    _unsettled: list[Disruption] = field(default_factory=list)
    _unreported: list[Disruption] = field(default_factory=list)
    _reported_at: int | None = None

    def pong(self, pinged_at: int, now: int, raw_ns: int, gap_total_ns: int) -> None:
        """The engine read `raw_ns` on its kernel clock at some time between `pinged_at` and `now` on ours."""
        low, high = raw_ns - now, raw_ns - pinged_at
        last = self._last
        if last is None:
            self._last = _Last(low, high, pinged_at, now, raw_ns, gap_total_ns)
            return
        # The last reading may be as old as its ping, and this one as young as its answer.
        slack = (now - last.pinged_at) * DRIFT_PPM // 1_000_000
        known_low, known_high = last.low - slack, last.high + slack
        found = None
        if low > known_high or high < known_low:
            ahead = low > known_high
            size = low - known_high if ahead else known_low - high
            found = Disruption(last.at_ns, now, last.raw_ns, raw_ns, size, ahead)
            self.disruptions.append(found)
            self._unsettled.append(found)
        else:
            low, high = max(low, known_low), min(high, known_high)
        # The loop of the engine finds its gap at its next idle instant, which may be before this answer or after it.
        gap_ns = max(0, gap_total_ns - last.gap_total_ns)
        if last.uncovered is not None:
            gap_ns -= _cover(last.uncovered, gap_ns)
        spare = gap_ns
        if found is not None and found.ahead:
            spare = gap_ns + last.spare_gap_ns
            spare -= _cover(found, spare)
        uncovered = found if found is not None and found.charged_ns else None
        self._last = _Last(low, high, pinged_at, now, raw_ns, gap_total_ns, uncovered, spare)

    @property
    def width_ns(self) -> int:
        """How exactly it is known where the two clocks stand to each other; 0 before the first answer."""
        return 0 if self._last is None else self._last.high - self._last.low

    def within(self, since: int) -> Iterator[Disruption]:
        """Those that reach into the time after `since`, the newest first."""
        for disruption in reversed(self.disruptions):
            if disruption.at_ns <= since:
                return
            yield disruption

    def doubt_ns(self, since: int) -> int:
        """How much of the time since then may have been counted wrongly, as far as is known now."""
        doubt = 0
        for disruption in self.within(since):
            if disruption.ahead and self._judge(disruption) is not Culprit.CLOCK:
                doubt += disruption.charged_ns
            elif not disruption.ahead and self._judge(disruption) is Culprit.UNKNOWN:
                doubt += disruption.size_ns
        return doubt

    def settle(self, now: int) -> list[Disruption]:
        """Those of which it can be told now whose clock it was."""
        settled = [each for each in self._unsettled if now - each.at_ns >= SETTLE_NS]
        if settled:
            self._unsettled = [each for each in self._unsettled if now - each.at_ns < SETTLE_NS]
            for disruption in settled:
                disruption.culprit = self._verdict(disruption)
            kept = [each for each in self._unreported if now - each.at_ns < UNREPORTED_NS_MAX]
            self._unreported = kept + settled
        return settled

    def reports(self, now: int, *, at_once: bool = False) -> list[Report]:
        """What is worth keeping and not yet kept; `at_once` whatever its size, and settled or not."""
        told = [*self._unreported, *self._unsettled] if at_once else self._unreported
        told = [each for each in told if not each.report_id]
        recent = self._reported_at is not None and now - self._reported_at < REPORT_NS
        small = sum(each.size_ns for each in told) <= DISRUPTION_MAX_NS
        if not told or (not at_once and (recent or small)):
            return []
        self._unreported.clear()
        self._reported_at = now
        groups: dict[tuple[bool, Culprit], list[Disruption]] = {}
        for disruption in told:
            groups.setdefault((disruption.ahead, self._judge(disruption)), []).append(disruption)
        return [self._report(group, culprit) for (_, culprit), group in groups.items()]

    def _report(self, group: list[Disruption], culprit: Culprit) -> Report:
        report_id = self.new_id()
        for disruption in group:
            disruption.report_id = report_id
        return Report(
            report_id,
            group[0].since_raw_ns,
            group[-1].at_raw_ns,
            group[-1].at_ns - group[0].since_ns,
            sum(each.size_ns for each in group),
            group[0].ahead,
            sum(each.covered_ns for each in group),
            culprit,
        )

    def _judge(self, disruption: Disruption) -> Culprit:
        """As far as is known now: before all have answered, only that it was our own clock can be known."""
        if disruption.culprit is not None:
            return disruption.culprit
        verdict = self._verdict(disruption)
        return verdict if verdict is Culprit.CLOCK else Culprit.UNKNOWN

    def _verdict(self, disruption: Disruption) -> Culprit:
        jury = [each for each in self.jury() if each._heard_since(disruption.since_ns)]  # noqa: SLF001 - its own kind
        if len(jury) < JURY_MIN:
            return Culprit.UNKNOWN
        same = sum(1 for each in jury if each is self or each._saw(disruption))  # noqa: SLF001 - its own kind
        return Culprit.CLOCK if 2 * same > len(jury) else Culprit.ENGINE

    def _heard_since(self, since: int) -> bool:
        return self._last is not None and self._last.at_ns >= since

    def _saw(self, other: Disruption) -> bool:
        """Whether this engine's clock jumped likewise at the same time."""
        return any(
            each.ahead == other.ahead
            and 2 * each.size_ns >= other.size_ns
            and each.since_ns <= other.at_ns + SETTLE_NS
            for each in self.within(other.since_ns - SETTLE_NS)
        )


def _cover(disruption: Disruption, gap_ns: int) -> int:
    """How much of a gap accounts for a jump ahead."""
    covered = min(disruption.charged_ns, gap_ns)
    disruption.covered_ns += covered
    return covered
