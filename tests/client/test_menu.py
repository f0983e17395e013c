"""The start menu: its keys, that everything on it exists, and the real program reached through it in a terminal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from client.__main__ import app
from client.terminal.app import menu_app
from client.terminal.canvas import width_of
from client.terminal.menu import ITEMS, Menu, draw_menu
from client.terminal.menuscreen import MenuScreen
from client.terminal.settings import Settings
from engine.rules.book import load
from engine.tiles import Tile
from tests.client.recorded import a_match
from tests.pseudoterminal import in_a_terminal


def test_everything_on_the_menu_is_a_command() -> None:
    commands = {command.name or command.callback.__name__ for command in app.registered_commands}  # type: ignore[union-attr]
    assert {item.command[0] for item in ITEMS[:-1]} == commands - {"seek"}
    assert len({item.key for item in ITEMS}) == len(ITEMS)


def test_addresses_before_the_command_are_for_all_that_the_menu_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPECTACULAR_BID_SERVER", "example.test:1")
    monkeypatch.setenv("SPECTACULAR_BID_GAME", "example.test:2")
    given = ["--server", "example.test:3", "--game", "example.test:4"]
    assert CliRunner().invoke(app, [*given, "ladder", "--count", "0"]).exit_code == 2
    assert os.environ["SPECTACULAR_BID_SERVER"] == "example.test:3"
    assert os.environ["SPECTACULAR_BID_GAME"] == "example.test:4"


def test_keys_choose_and_do() -> None:
    menu, item = Menu().press("down")
    assert (menu.place, item) == (1, None)
    assert menu.press("up")[0] == Menu()
    assert menu.press("enter")[1] == ITEMS[1]
    assert Menu().press("t")[1] is next(item for item in ITEMS if item.command == ("table",))
    assert Menu().press("escape")[1] is ITEMS[-1]
    assert Menu().press("z") == (Menu(), None)


@pytest.mark.parametrize("size", [(80, 24), (140, 45)])
def test_the_whole_menu_is_on_the_screen_and_can_be_clicked(size: tuple[int, int]) -> None:
    canvas = draw_menu(Menu(), *size)
    text = canvas.text()
    for item in ITEMS:
        assert item.title in text
        assert item.about in text
        assert any(target.key == item.key for _, _, target in canvas.targets())
    assert max(map(width_of, text.splitlines())) <= size[0]


async def test_a_key_too_many_ends_no_other_screen() -> None:
    """Two keys can come before the first has ended the screen."""
    app = menu_app(Settings())
    async with app.run_test(size=(80, 24)):
        screen = app.screen
        assert isinstance(screen, MenuScreen)
        screen.dismiss("l")
        screen.dismiss("t")
    assert (app.return_value, app.return_code) == ("l", 0)


async def test_a_bug_is_reported_without_what_it_held(capsys: pytest.CaptureFixture[str]) -> None:
    """Local variables hold hands, and what a program prints at its end stays in the terminal."""
    app = menu_app(Settings())

    def fail(hand: Tile) -> None:
        raise ValueError("a bug")

    async with app.run_test(size=(80, 24)):
        try:
            fail(Tile.parse("6|6"))
        except ValueError:
            app._fatal_error()
    told = capsys.readouterr().err
    assert "a bug" in told
    assert "hand = " not in told


async def test_rules_and_a_record_are_read_from_the_menu_without_a_service(tmp_path: Path) -> None:
    """The real program in a terminal: menu, rules in another language, a record stepped through, and out again."""
    match = a_match(1)
    file = tmp_path / "match.jsonl"
    file.write_text("\n".join(match.lines), "utf-8")
    nowhere = {"SPECTACULAR_BID_SERVER": "127.0.0.1:1", "XDG_CONFIG_HOME": str(tmp_path)}
    async with in_a_terminal("client", env=nowhere) as terminal:
        await terminal.shows("Step through a record")
        terminal.press("u")
        await terminal.shows(load("en").title)
        terminal.press("l", "l")
        await terminal.shows("スペクタキュラー・ビッド"[:4])
        terminal.press("q")
        await terminal.shows("Enter goes back")
        terminal.press("enter")
        await terminal.shows("Step through a record")
        terminal.press("r")
        await terminal.shows("Record (a file")
        terminal.press(str(file), "enter")
        await terminal.shows(f"line 1 of {len(match.lines)}")
        terminal.press("pagedown", "right")
        await terminal.shows("opens with [5|5]: counts 10")
        terminal.press("q")
        # The first time is still on the screen below.
        await terminal.until(lambda text: text.count("Enter goes back") == 2)
        terminal.press("q", "enter")
        assert await terminal.exit_status() == 0
