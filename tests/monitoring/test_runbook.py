"""Every alert has a section in the runbook and every section an alert, with the same things to read in each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer.main

from services.ops.__main__ import app
from tests.monitoring import rules
from tests.monitoring.promql import parse
from tests.monitoring.test_series import faults

ROOT = Path(__file__).resolve().parents[2]
PAGE = "docs/runbook.md"
TEXT = (ROOT / PAGE).read_text("utf-8")
PARTS = ["Players", "First look", "Causes", "Do", "Noise"]


def sections() -> dict[str, str]:
    """The text under each third-level heading."""
    parts = re.split(r"^### (\w+)\n", TEXT, flags=re.MULTILINE)
    return {
        title: re.split(r"^## ", text, flags=re.MULTILINE)[0]
        for title, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def test_alerts_and_sections_are_the_same_in_the_same_order() -> None:
    names = [rule["alert"] for rule in rules.alerts(rules.load())]
    assert list(sections()) == list(dict.fromkeys(names))


def test_alerts_lead_to_their_section() -> None:
    for rule in rules.alerts(rules.load()):
        notes = rule["annotations"]
        assert set(notes) == {"summary", "description", "runbook_url"}
        assert notes["runbook_url"] == f"{PAGE}#{rule['alert'].lower()}"
        assert not notes["summary"].endswith("."), "a headline"


def test_each_section_says_the_same_five_things() -> None:
    found = {
        title: re.findall(r"^- \*\*([\w ]+):\*\*", text, re.MULTILINE) for title, text in sections().items()
    }
    assert {title: parts for title, parts in found.items() if parts != PARTS} == {}


def test_the_objectives_are_those_of_the_rules() -> None:
    said = " ".join(TEXT.split())
    spec = {rule.get("record", ""): rule["expr"] for rule in rules.rules(rules.load())}
    assert 'le="0.25"' in spec["spectacular_bid:command_slow:ratio_rate1h"]
    assert "within 250 ms" in said
    budgets = {
        rule["alert"]: set(re.findall(r"> (?:[\d.]+ \* )?(0\.\d+)", rule["expr"]))
        for rule in rules.alerts(rules.load())
        if rule["alert"].endswith("Budget")
    }
    assert budgets == {
        "CommandErrorBudget": {"0.001"},
        "CommandLatencyBudget": {"0.01"},
        "VoidBudget": {"0.001"},
    }
    for words in (
        "99.9 % of commands",
        "99 % of applied commands",
        "99.9 % of matches",
        "14.4 times",
        "6 times",
    ):
        assert words in said


def spans() -> list[str]:
    """What stands between backticks in the text."""
    return re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```$", "", TEXT, flags=re.MULTILINE | re.DOTALL))


def test_its_commands_exist() -> None:
    """At night nobody should have to look for the right one."""
    commands = {span for span in spans() if span.startswith("python -m services.ops ")}
    assert len(commands) > 10
    for span in commands:
        command = typer.main.get_command(app)
        words = span.split()[3:]
        while isinstance(command, typer.core.TyperGroup):
            assert words[0] in command.commands, span
            command = command.commands[words.pop(0)]
        options = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options, span


def test_its_queries_find_their_series() -> None:
    queries = [span for span in spans() if "spectacular_bid_" in span]
    assert len(queries) > 5
    assert [fault for query in queries for one in parse(query).selectors for fault in faults(one)] == []


@pytest.mark.parametrize(
    "word", sorted({span for span in spans() if re.fullmatch(r"[a-z]+(_[a-z]+)+", span)})
)
def test_its_words_are_those_of_the_other_pages(word: str) -> None:
    """Events of logs, reasons, kinds of incidents: as they are in the logs and the database."""
    if word in ("runbook_url", "pg_terminate_backend") or word.startswith("spectacular_bid_"):
        return
    pages = "".join((ROOT / "docs" / f"{page}.md").read_text("utf-8") for page in ("operations", "time"))
    assert f"`{word}`" in pages
