"""docs/terminal.md has the keys and the settings of the code."""

from __future__ import annotations

from dataclasses import fields
from importlib.metadata import entry_points

from client.__main__ import app
from client.terminal.manual import KEYS
from client.terminal.settings import Settings
from tests.test_docs import name, table

PAGE = "docs/terminal.md"


def test_the_keys_are_those_of_the_help_screen() -> None:
    said = [(keys.replace("`", ""), what) for keys, what in table(PAGE, "Keys")]
    assert said == [(keys.replace(",", ""), what) for keys, what in KEYS]


def test_the_settings_are_those_of_the_file() -> None:
    said = {name(row[0]): name(row[1]) for row in table(PAGE, "Settings")}
    assert said == {field.name: str(field.default).lower() for field in fields(Settings)}


def test_the_command_of_the_page_is_the_command_line() -> None:
    (command,) = entry_points(group="console_scripts", name="spectacular-bid")
    assert command.load() is app
