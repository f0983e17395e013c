"""What honest players and processes noticed of the attacks of `tests.bench.flood`, and the table of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rich.table import Table

from tests.population import percentile
from tests.processes import Process

GROWTH_MB_MAX: Final = 100.0
"""How much a process may grow while it is attacked."""


@dataclass
class Honest:
    """What honest players noticed, by time."""

    processes: list[Process]
    took: list[tuple[float, str, float]] = field(default_factory=list)
    stolen: list[float] = field(default_factory=list)
    broken: list[tuple[float, str]] = field(default_factory=list)
    playing: dict[str, str] = field(default_factory=dict)
    """The match of each player."""
    _read: dict[str, int] = field(default_factory=dict)

    def look(self) -> None:
        """Takes in what the logs have new."""
        for process in self.processes:
            lines = process.events()
            for line in lines[self._read.get(process.name, 0) :]:
                match line["event"]:
                    case "took":
                        self.took.append((line["at"], line["what"], line["seconds"]))
                    case "stolen":
                        self.stolen.append(line["at"])
                    case "broken":
                        self.broken.append(
                            (line["at"], f"{line['what']}: {line['code']} {line['details']}".rstrip())
                        )
                    case "playing":
                        self.playing[line["player_id"]] = line["match_id"]
            self._read[process.name] = len(lines)

    def within(self, what: str, windows: Sequence[tuple[float, float]]) -> list[float]:
        """How long such things took that were answered in these times, in milliseconds."""
        return [
            seconds * 1000
            for at, kind, seconds in self.took
            if kind == what and any(begins <= at < ends for begins, ends in windows)
        ]


@dataclass
class Phase:
    """An attack and what came of it."""

    name: str
    target: str
    window: tuple[float, float] = (0.0, 0.0)
    quiet: list[tuple[float, float]] = field(default_factory=list)
    flooded: dict[str, Any] = field(default_factory=dict)
    gap_ms: float = 0.0
    """How long the game process could not be shown to have listened: credited to each match that waited then."""
    quiet_gap_ms: float = 0.0
    """The same in the quiet time before."""
    busy: dict[str, float] = field(default_factory=dict)
    """Processor time of each process, as a share of one core."""
    quiet_busy: dict[str, float] = field(default_factory=dict)
    ended: Counter[str] = field(default_factory=Counter)
    """Honest matches that ended on time or void."""
    memory: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    """Of each process, MB: before, at most, afterwards."""
    commands: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    """p50 and p99 without the attack, p50 and p99 with it. Milliseconds."""
    ladder: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    seeks: tuple[int, int] = (0, 0)
    """Matches of the two who seek, in the quiet time and in that of the attack."""
    stolen: int = 0
    broken: list[str] = field(default_factory=list)
    """What honest players met that they should not, from the quiet time before to the one after."""

    @property
    def refused(self) -> float:
        """Share of the calls that were refused because of a limit."""
        codes: dict[str, int] = self.flooded["codes"]
        return codes.get("RESOURCE_EXHAUSTED", 0) / max(1, sum(codes.values()))

    @property
    def growth(self) -> float:
        """MB by which the target grew at most."""
        return max((most - before for before, most, _ in self.memory.values()), default=0.0)

    @property
    def line(self) -> str:
        """In one line, while the bench goes on."""
        calls = self.flooded["asked"] / self.flooded["seconds"]
        busy = f"core used {self.quiet_busy[self.target]:.0%}, then {self.busy[self.target]:.0%}"
        return (
            f"{self.name} ({self.target}): {calls:,.0f}/s, {self.refused:.0%} refused; "
            f"p99 {self.commands[1]:.0f} ms, then {self.commands[3]:.0f} ms; {busy}"
        )

    def count(self, honest: Honest) -> None:
        """Works out what honest players noticed."""
        figures = []
        for what in ("command", "ladder"):
            values = [honest.within(what, windows) for windows in (self.quiet, [self.window])]
            figures.append(tuple(percentile(each, percent) for each in values for percent in (50, 99)))
        self.commands, self.ladder = figures[0], figures[1]  # type: ignore[assignment]
        self.seeks = (len(honest.within("seek", self.quiet)), len(honest.within("seek", [self.window])))
        begins, ends = self.quiet[0][0], self.quiet[1][0]
        self.broken = [what for at, what in honest.broken if begins <= at < ends]
        self.stolen = sum(self.window[0] <= at < self.window[1] for at in honest.stolen)


def report(phases: list[Phase], seconds: float) -> Table:
    """The table."""
    table = Table(title=f"One client at full speed for {seconds:.0f} s each; milliseconds, megabytes")
    for column in (
        "attack",
        "calls/s",
        "refused",
        "answers",
        "command p50 / p99, without",
        "with",
        "p99 ratio",
        "ladder p50 / p99, without",
        "with",
        "gap ms, without / with",
        "core used, without / with",
        "seeks",
        "time / void",
        "game MB",
        "matchmaking MB",
    ):
        table.add_column(column, justify="left" if column in ("attack", "answers") else "right")
    for phase in phases:
        codes = Counter(phase.flooded["codes"]).most_common(2)
        before50, before99, with50, with99 = phase.commands
        ladder = phase.ladder
        held = phase.flooded["held"]
        table.add_row(
            f"{phase.name} ({phase.target})",
            f"{phase.flooded['asked'] / phase.flooded['seconds']:,.0f}",
            f"{phase.refused:.0%}",
            ", ".join(f"{code} {count:,}" for code, count in codes) + (f"; held {held:,}" if held else ""),
            f"{before50:.1f} / {before99:.1f}",
            f"{with50:.1f} / {with99:.1f}",
            f"{with99 / before99:.1f}" if before99 else "",
            f"{ladder[0]:.1f} / {ladder[1]:.1f}",
            f"{ladder[2]:.1f} / {ladder[3]:.1f}",
            f"{phase.quiet_gap_ms:.0f} / {phase.gap_ms:.0f}",
            f"{phase.quiet_busy[phase.target]:.0%} / {phase.busy[phase.target]:.0%}",
            f"{phase.seeks[0]} / {phase.seeks[1]}" + (f", {phase.stolen} taken" if phase.stolen else ""),
            f"{phase.ended['time']} / {phase.ended['void']}",
            " ".join(f"{figure:.0f}" for figure in phase.memory["game"]),
            " ".join(f"{figure:.0f}" for figure in phase.memory["matchmaking"]),
        )
    return table


def faults(phases: list[Phase]) -> list[str]:
    """What must not be."""
    found = [
        f"{phase.name}: an honest match ended: {dict(phase.ended)}" for phase in phases if phase.ended.total()
    ]
    found += [
        f"{phase.name}: a process grew by {phase.growth:.0f} MB"
        for phase in phases
        if phase.growth > GROWTH_MB_MAX
    ]
    return found + [
        f"{phase.name}: honest players met {what} ({count} times)"
        for phase in phases
        for what, count in Counter(phase.broken).items()
    ]
