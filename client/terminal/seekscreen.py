"""Waiting for an opponent: a thin screen around `client.terminal.seeking` and a seek."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from client.errors import CallError, ClientError
from client.session import CASUAL, RATED, MatchHandle
from client.terminal.manual import draw_help
from client.terminal.once import OnceScreen
from client.terminal.seeking import Seeking, bots_offered, draw_seeking
from client.terminal.settings import Settings
from client.terminal.view import CanvasView

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult
    from textual.worker import Worker

    from client.session import Client
    from client.terminal.canvas import Canvas
    from spectacularbid.matchmaking.v1.matchmaking_service_pb2 import Waiting

_TICK_SECONDS: Final = 0.5


class SeekScreen(OnceScreen[MatchHandle | str]):
    """Seeks until there is a match or the player has enough. Its result is the match, or why there is none."""

    def __init__(
        self, client: Client, name: str, settings: Settings | None = None, *, rated: bool = True
    ) -> None:
        super().__init__()
        self._client = client
        self._who = name
        self._rated = rated
        self._settings = settings or Settings()
        self._facts: Waiting | None = None
        self._heard = 0.0
        self._helping = False
        self._cancelling = False
        self._instead = ""
        self._finished = False
        self._seek: Worker[None] | None = None
        self._view = CanvasView(self._paint, self._settings.theme)

    def compose(self) -> ComposeResult:
        """One canvas."""
        yield self._view

    def on_mount(self) -> None:
        """Seek at once."""
        self._heard = time.monotonic()
        self._seek = self.run_worker(self._wait())
        self.set_interval(_TICK_SECONDS, self._view.repaint)

    def _paint(self, width: int, height: int) -> Canvas:
        if self._helping:
            return draw_help(width, height, self._settings.theme)
        since = int((time.monotonic() - self._heard) * 1000)
        seeking = Seeking(
            self._rated, self._who, self._facts, since, "Cancelling ..." if self._cancelling else ""
        )
        return draw_seeking(seeking, width, height, self._settings.theme)

    async def _wait(self) -> None:
        try:
            handle = await self._client.seek(RATED if self._rated else CASUAL, waiting=self._hear)
        except CallError as error:
            if self._cancelling and error.reason == "SEEK_CANCELLED":
                return  # whoever cancelled it goes on
            if error.reason == "PLAYER_BUSY" and (live := await self._going_on()) is not None:
                self._finish(live)
                return
            wait = error.retry_after_seconds
            self._finish(f"error: {error.message}{'' if wait is None else f' ({wait:.0f} s)'}")
        except ClientError as error:
            self._finish(f"error: {error}")
        else:
            if self._settings.bell:
                self.app.bell()
            self._finish(handle)

    async def _going_on(self) -> MatchHandle | None:
        """The match that the player is in already, and that no pool has made."""
        try:
            return await self._client.live_match()
        except ClientError:
            return None

    def _hear(self, facts: Waiting) -> None:
        self._facts, self._heard = facts, time.monotonic()
        self._view.repaint()

    def on_key(self, event: events.Key) -> None:
        """Cancel, or the help."""
        event.stop()
        event.prevent_default()
        if self._helping or event.key == "question_mark":
            self._helping = not self._helping
        else:
            self._press(event.key)
        self._view.repaint()

    def _press(self, key: str) -> None:
        bots = bots_offered(self._facts)
        if key in ("escape", "q", "ctrl+c", "ctrl+q"):
            self._cancel()
        elif len(key) == 1 and key in "123456789"[: len(bots)]:
            self._cancel(instead=bots[int(key) - 1])

    def on_canvas_view_chosen(self, message: CanvasView.Chosen) -> None:
        """Buttons stand for keys."""
        self._press(message.target.key)
        self._view.repaint()

    def _cancel(self, instead: str = "") -> None:
        if not self._cancelling:
            self._cancelling, self._instead = True, instead
            self.run_worker(self._withdraw())

    def _finish(self, result: MatchHandle | str) -> None:
        """The first result counts: a match may come while a cancellation is on its way."""
        if not self._finished:
            self._finished = True
            self.dismiss(result)

    async def _withdraw(self) -> None:
        """Cancelled means cancelled: the service says so, or the match that came first is played."""
        assert self._seek is not None, "it began with the screen"
        try:
            await self._client.cancel_seek()
        except CallError as error:
            if error.reason == "ALREADY_MATCHED":
                return  # the seek is about to say so itself
        except ClientError:
            pass  # closing the stream cancels too
        if self._finished:
            return
        self._seek.cancel()
        if not self._instead:
            self._finish("The search is cancelled.")
            return
        try:
            self._finish(await self._client.challenge(house_bot=self._instead))
        except ClientError as error:
            self._finish(f"error: {error}")
