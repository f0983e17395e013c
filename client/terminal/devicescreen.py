"""Two people at one device: a thin screen around `client.terminal.sharedtable` and a stream of the match."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from client.bots.account import verdict
from client.errors import ClientError, Refused
from client.handover import Device, Stage
from client.terminal.manual import draw_help
from client.terminal.once import OnceScreen
from client.terminal.refusals import why_refused
from client.terminal.settings import Settings
from client.terminal.sharedtable import SharedTable, draw_shared, heard
from client.terminal.view import CanvasView
from client.words import Pauses

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult

    from client.match import MatchStream, News
    from client.session import Client, MatchHandle
    from client.terminal.canvas import Canvas
    from client.terminal.sharedtable import Pressing
    from engine.command import Command
    from engine.seats import BySeat

_TICK_SECONDS = 0.1
_QUIET_TICKS = 10
_SILENCE_SECONDS = 12.0
"""Heartbeats come more often than this: the figures on the screen may be old."""


class DeviceScreen(OnceScreen[str]):
    """Plays one match to its end, or until they leave; its result is a sentence that says which."""

    def __init__(
        self, client: Client, handle: MatchHandle, names: BySeat[str], settings: Settings | None = None
    ) -> None:
        super().__init__()
        self.table = SharedTable(Device(names))
        self._client = client
        self._handle = handle
        self._look = (settings or Settings()).theme
        self._view = CanvasView(self._paint, self._look)
        self._match: MatchStream | None = None
        self._helping = False
        self._ticks = 0

    def compose(self) -> ComposeResult:
        """One canvas."""
        yield self._view

    def on_mount(self) -> None:
        """Follow the match, and let the clocks be seen to run."""
        self.run_worker(self._follow())
        self.set_interval(_TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        # While the device is handed over nothing runs that would have to be seen; only the connection may be lost.
        self._ticks += 1
        if self.table.device.stage is Stage.TURN or self._ticks % _QUIET_TICKS == 0:
            self._view.repaint()

    def _paint(self, width: int, height: int) -> Canvas:
        now = time.monotonic()
        match, table = self._match, self.table.device.table
        lost = stale = False
        if match is not None and table is not None and table.outcome is None:
            stale = now - match.heard > _SILENCE_SECONDS
            lost = stale or not match.attached
        banner = "connection lost, connecting again" if lost else ""
        drawn = draw_shared(self.table, width, height, now, self._look, banner=banner, stale=stale)
        return draw_help(width, height, self._look) if self._helping else drawn

    async def _follow(self) -> None:
        pauses = Pauses()
        try:
            async with self._client.play(self._handle) as match:
                self._match = match
                async for news in match:
                    self._hear(news, pauses)
        except ClientError as error:
            self.dismiss(f"error: {error}")

    def _hear(self, news: News, pauses: Pauses) -> None:
        lines = (*pauses.lines(news), *heard(self.table.device, news))
        self.table = self.table.told(news.table, lines)
        self._view.repaint()

    def on_key(self, event: events.Key) -> None:
        """A key that means something."""
        event.stop()
        event.prevent_default()
        if self._helping or event.key == "question_mark":
            self._helping = not self._helping
            self._view.repaint()
            return
        self._do(self.table.press(event.key))

    def on_canvas_view_chosen(self, message: CanvasView.Chosen) -> None:
        """A click does what a key would."""
        self._do(self.table.click(message.target))

    def _do(self, pressing: Pressing) -> None:
        device = self.table.device
        self.table = pressing.after
        if pressing.leaves:
            over = device.table is not None and device.table.outcome is not None
            shown = device.shown
            self.dismiss(
                verdict(shown) if over and shown is not None else "The match waits: `table` goes on with it."
            )
            return
        if pressing.commands and device.table is not None:
            self.run_worker(self._send(pressing.commands, device.table.prompt.decision_id))
        self._view.repaint()

    async def _send(self, commands: tuple[Command, ...], decision_id: int) -> None:
        assert self._match is not None, "there is a question, so there is a match"
        for command in commands:
            try:
                await self._match.submit(command, decision_id=decision_id)
            except Refused as refusal:
                self.table = self.table.refused(f"Refused: {why_refused(refusal)}")
            except ClientError as error:
                self.table = self.table.refused(f"Not sent: {error}")
        self._view.repaint()
