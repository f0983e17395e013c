"""Every hard scenario of time has a test that names it, and so has every case from the field about clocks and outages."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

TESTS = Path(__file__).resolve().parent
SCENARIOS = range(1, 50)
CASES = (1, 3, 5, 7, 9, 11, 13, 15, 17, 19)
"""About clocks and outages."""
OTHER_CASES = (
    *(21, 77, 79, 82, 84, 86),  # abuse, and what surrounds the processes
    *(23, 25, 28, 30, 32, 34, 36, 38, 40, 42),  # coming back, and being matched
    *(44, 46, 48, 50, 53, 55, 57, 59),  # ratings, and what is hidden
    *(61, 63, 65, 67, 69, 71, 72, 74),  # the rules
)

NUMBERS = re.compile(r"[Ss]cenarios? (\d+(?:(?:, | and |, and )\d+)*)")
CASE = re.compile(r"FC-(\d+)")

PARTLY: dict[int, str] = {
    45: "as many commands a second as three processes on this machine can send beside the services",
    49: "the size that a test run can bear; `make sim SEEDS=100000` is the whole of it",
}
"""What a test does not show in full on real processes, and where the rest is."""


def named() -> tuple[dict[int, list[str]], dict[int, list[str]]]:
    """The scenarios and the cases that the docstrings of tests name, with the tests."""
    scenarios: dict[int, list[str]] = defaultdict(list)
    cases: dict[int, list[str]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not node.name.startswith(
                "test_"
            ):
                continue
            text = " ".join((ast.get_docstring(node) or "").split())
            where = f"{path.relative_to(TESTS)}::{node.name}"
            for found in NUMBERS.finditer(text):
                for number in re.findall(r"\d+", found.group(1)):
                    scenarios[int(number)].append(where)
            for found in CASE.finditer(text):
                cases[int(found.group(1))].append(where)
    return scenarios, cases


def test_every_scenario_has_its_test() -> None:
    """Numbers 1 to 49; what is shown only in part is listed above, with the reason."""
    scenarios, _ = named()
    assert [number for number in SCENARIOS if number not in scenarios] == []
    assert set(scenarios) <= set(SCENARIOS)
    assert set(PARTLY) <= set(SCENARIOS)


def test_every_case_about_time_has_its_test_on_real_processes() -> None:
    """Those about clocks and outages; each is named in tests/integration too, not only beside the code it is about."""
    _, cases = named()
    missing = [
        f"FC-{number:02}"
        for number in CASES
        if not any(where.startswith("integration/") for where in cases[number])
    ]
    assert missing == []


def test_every_other_case_from_the_field_has_its_test() -> None:
    """Abuse, coming back, matching, ratings, hidden hands, the rules, and processes with their surroundings."""
    _, cases = named()
    assert [number for number in OTHER_CASES if number not in cases] == []
    assert set(cases) == {*CASES, *OTHER_CASES}
