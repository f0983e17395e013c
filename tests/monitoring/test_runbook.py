"""Every alert has a section in the runbook and every section an alert, with the same things to read in each."""

from __future__ import annotations

import re
from pathlib import Path

from tests.monitoring import rules

PAGE = "docs/runbook.md"
TEXT = (Path(__file__).resolve().parents[2] / PAGE).read_text("utf-8")
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
