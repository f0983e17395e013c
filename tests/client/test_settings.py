"""Settings of the terminal client: a file, the environment, flags; each before the one before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from client.terminal.settings import Settings, SettingsError, default_file, overridden, read


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "LC_ALL", "LC_CTYPE", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("LANG", "C.UTF-8")


def test_a_file_changes_what_it_names_and_flags_go_before_it(tmp_path: Path) -> None:
    file = tmp_path / "terminal.toml"
    assert read(file) == Settings()
    file.write_text("auto_pass = false\nascii = true\n")
    assert read(file) == Settings(auto_pass=False, ascii=True)
    assert overridden(read(file), ascii=False, auto_pass=None) == Settings(auto_pass=False)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("colors = true", "there is no setting colors"),
        ("ascii = 1", "true or false"),
        ("ascii", "terminal.toml"),
    ],
)
def test_a_file_that_makes_no_sense_says_so(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "terminal.toml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=words):
        read(file)


def test_the_environment_turns_colours_and_lines_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert read(tmp_path / "none") == Settings(colours=False)
    monkeypatch.setenv("LC_ALL", "C")
    assert read(tmp_path / "none") == Settings(colours=False, ascii=True)


def test_the_file_is_in_the_configuration_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert default_file() == tmp_path / "spectacular-bid" / "terminal.toml"
