"""A match that is played or watched: a thin screen around `client.terminal.desk` and a stream of the match."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from client.bots.exhibition import shown
from client.errors import CallError, ClientError, Refused
from client.match import MatchStream
from client.session import MatchHandle
from client.terminal.canvas import Canvas
from client.terminal.desk import Desk
from client.terminal.once import OnceScreen
from client.terminal.refusals import why_refused
from client.terminal.settings import Settings
from client.terminal.story import lines
from client.terminal.view import CanvasView
from client.words import Pauses
from engine.seats import NORTH

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult

    from client.match import News
    from client.session import Client
    from client.terminal.desk import Reaction
    from engine.command import Command

_TICK_SECONDS: Final = 0.1
_SILENCE_SECONDS: Final = 12.0
"""Heartbeats come more often than this: the figures on the screen may be old."""
_MEASURES: Final = 3
_RATING_ATTEMPTS: Final = 40
_RATING_PAUSE_SECONDS: Final = 0.5


class TableScreen(OnceScreen[str]):
    """Follows one match until the player leaves. Its result is a sentence about how it stands then."""

    def __init__(
        self,
        client: Client,
        match: MatchHandle | str,
        settings: Settings | None = None,
        *,
        greeting: str = "",
    ) -> None:
        super().__init__()
        self.desk: Desk | None = None
        """What is shown; None before the first news."""
        self._client = client
        self._handle = match
        self._settings = settings or Settings()
        self._view = CanvasView(self._paint, self._settings.theme)
        self._match: MatchStream | None = None
        self._greeting = greeting
        self._way_ms: int | None = None
        self._sending = 0
        self._rung = 0
        self._answered = 0

    def compose(self) -> ComposeResult:
        """One canvas."""
        yield self._view

    def on_mount(self) -> None:
        """Follow the match, and let the clocks be seen to run."""
        self.run_worker(self._follow())
        self.set_interval(_TICK_SECONDS, self._view.repaint)

    # What is seen

    def _paint(self, width: int, height: int) -> Canvas:
        now, match, desk = time.monotonic(), self._match, self.desk
        if desk is None:
            canvas = Canvas(width, height)
            canvas.put(0, 0, "Coming to the table ...", "title")
            return canvas
        banner, stale = "", False
        if match is not None and desk.table.outcome is None:
            quiet = now - match.heard
            stale = not match.attached or quiet > _SILENCE_SECONDS
            if stale:
                banner = f"Connection lost {quiet:.0f} s ago, connecting again"
                banner += "; your move waits" if self._sending else ""
        theme = self._settings.theme
        return desk.draw(width, height, now, theme, banner=banner, stale=stale, way_ms=self._way_ms or 0)

    # What is heard

    async def _follow(self) -> None:
        pauses, attached = Pauses(), 0
        try:
            async with self._client.play(self._handle) as match:
                self._match = match
                async for news in match:
                    notices = tuple(pauses.lines(news))
                    if match.reattached > attached:
                        attached = match.reattached
                        notices = ("Connected again.", *notices)
                    self._hear(news, notices)
        except ClientError as error:
            if self.desk is None:
                self.dismiss(f"error: {error}")
                return
            self._says(f"The match cannot be followed any more: {error}", "bad")
            return
        await self._tell_rating()

    def _hear(self, news: News, notices: tuple[str, ...]) -> None:
        if self.desk is None:
            self.desk = Desk(news.table)
            self.run_worker(self._measure(news.table.match_id))
            if news.table.same_device and news.table.outcome is None:
                self.desk = self.desk.says("This match is played at one device: `table` goes on with it.")
            if self._greeting:
                self.desk = self.desk.says(self._greeting)
        self.desk = self.desk.told(news.table, tuple(lines(news)), notices)
        prompt = news.table.prompt
        command = self.desk.automatic(self._settings)
        if command is not None and prompt.decision_id > self._answered:
            self._answered = prompt.decision_id
            self._send(command, prompt.decision_id)
        elif self._settings.bell and news.table.asks_me and prompt.decision_id > self._rung:
            self.app.bell()
        if news.table.asks_me:
            self._rung = max(self._rung, prompt.decision_id)
        self._view.repaint()

    async def _measure(self, match_id: str) -> None:
        """How long a question to the service and its answer take, before the first clock matters."""
        address = self._handle.address if isinstance(self._handle, MatchHandle) else None
        for _ in range(_MEASURES):
            began = time.monotonic()
            try:
                await self._client.get_match(match_id, address)
            except ClientError:
                return
            self._took(began)

    def _took(self, began: float) -> None:
        # The quickest is nearest to what the network takes; no message is quicker than that.
        took = int((time.monotonic() - began) * 1000) + 1
        self._way_ms = took if self._way_ms is None else min(self._way_ms, took)

    async def _tell_rating(self) -> None:
        """After a rated match: what it changed, as soon as it is decided."""
        desk = self.desk
        if desk is None or desk.seat is None or not desk.table.rated:
            return
        for _ in range(_RATING_ATTEMPTS):
            try:
                made = await self._client.rating_decision(desk.table.match_id)
            except CallError as error:
                if error.reason != "NO_DECISION":
                    return
                await asyncio.sleep(_RATING_PAUSE_SECONDS)
                continue
            except ClientError:
                return
            if not made.rated:
                self._says(f"Not rated: {made.reason.replace('_', ' ')}.")
                return
            north = desk.seat is NORTH
            before = shown(made.north_before if north else made.south_before)
            after = shown(made.north_after if north else made.south_after)
            self._says(f"Your rating: {before} -> {after} ({after - before:+}).")
            return

    # What is done

    def on_key(self, event: events.Key) -> None:
        """A key that means something."""
        event.stop()
        event.prevent_default()
        if self.desk is not None:
            self._react(self.desk.press(event.key))
        elif event.key in ("q", "escape", "ctrl+c", "ctrl+q"):
            self.dismiss("")

    def on_canvas_view_chosen(self, message: CanvasView.Chosen) -> None:
        """A click does what a key would."""
        if self.desk is not None:
            self._react(self.desk.click(message.target))

    def _react(self, reaction: Reaction) -> None:
        assert self.desk is not None, "it reacted"
        # Whatever comes in meanwhile: what is sent answers the question that was on the screen.
        decision_id = self.desk.table.prompt.decision_id
        self.desk = reaction.after
        if reaction.leaves:
            self.dismiss(self._parting())
            return
        if reaction.command is not None:
            self._send(reaction.command, decision_id)
        self._view.repaint()

    def _send(self, command: Command, decision_id: int) -> None:
        self.run_worker(self._submit(command, decision_id))

    async def _submit(self, command: Command, decision_id: int) -> None:
        match = self._match
        assert match is not None, "there is a question, so there is a match"
        self._sending += 1
        began, reattached = time.monotonic(), match.reattached
        try:
            await match.submit(command, decision_id=decision_id)
        except Refused as refusal:
            self._says(f"Refused: {why_refused(refusal)}", "bad")
        except ClientError as error:
            self._says(f"Not carried out: {error}", "bad")
        else:
            if match.reattached == reattached:
                self._took(began)
        finally:
            self._sending -= 1
            if self.is_attached:
                self._view.repaint()

    def _says(self, text: str, style: str = "notice") -> None:
        if self.desk is not None:
            self.desk = self.desk.says(text, style)
            self._view.repaint()

    def _parting(self) -> str:
        assert self.desk is not None, "somebody leaves"
        table = self.desk.table
        if self.desk.seat is None or table.outcome is not None:
            return ""
        return f"The match goes on without you: `spectacular-bid watch {table.match_id}` brings you back to your seat."
