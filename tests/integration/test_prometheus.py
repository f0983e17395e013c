"""A real Prometheus scrapes a real stack: rules and dashboards get answers there, and alerts are told."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from engine.command import Resign
from engine.seats import NORTH
from k8s.dashboards.__main__ import DASHBOARDS
from k8s.dashboards.queries import SPAN
from tests.monitoring import rules
from tests.monitoring.prometheus import Prometheus, Targets, prometheus
from tests.monitoring.promql import parse
from tests.seats import Table, eventually
from tests.stack import Stack
from tests.tools import tool

pytestmark = pytest.mark.asyncio(loop_scope="session")

INTERVAL_SECONDS = 0.5
JOBS = ("clock", "game", "matchmaking", "canary")


async def test_rules_and_dashboards_get_answers_and_alerts_are_told(own: Stack, tmp_path: Path) -> None:
    """After matches were played. The scrape of the canary ends then, and the alert about it fires."""
    program = tool("prometheus")
    await own.launch("canary")
    await own.processes["canary"].event("canary_played")
    table = await Table.create(own)
    await table.do(Resign(NORTH))
    everybody: Targets = {job: {f"{job}-0": await own.metrics_address(job)} for job in JOBS}
    spec = rules.scaled(rules.load(), 360, least_seconds=4 * INTERVAL_SECONDS)
    async with prometheus(program, tmp_path, everybody, spec=spec, interval_seconds=INTERVAL_SECONDS) as seen:
        for _ in range(2):  # what grows needs two looks
            await seen.scraped()
        await seen.evaluated()
        assert await seen.broken_rules() == {}
        assert await without_answer(seen, series_of_rules(spec)) == set()
        assert await without_answer(seen, queries_of_dashboards()) == set()
        assert "CanaryAbsent" not in {alert.name for alert in await seen.alerts()}

        seen.aim({job: found for job, found in everybody.items() if job != "canary"})

        async def told() -> bool:
            return "CanaryAbsent" in {alert.name for alert in await seen.alerts(state="firing")}

        await eventually(told)
        (alert,) = [alert for alert in await seen.alerts() if alert.name == "CanaryAbsent"]
        assert alert.severity == "ticket"
        assert alert.annotations["runbook_url"] == "docs/runbook.md#canaryabsent"
        assert (await seen.fired(60))["CanaryAbsent"] == "ticket"


def series_of_rules(spec: rules.Spec) -> set[str]:
    """The series behind every rule: an alert that has nothing to say and one that cannot speak look alike."""
    return {selector.series for rule in rules.rules(spec) for selector in parse(rule["expr"]).selectors}


def queries_of_dashboards() -> set[str]:
    """Every query, without the conditions that leave quiet lines out of a picture."""
    return {
        query.expr.replace(SPAN, "30s").replace(" > 0", "").replace(" == 0", "")
        for dashboard in DASHBOARDS.values()
        for row in dashboard.rows
        for panel in row.panels
        for query in panel.queries
    }


async def without_answer(seen: Prometheus, asked: set[str]) -> set[str]:
    """Queries that get none."""
    texts = sorted(asked)
    answers = await asyncio.gather(*(seen.query(text) for text in texts))
    return {text for text, answer in zip(texts, answers, strict=True) if not answer}
