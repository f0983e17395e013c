"""Traces: to which call of a client an action belongs, across processes (W3C Trace Context).

A call of a player begins a trace of its own: what a player names in `traceparent` is linked and logged, and decides
nothing. Between our processes a trace is handed on. Spans are made only by a tracer with an endpoint
(`services/common/spans.py`); without one nothing of OpenTelemetry is imported.
"""

from __future__ import annotations

import contextvars
import re
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol

HEADER: Final = "traceparent"
_HEADER: Final = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})\Z")

Attribute = str | int | float | bool


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A place in a trace, as it goes from process to process."""

    trace_id: str
    """32 hexadecimal digits."""
    span_id: str
    """16 hexadecimal digits: what caused this."""
    sampled: bool = True

    @classmethod
    def parse(cls, text: str) -> TraceContext | None:
        """What a `traceparent` says; None for anything else: a client's mistake must not fail its call."""
        found = _HEADER.match(text)
        if found is None or not int(found[1], 16) or not int(found[2], 16):
            return None
        return cls(found[1], found[2], bool(int(found[3], 16) & 1))

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"


class Kind(StrEnum):
    """What a span is to others."""

    SERVER = "server"
    """It answers somebody."""
    CONSUMER = "consumer"
    """It does what was asked for by a message."""
    INTERNAL = "internal"


class Span(Protocol):
    """Something that takes time."""

    @property
    def context(self) -> TraceContext | None:
        """What goes on to whatever this causes."""

    def end(self, *, ended_ns: int | None = None, failed: bool = False, **attributes: Attribute) -> None:
        """It is over, now or at `ended_ns` (since 1970). Attributes never hold tiles or tokens."""


class Tracer(Protocol):
    """Makes spans."""

    def begin(
        self,
        name: str,
        parent: TraceContext | None,
        kind: Kind = Kind.INTERNAL,
        *,
        began_ns: int | None = None,
        links: Sequence[TraceContext] = (),
        **attributes: Attribute,
    ) -> Span:
        """A span that begins now or began at `began_ns` (since 1970). Without a parent it begins a trace."""

    def close(self) -> None:
        """Sends what is left; waits a moment for that."""


@dataclass(frozen=True, slots=True)
class _NoSpan:
    context: TraceContext | None

    def end(self, *, ended_ns: int | None = None, failed: bool = False, **attributes: Attribute) -> None:
        """Nothing to tell."""


class NoTracer:
    """Makes none: what comes in goes on."""

    def begin(
        self,
        name: str,  # noqa: ARG002
        parent: TraceContext | None,
        kind: Kind = Kind.INTERNAL,  # noqa: ARG002
        *,
        began_ns: int | None = None,  # noqa: ARG002
        links: Sequence[TraceContext] = (),  # noqa: ARG002
        **attributes: Attribute,  # noqa: ARG002
    ) -> Span:
        """The parent again."""
        return _NoSpan(parent)

    def close(self) -> None:
        """Nothing is left."""


class TracingUnavailableError(Exception):
    """Traces were asked for and cannot be made; the text says what is missing."""


def open_tracer(endpoint: str, service: str) -> Tracer:
    """Spans of `service` to the OTLP endpoint (`http://host:4317`, `https://…`); without one, no spans.

    Raises TracingUnavailableError when the extra `tracing` is not installed.
    """
    if not endpoint:
        return NoTracer()
    try:
        from services.common.spans import OtlpTracer
    except ImportError as error:
        raise TracingUnavailableError(f"traces need the extra `tracing` of this project: {error}") from None
    return OtlpTracer(endpoint, service)


_here: contextvars.ContextVar[TraceContext | None] = contextvars.ContextVar("trace", default=None)
_named: contextvars.ContextVar[str | None] = contextvars.ContextVar("named", default=None)


def here() -> TraceContext | None:
    """The trace that the running call or command belongs to."""
    return _here.get()


def enter(context: TraceContext | None, named: TraceContext | None = None) -> None:
    """What this task does from now on belongs to that trace, or to none. `named` is what the caller calls it."""
    _here.set(context)
    _named.set(None if named is None else named.trace_id)


def named_by_caller() -> str | None:
    """The id of the trace that the caller of the running call has named: of no meaning to us, but perhaps to the caller."""
    return _named.get()


@contextmanager
def within(context: TraceContext | None) -> Iterator[None]:
    """What is done inside belongs to that trace, or to none."""
    token = _here.set(context)
    try:
        yield
    finally:
        _here.reset(token)


def from_metadata(metadata: Iterable[tuple[str, Any]] | None) -> TraceContext | None:
    """The trace that a caller names, if one does."""
    for key, value in metadata or ():
        if key == HEADER and isinstance(value, str):
            return TraceContext.parse(value)
    return None


def add_trace_id(_logger: object, _level: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A processor of structlog: each line of a call or command names its trace, if it has one, and that of its caller."""
    context, named = _here.get(), _named.get()
    if context is not None:
        line.setdefault("trace_id", context.trace_id)
    if named is not None:
        line.setdefault("client_trace_id", named)
    return line
