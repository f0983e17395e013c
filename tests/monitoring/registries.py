"""Every series that the processes show, made from the pages of definitions, without any process."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias, cast

from prometheus_client import CollectorRegistry
from prometheus_client.process_collector import ProcessCollector

from services.canary.metrics import CanaryMetrics
from services.clock.metrics import ClockMetrics
from services.common import metrics as common
from services.game.metrics import GameMetrics
from services.matchmaking.metrics import MatchmakingMetrics
from services.storage.pool import MeteredPool
from spectacularbid.internal.clock.v1 import clock_service_pb2
from spectacularbid.internal.placement.v1 import placement_service_pb2
from spectacularbid.match.v1 import match_service_pb2

ROOT = Path(__file__).resolve().parents[2]
JOBS = ("clock", "game", "matchmaking", "canary")
SCRAPED = frozenset({"job", "instance"})
"""Labels that Prometheus adds to each series."""
OWN: Mapping[str, tuple[Mapping[str, str], ...]] = {
    "up": tuple({"job": job, "instance": "0"} for job in JOBS),
    "scrape_duration_seconds": tuple({"job": job, "instance": "0"} for job in JOBS),
    "ALERTS": tuple(
        {"alertname": "a", "alertstate": "firing", "severity": each} for each in ("page", "ticket")
    ),
}
"""What Prometheus writes by itself."""

Series: TypeAlias = Mapping[str, tuple[Mapping[str, str], ...]]
"""The label sets of each series, by its name."""

_SERVICES = {
    "game": match_service_pb2.DESCRIPTOR,
    "clock": clock_service_pb2.DESCRIPTOR,
    "matchmaking": placement_service_pb2.DESCRIPTOR,
}


@dataclass
class _NoPool:
    """What is asked of a pool without connections."""

    on_acquired: Any = None

    def get_size(self) -> int:
        return 0

    def get_idle_size(self) -> int:
        return 0


@cache
def series() -> Series:
    """What a scrape of one process of each kind brings, the canary's too."""
    found: dict[str, list[Mapping[str, str]]] = {name: list(labels) for name, labels in OWN.items()}
    for job in JOBS:
        for family in _registry(job).collect():
            for sample in family.samples:
                labels = {**sample.labels, "job": job, "instance": f"{job}-0"}
                found.setdefault(sample.name, []).append(labels)
    return {name: tuple(labels) for name, labels in found.items()}


def _registry(job: str) -> CollectorRegistry:
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    if job == "canary":
        CanaryMetrics(registry, "0")
        return registry
    calls = common.RpcMetrics(registry)
    for service in _SERVICES[job].services_by_name.values():
        calls.prepare(service.full_name)
    readiness = common.ReadinessMetrics(registry, "0")
    for condition in _conditions(job):
        readiness.add(condition)
    common.LoopMetrics(registry)
    common.CertificateMetrics(registry)
    common.PoolMetrics(registry, cast(MeteredPool, _NoPool()))
    {"game": GameMetrics, "clock": ClockMetrics, "matchmaking": MatchmakingMetrics}[job](registry)
    return registry


def _conditions(job: str) -> set[str]:
    """Conditions of readiness, as docs/operations.md lists them; a test holds that to the code."""
    page = (ROOT / "docs/operations.md").read_text("utf-8")
    (listed,) = re.findall(r"^### Conditions\n(.*?)^(?!\||$)", page, re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| `(\w+)` \| ([\w ]+) \|", listed, re.MULTILINE)
    return {condition for condition, where in rows if where in ("every service", job)}
