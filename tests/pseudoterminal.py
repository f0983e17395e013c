"""A program in a pseudo-terminal, and what a person in front of it would see."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import pty
import re
import signal
import struct
import sys
import termios
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import pyte

SECONDS_MAX = 30.0
"""How long a screen may take to say what is awaited: far more than it needs, even on a busy machine."""

KEYS: Mapping[str, bytes] = {
    "enter": b"\r",
    "escape": b"\x1b",
    "left": b"\x1b[D",
    "right": b"\x1b[C",
    "up": b"\x1b[A",
    "down": b"\x1b[B",
    "tab": b"\t",
    "pageup": b"\x1b[5~",
    "pagedown": b"\x1b[6~",
}
"""What a terminal sends for keys that have no character."""

_CHANGE = re.compile(rb"\x1b\[\?1049([hl])")
_CHANGE_BEGINS = b"\x1b[?1049"

# Synchronised output: a program that knows that its terminal has it marks the beginning and the end of each picture.
_ASKS_FOR_MARKS = b"\x1b[?2026$p"
_HAS_MARKS = b"\x1b[?2026;2$y"
_BEGINS, _ENDS = b"\x1b[?2026h", b"\x1b[?2026l"


class Terminal:
    """The screen of one program, as an emulator draws it, and its keyboard."""

    def __init__(self, descriptor: int, process: asyncio.subprocess.Process, columns: int, rows: int) -> None:
        self._screens = (pyte.Screen(columns, rows), pyte.Screen(columns, rows))
        """The normal one and the alternate one, which is blank whenever a program changes to it."""
        self.looks: list[Callable[[str], None]] = []
        """Each is shown the screen after everything that was drawn; it may raise AssertionError."""
        self.process = process
        self._streams = tuple(pyte.ByteStream(screen) for screen in self._screens)
        self._shown = 0
        self._rest = b""
        self._descriptor = descriptor
        self._changed = asyncio.Event()
        self._failed: AssertionError | None = None
        self._drawing = False
        self.ended = False
        asyncio.get_running_loop().add_reader(descriptor, self._read)

    @property
    def whole(self) -> bool:
        """Whether no picture is half drawn, of a program that says where its pictures begin and end."""
        return not self._drawing

    def _read(self) -> None:
        try:
            piece = os.read(self._descriptor, 65536)
        except OSError as error:
            if error.errno not in (errno.EIO, errno.EBADF):
                raise
            piece = b""
        if not piece:
            self.ended = True
            asyncio.get_running_loop().remove_reader(self._descriptor)
        if _ASKS_FOR_MARKS in piece:
            os.write(self._descriptor, _HAS_MARKS)
        self._drawing = piece.rfind(_BEGINS) > piece.rfind(_ENDS) or (self._drawing and _ENDS not in piece)
        self._feed(piece)
        for look in self.looks:
            try:
                look(self.text)
            except AssertionError as error:
                self._failed = self._failed or error
        self._changed.set()

    def _feed(self, piece: bytes) -> None:
        """pyte knows no alternate screen: what is between the two sequences goes to a screen of its own."""
        begun = self._rest + piece
        cut = begun.rfind(b"\x1b")
        whole = not cut >= 0 or not _CHANGE_BEGINS.startswith(begun[cut : cut + len(_CHANGE_BEGINS)])
        complete = whole or len(begun) - cut > len(_CHANGE_BEGINS)
        self._rest = b"" if complete else begun[cut:]
        for number, part in enumerate(_CHANGE.split(begun if complete else begun[:cut])):
            if number % 2 == 0:
                self._streams[self._shown].feed(part)
            elif part == b"h":
                self._shown = 1
                self._screens[1].reset()
            else:
                self._shown = 0

    @property
    def screen(self) -> pyte.Screen:
        """The screen that is shown."""
        return self._screens[self._shown]

    @property
    def text(self) -> str:
        """The screen's rows, without blanks at their ends."""
        # Not `screen.display`, which fails on a wide character that is half written over.
        columns, rows = range(self.screen.columns), range(self.screen.lines)
        cells = self.screen.buffer
        return "\n".join("".join(cells[row][column].data for column in columns).rstrip() for row in rows)

    def press(self, *keys: str) -> None:
        """Type keys: names of `KEYS`, or characters as they are."""
        for key in keys:
            os.write(self._descriptor, KEYS.get(key) or key.encode())

    async def until(self, wanted: Callable[[str], bool]) -> str:
        """Wait for a screen that is drawn to its end; AssertionError with the last screen when it does not come, or when a look failed."""
        try:
            async with asyncio.timeout(SECONDS_MAX):
                while True:
                    if self._failed is not None:
                        raise self._failed
                    if self.whole and wanted(self.text):
                        return self.text
                    if self.ended:
                        break
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            pass
        what = "the program ended" if self.ended else "it does not come"
        raise AssertionError(f"{what}; the screen is\n{self.text}") from None

    async def shows(self, words: str) -> str:
        """Wait until these words are somewhere on the screen."""
        return await self.until(lambda text: words in text)

    async def exit_status(self) -> int:
        """Wait for the end of the program, and check what was looked at to the last."""
        async with asyncio.timeout(SECONDS_MAX):
            status = await self.process.wait()
            while not self.ended:
                self._changed.clear()
                await self._changed.wait()
        if self._failed is not None:
            raise self._failed
        return status


@asynccontextmanager
async def in_a_terminal(
    *arguments: str, columns: int = 80, rows: int = 24, env: Mapping[str, str] | None = None
) -> AsyncIterator[Terminal]:
    """Run `python -m …` in a pseudo-terminal of this size; it is ended afterwards, whatever happened."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    environment = {
        **os.environ,
        "TERM": "xterm-256color",
        "COLUMNS": str(columns),
        "LINES": str(rows),
        "LC_ALL": "C.UTF-8",
        **(env or {}),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        *arguments,
        stdin=inner,
        stdout=inner,
        stderr=inner,
        env=environment,
        start_new_session=True,
    )
    os.close(inner)
    terminal = Terminal(outer, process, columns, rows)
    try:
        yield terminal
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
            await process.wait()
        if not terminal.ended:
            asyncio.get_running_loop().remove_reader(outer)
        os.close(outer)
