"""What `make fuzz` makes of what its processes say: nothing that goes wrong is taken for nothing found."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import __main__ as driver

SAID = """#21	INITED cov: 125 ft: 151 corp: 15/1433b exec/s: 0 rss: 111Mb
FINDING {"file": "build/fuzz/findings/x", "where": "KeyError a.py:1", "what": "'x'"}
#70	DONE   cov: 149 ft: 271 corp: 54/4177b lim: 4096 exec/s: 17498 rss: 111Mb
stat::number_of_executed_units: 69994
"""


def said(monkeypatch: pytest.MonkeyPatch, status: int, text: str) -> None:
    async def process(*_: str, log: Path) -> tuple[int, str]:
        return status, text

    monkeypatch.setattr(driver, "_process", process)


async def test_a_process_that_ends_well_says_what_it_did(monkeypatch: pytest.MonkeyPatch) -> None:
    said(monkeypatch, 0, SAID)
    result = await driver.fuzz("event", 10, 1)
    assert (result.executions, result.edges, result.inputs) == (69994, 149, 54)
    assert [each["where"] for each in result.findings] == ["KeyError a.py:1"]


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (70, "ALARM: working on the last Unit for 31 seconds"),
        (1, "Traceback (most recent call last):"),
        (0, ""),
    ],
)
async def test_a_process_that_hangs_or_breaks_is_a_finding(
    monkeypatch: pytest.MonkeyPatch, status: int, text: str
) -> None:
    said(monkeypatch, status, text)
    assert len((await driver.fuzz("event", 10, 1)).findings) == 1
    assert len((await driver.fuzz_api(10, 1)).findings) == 1


async def test_what_the_api_answers_wrongly_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    said(monkeypatch, 1, 'SUMMARY {"calls": 9, "findings": ["INTERNAL"]}\n')
    result = await driver.fuzz_api(10, 1)
    assert (result.executions, len(result.findings)) == (9, 1)


def test_the_status_is_1_on_any_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def measured(_: Any) -> None:
        return

    monkeypatch.setattr(driver, "measure", measured)
    asked = argparse.Namespace(target=["event"], minutes=0.1, seed=1)
    said(monkeypatch, 0, SAID)
    assert driver.run(asked) == 1
    assert "KeyError a.py:1" in capsys.readouterr().out
    said(monkeypatch, 0, SAID.replace("FINDING", "#"))
    assert driver.run(asked) == 0
