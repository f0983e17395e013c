"""Tests that need a program are skipped for a reason where it cannot be had, and never where a release is decided."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools import ROOT, find_tool, tool

NOWHERE = "no-such-program"


def test_a_program_on_the_path_is_found() -> None:
    assert tool("sh") == find_tool("sh") == shutil.which("sh")


def test_a_test_without_its_program_is_skipped_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=f"{NOWHERE} is not here"):
        tool(NOWHERE)


def test_where_a_release_is_decided_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    # Both are caught: a skip would otherwise skip this test too.
    with pytest.raises((pytest.fail.Exception, pytest.skip.Exception), match=f"{NOWHERE} is not here") as met:
        tool(NOWHERE)
    assert isinstance(met.value, pytest.fail.Exception)


@pytest.mark.parametrize(("environment", "status"), [({}, 0), ({"CI": "true"}, 1)])
def test_make_tools_says_what_is_missing(tmp_path: Path, environment: dict[str, str], status: int) -> None:
    """On a system without apt: a line for people, and a failure only where nothing may be skipped."""
    (tmp_path / ".ci").mkdir()
    script = shutil.copy(ROOT / ".ci" / "tools.py", tmp_path / ".ci")
    empty = tmp_path / "empty"
    empty.mkdir()
    done = subprocess.run(
        [sys.executable, script],
        env={"PATH": str(empty), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert "prometheus and promtool are not on PATH" in done.stdout
    assert "the tests that need them are skipped" in done.stdout
