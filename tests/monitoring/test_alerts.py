"""Each alert fires on its fault and stays quiet on usual noise, as promtool works the rules out minute by minute."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.monitoring import rules
from tests.monitoring.promql import parse
from tests.tools import tool

CASES = Path(__file__).parent / "alerts"
HEALTHY = "healthy"
TOPICS = sorted(path.stem for path in CASES.glob("*.yaml") if path.stem != HEALTHY)
INTERVAL = "1m"
FIRING = 'group by (alertname, severity) (ALERTS{alertstate="firing"})'


@cache
def read(topic: str) -> Any:
    return yaml.safe_load((CASES / f"{topic}.yaml").read_text("utf-8"))


def cases() -> Iterator[dict[str, Any]]:
    for topic in TOPICS:
        yield from read(topic)


def promtool(*arguments: str) -> str:
    done = subprocess.run([tool("promtool"), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def values(text: object, samples: int) -> str:
    """A series in promtool's words; a last value without a length goes on to the end."""
    *parts, last = str(text).split()
    given = 0
    for part in parts:
        repeated = re.fullmatch(r"(_|.*?)x(\d+)", part)
        given += 1 if repeated is None else int(repeated[2]) + (repeated[1] != "_")
    if "x" not in last:
        rest = max(samples - given, 1)
        if last == "_":
            last = f"_x{rest}"
        else:
            last = f"{last if re.search('.[+-]', last) else f'{last}+0'}x{rest - 1}"
    return " ".join([*parts, last])


def unit_test(case: dict[str, Any], asked: set[str]) -> dict[str, Any]:
    """One case as promtool knows it: exactly the named alerts fire at the named times, no other of the topic."""
    interval = case.get("interval", INTERVAL)
    samples = int(max(map(rules.seconds, case["firing"])) // rules.seconds(interval)) + 2
    series = {
        name: text
        for name, text in {**read(HEALTHY), **case["series"]}.items()
        if name.partition("{")[0] in asked
    }
    return {
        "name": f"{case['alert']}: {case['case']}",
        "interval": interval,
        "input_series": [{"series": name, "values": values(text, samples)} for name, text in series.items()],
        "promql_expr_test": [
            {
                "expr": FIRING,
                "eval_time": at,
                "exp_samples": [
                    {"labels": f'{{alertname="{name}", severity="{severity}"}}', "value": 1}
                    for name, severity in map(str.split, firing)
                ],
            }
            for at, firing in case["firing"].items()
        ],
    }


def of_topic(topic: str) -> rules.Spec:
    """The rules of one group with the recorded ones that they use: all of them at once take minutes."""
    spec = rules.load()
    (wanted,) = (group for group in spec["groups"] if group["name"] == f"spectacular-bid-{topic}")
    used = {selector.series for rule in wanted["rules"] for selector in parse(rule["expr"]).selectors}
    records = [rule for rule in rules.rules(spec) if rule.get("record") in used]
    return {"groups": [{"name": "records", "rules": records}, wanted]}


def asked_by(spec: rules.Spec) -> set[str]:
    """The series that rules ask for."""
    return {selector.series for rule in rules.rules(spec) for selector in parse(rule["expr"]).selectors}


def check(folder: Path, name: str, spec: rules.Spec, tested: list[dict[str, Any]]) -> None:
    """All cases; those of one interval in one run, because promtool evaluates a file at one."""
    rules.write(spec, folder / f"{name}.rules.yaml")
    for interval in sorted({case.get("interval", INTERVAL) for case in tested}):
        tests = {
            "rule_files": [f"{name}.rules.yaml"],
            "evaluation_interval": interval,
            # What is recorded comes first; otherwise an alert may look at what was recorded a step before.
            "group_eval_order": [group["name"] for group in spec["groups"]],
            "tests": [
                unit_test(case, asked_by(spec))
                for case in tested
                if case.get("interval", INTERVAL) == interval
            ],
        }
        promtool("test", "rules", str(rules.write(tests, folder / f"{name}-{interval}.yaml")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("rules")
    rules.write(rules.load(), made / "rules.yaml")
    return made


def test_the_rules_are_rules(folder: Path) -> None:
    """promtool reads expressions and the templates of annotations."""
    count = len(list(rules.rules(rules.load())))
    assert f"{count} rules found" in promtool("check", "rules", str(folder / "rules.yaml"))


@pytest.mark.parametrize("topic", TOPICS)
def test_alerts_fire_on_their_fault_and_are_quiet_otherwise(topic: str, folder: Path) -> None:
    check(folder, topic, of_topic(topic), read(topic))


def test_nothing_fires_on_a_usual_day(folder: Path) -> None:
    usual = {"alert": "none", "case": "a usual day", "series": {}, "interval": "5m", "firing": {"2h": []}}
    check(folder, "all", rules.load(), [usual])


def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    wanted = {f"{rule['alert']} {rule['labels']['severity']}" for rule in rules.alerts(rules.load())}
    fires: set[str] = set()
    quiet: set[str] = set()
    for case in cases():
        fired = {name for firing in case["firing"].values() for name in firing}
        fires |= fired
        if case["alert"] not in {name.split()[0] for name in fired}:
            quiet.add(case["alert"])
    assert fires == wanted
    assert quiet == {name.split()[0] for name in wanted}


def test_a_case_changes_what_its_alert_looks_at() -> None:
    """Otherwise the quiet ones would show nothing."""
    recorded = {rule["record"]: rule["expr"] for rule in rules.rules(rules.load()) if "record" in rule}
    looked_at: dict[str, set[str]] = {}
    for rule in rules.alerts(rules.load()):
        for selector in parse(rule["expr"]).selectors:
            source = parse(recorded.get(selector.series, selector.series))
            looked_at.setdefault(rule["alert"], set()).update(
                selector.series for selector in source.selectors
            )
    for case in cases():
        changed = {series.partition("{")[0] for series in case["series"]}
        assert changed & looked_at[case["alert"]], case


def test_a_page_is_for_what_players_feel_now() -> None:
    """Two severities, and no other."""
    severities = {rule["labels"]["severity"] for rule in rules.alerts(rules.load())}
    assert severities == {"page", "ticket"}
