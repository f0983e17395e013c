"""What passes through a proxy, read: messages of gRPC and rulings on their way to PostgreSQL.

A tap says what it sees to a function at the very moment, before it goes on. That is how a test ends a process between
two steps of its work without any help from the process: the last thing it said is known, and can be kept from arriving.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from google.protobuf.message import Message

from tests.proxy import Proxy, Way

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA: Final = 0
PADDED: Final = 0x8
IDLE: Final = b"Z\x00\x00\x00\x05I"
"""PostgreSQL is ready for the next statement, and no transaction is open: whatever was asked is committed."""

Saw = Callable[[Way, Any], bool]
"""Told of a message; whether it goes on."""


def _always(_way: Way, _message: Any) -> bool:
    return True


class _Frames:
    """The messages in one direction of an HTTP/2 connection. Headers are left alone: only DATA matters."""

    def __init__(self, kind: type[Message] | None) -> None:
        self._kind = kind
        self._bytes = bytearray()
        self._streams: dict[int, bytearray] = {}
        self._begun = False

    def feed(self, piece: bytes) -> list[Message]:
        """The messages that are complete with this piece."""
        if self._kind is None:
            return []
        self._bytes += piece
        if not self._begun:
            if PREFACE.startswith(bytes(self._bytes[: len(PREFACE)])) and len(self._bytes) < len(PREFACE):
                return []
            self._begun = True
            if self._bytes.startswith(PREFACE):
                del self._bytes[: len(PREFACE)]
        found: list[Message] = []
        while len(self._bytes) >= 9 and len(self._bytes) >= 9 + (size := int.from_bytes(self._bytes[:3])):
            kind, flags, stream = self._bytes[3], self._bytes[4], int.from_bytes(self._bytes[5:9])
            body = bytes(self._bytes[9 : 9 + size])
            del self._bytes[: 9 + size]
            if kind == DATA:
                body = body[1 : len(body) - body[0]] if flags & PADDED else body
                found += self._messages(self._streams.setdefault(stream, bytearray()), body)
        return found

    def _messages(self, stream: bytearray, body: bytes) -> list[Message]:
        assert self._kind is not None
        stream += body
        found = []
        while len(stream) >= 5 and len(stream) >= 5 + (size := int.from_bytes(stream[1:5])):
            assert stream[0] == 0, "not compressed"
            message = self._kind()
            message.ParseFromString(bytes(stream[5 : 5 + size]))
            del stream[: 5 + size]
            found.append(message)
        return found


@dataclass
class GrpcTap:
    """Reads one method's messages on every connection of a proxy; use it where nothing else is called.

    `saw` is told each message, or, of a message that only carries others in `parts`, each of these.
    """

    proxy: Proxy
    kinds: Mapping[Way, type[Message]]
    parts: str = ""
    """A repeated field whose elements hold one message each in their oneof."""
    saw: Saw = _always
    seen: list[tuple[Way, Any]] = field(default_factory=list)
    """Everything so far, as it came."""

    def __post_init__(self) -> None:
        self.proxy.inspect = lambda: _Reader(self)

    def tell(self, way: Way, message: Message) -> bool:
        """Keeps a message and says whether it goes on."""
        told = [message]
        if self.parts:
            told = [getattr(part, part.WhichOneof("message")) for part in getattr(message, self.parts)]
        passes = True
        for each in told:
            self.seen.append((way, each))
            passes = self.saw(way, each) and passes
        return passes

    def clear(self) -> None:
        """Everything goes on again."""
        self.saw = _always


class _Reader:
    def __init__(self, tap: GrpcTap) -> None:
        self._tap = tap
        self._frames = {way: _Frames(tap.kinds.get(way)) for way in Way}

    def passes(self, way: Way, piece: bytes) -> bool:
        told = [self._tap.tell(way, message) for message in self._frames[way].feed(piece)]
        return all(told)


@dataclass
class CommitTap:
    """Follows one request's ruling on its way to PostgreSQL and back, on whatever connection it goes."""

    proxy: Proxy
    request_id: str = ""
    on_asked: Callable[[], bool] = lambda: True
    """Told when the statement is on its way; whether it goes on."""
    on_stored: Callable[[], bool] = lambda: True
    """Told when PostgreSQL has said that it is committed; whether that is heard."""

    def __post_init__(self) -> None:
        self.proxy.inspect = lambda: _Commit(self)


class _Commit:
    def __init__(self, tap: CommitTap) -> None:
        self._tap = tap
        self._asked = False

    def passes(self, way: Way, piece: bytes) -> bool:
        wanted = self._tap.request_id.encode()
        if way is Way.UP and wanted and wanted in piece:
            self._asked = True
            return self._tap.on_asked()
        if way is Way.DOWN and self._asked and piece.endswith(IDLE):
            self._asked = False
            return self._tap.on_stored()
        return True
