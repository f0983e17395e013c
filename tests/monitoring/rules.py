"""The alert rules of the cluster as Prometheus reads them, whole or with their windows shortened."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import yaml

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "k8s" / "base" / "monitoring" / "rules.yaml"

Rule: TypeAlias = dict[str, Any]
Spec: TypeAlias = dict[str, Any]
"""What Prometheus calls a rule file: `groups`, each with `rules`."""

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, "y": 31_536_000}
_DURATION = re.compile(r"(\d+)(ms|[smhdwy])")
# Ranges and subqueries stand in brackets. Nothing else in an expression of ours is a duration.
_BRACKETS = re.compile(r"\[([^\]]*)\]")


def load() -> Spec:
    """The `spec` of the PrometheusRule."""
    spec: Spec = yaml.safe_load(RULES.read_text("utf-8"))["spec"]
    return spec


def rules(spec: Spec) -> Iterator[Rule]:
    """All rules in the order in which they stand."""
    for group in spec["groups"]:
        yield from group["rules"]


def alerts(spec: Spec) -> list[Rule]:
    """Those that fire."""
    return [rule for rule in rules(spec) if "alert" in rule]


def seconds(duration: str) -> float:
    """Seconds of a duration as Prometheus writes it, such as 1h30m. Raises ValueError for anything else."""
    if not re.fullmatch(rf"({_DURATION.pattern})+", duration):
        raise ValueError(f"not a duration: {duration!r}")
    return sum(int(number) * _UNITS[unit] for number, unit in _DURATION.findall(duration))


def scaled(spec: Spec, factor: float, *, least_seconds: float) -> Spec:
    """The same rules with every window and every `for` `factor` times as short, none below `least_seconds`.

    For demonstrations and tests that cannot wait for hours: 1h becomes 10s with 360. Thresholds stay as they are, also
    those that are seconds or a number of events in a window. `least_seconds` should be four scrapes: a window with
    fewer than two samples says nothing.
    """
    if factor < 1:
        raise ValueError("rules are scaled down only")

    def shorter(duration: str) -> str:
        span = seconds(duration)
        if span == 0:
            return duration
        # Never longer than it was: a `for` of a second stays one.
        return f"{round(1000 * min(span, max(span / factor, least_seconds)))}ms"

    def rewrite(brackets: re.Match[str]) -> str:
        return f"[{':'.join(shorter(part) if part else '' for part in brackets[1].split(':'))}]"

    made = copy.deepcopy(spec)
    for group in made["groups"]:
        if "interval" in group:
            group["interval"] = shorter(group["interval"])
        for rule in group["rules"]:
            rule["expr"] = _BRACKETS.sub(rewrite, rule["expr"])
            for key in ("for", "keep_firing_for"):
                if key in rule:
                    rule[key] = shorter(rule[key])
    return made


def write(spec: Spec, path: Path) -> Path:
    """A rule file for Prometheus and promtool; returns its path."""
    path.write_text(yaml.safe_dump(spec, sort_keys=False, width=200), "utf-8")
    return path
