"""The screens in docs/screens are those of the code, and the thin screens do what the pure ones say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, cast

import grpc
import pytest
from textual.app import App, ComposeResult
from textual.geometry import Region

from client.errors import call_error
from client.session import Client, MatchHandle
from client.terminal.app import seek_app
from client.terminal.canvas import Canvas, Target
from client.terminal.seeking import Seeking, draw_seeking
from client.terminal.settings import Settings
from client.terminal.view import CanvasView
from engine.seats import NORTH
from spectacularbid.matchmaking.v1.matchmaking_service_pb2 import Waiting
from tests.screens import FOLDER, screens


def test_the_screens_of_the_documentation_are_those_of_the_code() -> None:
    """After an intended change: `python -m tests.screens`, and look at the pictures before you commit them."""
    made = {f"{name}.txt": canvas.text() + "\n" for name, canvas in screens()}
    kept = {path.name: path.read_text("utf-8") for path in FOLDER.glob("*.txt")}
    assert kept == made
    assert {path.stem for path in FOLDER.glob("*.png")} == {path.stem for path in FOLDER.glob("*.txt")}


class OneView(App[None]):
    """A view alone; what was clicked."""

    def __init__(self, paint: Callable[[int, int], Canvas]) -> None:
        super().__init__()
        self.view = CanvasView(paint)
        self.clicked: list[Target] = []

    def compose(self) -> ComposeResult:
        yield self.view

    def on_canvas_view_chosen(self, message: CanvasView.Chosen) -> None:
        self.clicked.append(message.target)


async def test_only_the_rows_that_changed_are_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that runs must not send the whole screen through a slow connection ten times a second."""
    words = {3: "delay 9", 5: "hand"}

    def paint(width: int, height: int) -> Canvas:
        canvas = Canvas(width, height)
        for row, text in words.items():
            canvas.put(0, row, text)
        return canvas

    app = OneView(paint)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        sent: list[Iterable[Region]] = []
        monkeypatch.setattr(app.view, "refresh", lambda *regions, **_: sent.append(regions))
        app.view.repaint()
        assert sent == []
        words[3] = "delay 8"
        app.view.repaint()
        assert sent == [(Region(0, 3, 80, 1),)]


async def test_a_click_is_what_lies_in_that_cell() -> None:
    def paint(width: int, height: int) -> Canvas:
        canvas = Canvas(width, height)
        canvas.put(10, 4, " Play ", "button", Target(key="enter"))
        return canvas

    app = OneView(paint)
    async with app.run_test(size=(80, 24)) as pilot:
        for column in (9, 10, 15, 16):
            await pilot.click(CanvasView, offset=(column, 4))
        assert app.clicked == [Target(key="enter")] * 2


class Seeker:
    """A service of which only the queue is there: it pairs when `found` is set."""

    def __init__(self, *, too_late: bool = False) -> None:
        self.found = asyncio.Event()
        self.cancelled = 0
        self.too_late = too_late

    async def seek(self, pool: int, *, waiting: Callable[[Waiting], None]) -> MatchHandle:
        bots = ["easy", "strong"]
        waiting(Waiting(waited_ms=3_000, players_waiting=2, rating_window=80, house_bots=bots))
        await self.found.wait()
        return MatchHandle("the match", "nowhere:1", NORTH)

    async def cancel_seek(self) -> None:
        self.cancelled += 1
        if self.too_late:
            self.found.set()
            raise call_error(grpc.StatusCode.FAILED_PRECONDITION, "ALREADY_MATCHED", "there is a match")

    async def challenge(self, *, house_bot: str) -> MatchHandle:
        assert self.cancelled, "who seeks plays nobody else"
        return MatchHandle(f"against {house_bot}", "nowhere:1", NORTH)


async def test_a_search_shows_the_queue_and_cancelled_means_cancelled() -> None:
    seeker = Seeker()
    app = seek_app(cast("Client", seeker), "Nora", Settings(bell=False), rated=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        text = app.screen.query_one(CanvasView).canvas.text()
        assert "2, you included" in text
        assert "within 80 points" in text
        await pilot.press("escape", "escape")
        await pilot.pause()
    assert seeker.cancelled == 1
    assert app.return_value == "The search is cancelled."


async def test_a_match_that_was_made_before_the_cancellation_is_the_result() -> None:
    seeker = Seeker(too_late=True)
    results: list[Any] = []
    app = seek_app(cast("Client", seeker), "Nora", Settings(bell=False), rated=True)
    app._then = results.append
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("escape")
        await pilot.pause()
    assert [handle.match_id for handle in results] == ["the match"]


async def test_who_waits_long_may_play_a_house_bot_instead() -> None:
    seeker = Seeker()
    results: list[Any] = []
    app = seek_app(cast("Client", seeker), "Nora", Settings(bell=False), rated=True)
    app._then = results.append
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert "2 Play strong" in app.screen.query_one(CanvasView).canvas.text()
        await pilot.press("2")
        await pilot.pause()
    assert [handle.match_id for handle in results] == ["against strong"]


def test_a_search_that_hears_nothing_says_so() -> None:
    waiting = Waiting(waited_ms=60_000, players_waiting=2, rating_window=80)

    def text(since_ms: int) -> str:
        return draw_seeking(Seeking(rated=True, name="Nora", facts=waiting, since_ms=since_ms), 80, 24).text()

    assert "No word from the service for 12 s" in text(12_000)
    assert "No word" not in text(3_000)
    assert "1:12 min" in text(12_000)
