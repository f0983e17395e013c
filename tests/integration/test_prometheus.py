"""A real Prometheus scrapes a real stack: every rule can be worked out there, and alerts are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.command import Resign
from engine.seats import NORTH
from tests.monitoring import rules
from tests.monitoring.prometheus import Prometheus, Targets, prometheus
from tests.monitoring.promql import parse
from tests.seats import Table, eventually
from tests.stack import Stack
from tests.tools import tool

pytestmark = pytest.mark.asyncio(loop_scope="session")

INTERVAL_SECONDS = 0.25
JOBS = ("clock", "game", "matchmaking", "canary")


async def targets(made: Stack) -> Targets:
    return {job: {f"{job}-0": await made.metrics_address(job)} for job in JOBS}


async def test_every_rule_finds_its_series_and_alerts_are_told(own: Stack, tmp_path: Path) -> None:
    """After matches were played. The scrape of the canary ends then, and the alert about it fires."""
    program = tool("prometheus")
    await own.launch("canary")
    await own.processes["canary"].event("canary_played")
    table = await Table.create(own)
    await table.do(Resign(NORTH))
    spec = rules.scaled(rules.load(), 360, least_seconds=4 * INTERVAL_SECONDS)
    everybody = await targets(own)
    async with prometheus(program, tmp_path, everybody, spec=spec, interval_seconds=INTERVAL_SECONDS) as seen:
        for _ in range(3):
            await seen.scraped()
        await seen.evaluated()
        assert await seen.broken_rules() == {}
        assert await missing(seen, spec) == set()
        assert not [alert for alert in await seen.alerts() if alert.name == "CanaryAbsent"]

        seen.aim({job: found for job, found in everybody.items() if job != "canary"})

        async def told() -> bool:
            return "CanaryAbsent" in {alert.name for alert in await seen.alerts(state="firing")}

        await eventually(told)
        (alert,) = [alert for alert in await seen.alerts() if alert.name == "CanaryAbsent"]
        assert alert.severity == "ticket"
        assert alert.annotations["runbook_url"].endswith("#canaryabsent")
        assert (await seen.fired(60))["CanaryAbsent"] == "ticket"


async def missing(seen: Prometheus, spec: rules.Spec) -> set[str]:
    """Series of rules that Prometheus has not got."""
    wanted = {selector.series for rule in rules.rules(spec) for selector in parse(rule["expr"]).selectors}
    return {series for series in wanted if not await seen.query(series)}
