"""JSON logs on standard output: a fixed event name and keyed values. Tiles, shuffles and tokens never go in.

What must not be seen is taken out of each line, of libraries' records and of what ends a process too
(`services/common/redaction.py`).
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections import deque
from types import TracebackType
from typing import Any, TextIO, cast

import structlog

from services.common.redaction import render
from services.common.tracing import add_trace_id

Logger = structlog.typing.FilteringBoundLogger


class _Output:
    """Standard output: all lines of a process in the order in which they were handed over."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        # Appended to and emptied by single operations, since other threads have something to say, too.
        self._waiting: deque[str] = deque()
        self._due = False
        """Whether the loop will write what waits. The loop's thread alone asks: another may be writing just now."""

    def write(self, text: str) -> None:
        """Whole lines, to be written with the next `flush`."""
        self._waiting.append(text)

    def flush(self) -> None:
        """Writes what waits, in one go."""
        lines = []
        while self._waiting:
            lines.append(self._waiting.popleft())
        if lines:
            self._stream.write("".join(lines))
            self._stream.flush()

    def msg(self, line: str) -> None:
        """A line of structlog, which is written at once."""
        self.write(f"{line}\n")
        self.flush()

    debug = info = warning = error = critical = exception = msg

    def soon(self, text: str) -> None:
        """Whole lines, written when the loop has done what it is at, together with all others of that time."""
        self.write(text)
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._write_due)

    def _write_due(self) -> None:
        self._due = False
        self.flush()


class _Frequent:
    """Where the lines go that there are for every command."""

    output: _Output | None = None
    """None while this process has no log, or none of this level."""
    second = -1
    at = ""

    def now(self) -> str:
        """As the other lines have it."""
        second, rest = divmod(time.time_ns() // 1000, 1_000_000)
        if second != self.second:
            self.second, self.at = second, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        return f"{self.at}.{rest:06d}Z"


_frequent = _Frequent()


def write_frequent(event: str, fields: str) -> None:
    """A line of level info at an eighth of the price of others, for what happens with every command. On the loop.

    `fields` is the inside of a JSON object which anybody may see: numbers, and texts that have no secret in them by
    their form, or by `services.common.redaction.quoted`. It is written within this turn of the loop, in its place
    between the others; what ends a process without a word loses no more than that turn.
    """
    output = _frequent.output
    if output is not None:
        output.soon(f'{{"event": "{event}", "level": "info", "at": "{_frequent.now()}", {fields}}}\n')


def flush() -> None:
    """Writes what waits to be written. To be called before a process ends without Python's own end."""
    if _frequent.output is not None:
        _frequent.output.flush()


def configure(level: str) -> None:
    """Logs of this process from `level` upwards, one JSON object a line, libraries' records included.

    What nobody catches is logged as well, and not told to standard error by Python itself.
    """
    stamps: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        add_trace_id,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
    ]
    flush()
    number, output = getattr(logging, level.upper()), _Output(sys.stdout)
    _frequent.output = output if number <= logging.INFO else None
    structlog.configure(
        processors=[*stamps, structlog.processors.format_exc_info, render],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=lambda *_: output,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(cast(TextIO, output))
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*stamps, structlog.processors.format_exc_info],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, render],
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    sys.excepthook = _crashed
    threading.excepthook = lambda fault: _crashed(
        fault.exc_type, fault.exc_value or fault.exc_type(), fault.exc_traceback
    )
    sys.unraisablehook = lambda fault: _crashed(
        fault.exc_type, fault.exc_value or fault.exc_type(), fault.exc_traceback
    )


def get_logger() -> Logger:
    """The logger of this process."""
    return cast(Logger, structlog.get_logger())


def _crashed(kind: type[BaseException], fault: BaseException, trace: TracebackType | None) -> Any:
    # Its text may hold anything: it goes the way of all lines.
    get_logger().error("crashed", exc_info=(kind, fault, trace))
