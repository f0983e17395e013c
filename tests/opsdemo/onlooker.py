"""An operator who looks all the time: what the outage view and the alerts say, and when."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from services.ops.outage import Judgement, Look, Verdict, judge
from services.ops.pages import Reader, Target
from services.ops.status import look_around

LOOK_SECONDS: Final = 0.5


@dataclass
class Heard:
    """What was said since a moment, each thing once with the seconds until it was said first."""

    since: float
    before: frozenset[str] = frozenset()
    """Alerts that fired already: with windows of seconds, on a busy machine, some always do."""
    problems: dict[str, float] = field(default_factory=dict)
    alerts: dict[str, float] = field(default_factory=dict)
    """Alerts that fire and did not before, by their names."""


@dataclass
class Onlooker:
    """Looks twice a second. `firing` asks Prometheus for the names of the alerts that fire."""

    targets: list[Target]
    database_url: str
    firing: Callable[[], Awaitable[set[str]]]
    heard: Heard = field(default_factory=lambda: Heard(time.monotonic()))
    look: Look | None = None
    judgement: Judgement | None = None
    alerts: frozenset[str] = frozenset()

    def from_now(self) -> Heard:
        """Begins a new list."""
        self.heard = Heard(time.monotonic(), self.alerts)
        return self.heard

    async def run(self) -> None:
        """Looks until cancelled."""
        with Reader() as reader:
            while True:
                began = time.monotonic()
                await self._once(reader)
                await asyncio.sleep(max(0.05, began + LOOK_SECONDS - time.monotonic()))

    async def _once(self, reader: Reader) -> None:
        heard = self.heard
        look, alerts = await asyncio.gather(
            look_around(reader, self.targets, self.database_url), self.firing()
        )
        judgement = judge(look)
        self.look, self.judgement, self.alerts = look, judgement, frozenset(alerts)
        if heard is not self.heard:
            return  # it was seen before the new list was begun
        after = time.monotonic() - heard.since
        for problem in judgement.problems:
            heard.problems.setdefault(problem, after)
        for alert in alerts - heard.before:
            heard.alerts.setdefault(alert, after)

    async def until(self, what: Callable[[Onlooker], bool], seconds_max: float) -> float | None:
        """Seconds until something holds; None when it does not in time."""
        began = time.monotonic()
        while time.monotonic() - began < seconds_max:
            if self.look is not None and what(self):
                return time.monotonic() - began
            await asyncio.sleep(0.1)
        return None

    @property
    def is_well(self) -> bool:
        """Whether the last look found nothing wrong."""
        return self.judgement is not None and self.judgement.verdict is Verdict.WELL
