"""Two people at one device in plain text: one page at a time, and no page keeps a hand for the other to find.

The pages are on the terminal's alternate screen, which has no scrollback, and each is wiped before the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from typing import TYPE_CHECKING, Final, TextIO

from client.bots.account import minutes, verdict
from client.errors import CallError
from client.handover import Device, Stage
from client.hotseat import options, picture
from client.session import MatchHandle
from client.terminal.sharedtable import heard
from client.wire import player_from_pb
from client.words import Pauses
from engine.command import Resign
from engine.seats import NORTH, SEATS, BySeat
from spectacularbid.match.v1 import match_service_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator

    from client.hotseat import Choice
    from client.match import MatchStream
    from client.session import Client
    from client.table import TableState
    from engine.command import Command
    from engine.seats import Seat

_ENTER_SCREEN: Final = "\x1b[?1049h"
_LEAVE_SCREEN: Final = "\x1b[?1049l"
_WIPE: Final = "\x1b[2J\x1b[H"
_TOLD_MAX: Final = 6
_COLUMN: Final = 39
_ROWS_MAX: Final = 12
"""Choices below each other; more stand in two columns, so that a page never scrolls on 24 lines."""


async def take_seats(client: Client) -> MatchHandle:
    """The player's live match on one device, or a new one.

    Raises CallError PLAYER_BUSY while the player has another live match.
    """
    async for summary in client.my_matches(live_only=True):
        if summary.north.player_id == summary.south.player_id:
            # While the match moves it has no address: any game process says where it has gone.
            address, other = summary.address or client.game_address, player_from_pb(summary.south)
            return MatchHandle(summary.match_id, address, NORTH, other)
    request = match_service_pb2.CreateMatchRequest(same_device=True)
    return await client.create_match(request)


async def share(client: Client, handle: MatchHandle, names: BySeat[str]) -> str:
    """Play a match of two people at this terminal; how it ended, in a sentence, or why it goes on later."""
    lines: asyncio.Queue[str | None] = asyncio.Queue()
    _listen(lines)
    with _own_screen(sys.stdout):
        async with client.play(handle) as match:
            return await _Pages(match, names, sys.stdout, lines).turn_over()


@contextlib.contextmanager
def _own_screen(out: TextIO) -> Iterator[None]:
    """Whatever is written meanwhile leaves no trace in the terminal."""
    out.write(_ENTER_SCREEN + _WIPE)
    try:
        yield
    finally:
        out.write(_WIPE + _LEAVE_SCREEN)
        out.flush()


def _listen(lines: asyncio.Queue[str | None]) -> None:
    """Each line that is typed goes into the queue, and None at the end of the input."""
    loop = asyncio.get_running_loop()

    def read() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            for line in iter(sys.stdin.readline, ""):
                loop.call_soon_threadsafe(lines.put_nowait, line.strip())
            loop.call_soon_threadsafe(lines.put_nowait, None)

    # Nothing can end a read that waits for a line; as a daemon it keeps nobody waiting.
    threading.Thread(target=read, name="typed", daemon=True).start()


class _Pages:
    """The pages of one match, and what is typed at them."""

    def __init__(
        self, match: MatchStream, names: BySeat[str], out: TextIO, lines: asyncio.Queue[str | None]
    ) -> None:
        self._match = match
        self._device = Device(names)
        self._out = out
        self._lines = lines
        self._heard = asyncio.Event()
        self._told: list[str] = []
        self._page = Stage.WAITING
        self._notice = ""
        self._leaving = False

    async def turn_over(self) -> str:
        """To the end of the match, or until they leave."""
        reading = asyncio.create_task(self._read())
        typing = asyncio.create_task(self._lines.get())
        try:
            while True:
                self._draw()
                hearing = asyncio.create_task(self._heard.wait())
                await asyncio.wait({hearing, typing, reading}, return_when=asyncio.FIRST_COMPLETED)
                hearing.cancel()
                self._heard.clear()
                if reading.done():
                    reading.result()
                    return verdict(self._seen())
                if typing.done():
                    line, typing = typing.result(), asyncio.create_task(self._lines.get())
                    if line is None or await self._typed(line.lower()):
                        return "The match waits for you: `table` goes on with it."
        finally:
            reading.cancel()
            typing.cancel()

    def _seen(self) -> TableState:
        shown = self._device.shown
        assert shown is not None, "the match has been told"
        return shown

    async def _read(self) -> None:
        pauses = Pauses()
        async for news in self._match:
            before = self._device.stage
            self._device = self._device.told(news.table)
            if before is Stage.HAND_OVER and self._device.stage is Stage.TURN:
                self._told.clear()
            self._told += pauses.lines(news) + list(heard(self._device, news))
            if before is Stage.TURN and self._device.stage is not Stage.TURN:
                self._leaving, self._notice = False, ""
            self._heard.set()

    # What is typed

    async def _typed(self, line: str) -> bool:
        """Answer one line; True when they leave the match for later."""
        self._notice = ""
        if self._leaving:
            return await self._leave(line)
        if line == "q":
            self._leaving = True
            return False
        stage, table = self._device.stage, self._device.table
        if table is None or stage is Stage.OVER:
            return False
        decision_id = table.prompt.decision_id
        if stage is Stage.TURN:
            await self._decide(line, decision_id)
            return False
        commands = self._device.commands
        if stage is Stage.HAND_OVER:
            if line not in ("", "r"):
                return False
            self._device = self._device.reveal()
        for command in commands:
            await self._submit(command, decision_id)
        return False

    async def _leave(self, line: str) -> bool:
        self._leaving = False
        holder, table = self._device.holder, self._device.table
        if line == "y" and holder is not None and table is not None:
            await self._submit(Resign(holder), table.prompt.decision_id)
        return line == "l"

    async def _decide(self, line: str, decision_id: int) -> None:
        choices = self._choices()
        if line == "" and len(choices) == 1:
            line = "1"
        if line.isdigit() and 1 <= int(line) <= len(choices):
            await self._submit(choices[int(line) - 1][1], decision_id)
        else:
            self._notice = f"1 to {len(choices)}, please."

    async def _submit(self, command: Command, decision_id: int) -> None:
        try:
            await self._match.submit(command, decision_id=decision_id)
        except CallError as error:
            self._notice = f"Refused: {error.message}"

    def _choices(self) -> list[Choice]:
        shown = self._seen()
        return [] if shown.seat is None else options(shown, shown.seat)

    # What is on the page

    def _draw(self) -> None:
        stage = self._device.stage
        if self._leaving:
            body = self._leaving_page()
        elif stage is Stage.TURN:
            body = self._turn_page()
        else:
            body = self._common_page()
        self._out.write(_WIPE + "\r\n".join([*body, self._notice, "> "]))
        self._out.flush()

    def _leaving_page(self) -> list[str]:
        holder = self._device.holder
        resigns = [] if holder is None else [f"  y  {self._device.names[holder]} resigns"]
        return [
            "Leave?",
            "",
            "  l  leave it as it is, and go on later",
            *resigns,
            "     anything else goes back",
        ]

    def _turn_page(self) -> list[str]:
        shown, holder = self._seen(), self._device.holder
        assert holder is not None, "a turn is somebody's"
        choices = [text for text, _ in self._choices()]
        if len(choices) > _ROWS_MAX:
            choices = [_short(text) for text in choices]
        rows = [f"  {number:>2}  {text}" for number, text in enumerate(choices, 1)]
        if len(rows) > _ROWS_MAX:
            half = -(-len(rows) // 2)
            rows = [
                f"{left:<{_COLUMN}}{right}".rstrip()
                for left, right in zip(rows[:half], [*rows[half:], ""], strict=False)
            ]
        return [
            f"{self._device.names[holder]}'s turn",
            *picture(shown, holder),
            *rows,
            "",
            "A number, then Enter; q leaves or resigns.",
        ]

    def _common_page(self) -> list[str]:
        shown, stage = self._device.shown, self._device.stage
        if shown is None:
            return ["Waiting for the service"]
        ends = "  ".join(f"{each.end} ({each.value})" for each in shown.ends)
        layout = [f"Count {shown.count}.  Ends: {ends}"] if shown.ends else []
        return [
            *(f"  {self._standing(shown, seat)}" for seat in SEATS),
            "",
            f"Round {shown.round_no}, boneyard {shown.boneyard}. The clocks stand still.",
            *layout,
            "",
            *self._told[-_TOLD_MAX:],
            "",
            self._question(stage),
        ]

    def _standing(self, shown: TableState, seat: Seat) -> str:
        name = self._device.names[seat]
        return (
            f"{name:<16} {shown.balances[seat]:>3} points, {shown.tiles[seat]} tiles, "
            f"bank {minutes(shown.banks_ms[seat])}"
        )

    def _question(self, stage: Stage) -> str:
        holder = self._device.holder
        if stage is Stage.HAND_OVER and holder is not None:
            name = self._device.names[holder]
            return f"Pass the device to {name.upper()}. {name} presses Enter to see the tiles. (q leaves)"
        return {
            Stage.START: "Both ready? Enter starts the match. (q leaves)",
            Stage.CONTINUE: "The round is over. Enter deals the next one. (q leaves)",
        }.get(stage, "One moment")


def _short(text: str) -> str:
    """A choice in half a line; a star marks a count that scores."""
    plain, scores, _ = text.partition(", scores")
    return plain.removeprefix("play ").replace(": counts ", " = ") + ("*" if scores else "")
