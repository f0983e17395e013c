"""`record` with a file where there is no terminal: a list, whose tiles, and what the status says."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from client.__main__ import app
from tests.client.recorded import a_match


def run(*arguments: str, typed: str = "") -> Result:
    return CliRunner().invoke(app, ["record", *arguments], input=typed)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    written = tmp_path / "match.jsonl"
    written.write_text("\n".join(a_match(1).lines) + "\n", "utf-8")
    return written


def test_a_file_is_listed_and_so_is_standard_input(file: Path) -> None:
    result = run(str(file))
    assert result.exit_code == 0
    assert "sound: 5 deals as committed, every command legal" in result.stdout
    assert result.stdout == run("-", typed=file.read_text("utf-8")).stdout


def test_only_the_hands_that_are_asked_for_are_listed(file: Path) -> None:
    lines = run(str(file), "--hands", "north").stdout.splitlines()
    assert any(line.strip().startswith("north: [") for line in lines)
    assert not any(line.strip().startswith("south: [") for line in lines)
    assert any("south draws a tile" in line for line in lines)
    assert not any("south draws [" in line for line in lines)


def test_a_record_that_is_not_sound_is_listed_with_status_1(file: Path) -> None:
    lines = file.read_text("utf-8").splitlines()
    file.write_text("\n".join([*lines[:30], "{}"]), "utf-8")
    result = run(str(file))
    assert result.exit_code == 1
    assert "damaged: line 31: " in result.stdout
    file.write_text("\n".join([*lines[:4], *lines[5:]]), "utf-8")
    result = run(str(file))
    assert result.exit_code == 1
    assert "not sound: line 5: refused" in result.stdout


def test_what_is_no_record_is_refused_with_status_2(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text("<html>", "utf-8")
    result = run(str(file))
    assert result.exit_code == 2
    assert "no match record: line 1" in result.stderr
    assert run(str(tmp_path / "nothing.jsonl")).exit_code == 2


def test_a_file_is_not_written_to_another(file: Path, tmp_path: Path) -> None:
    assert run(str(file), "--out", str(tmp_path / "copy.jsonl")).exit_code == 2
    assert not (tmp_path / "copy.jsonl").exists()
