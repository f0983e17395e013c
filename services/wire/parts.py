"""Messages of spectacularbid.match.v1 put together from parts that are encoded once, for all who are told the same.

An embedded message is its field's tag, its length and its bytes; so a message is the bytes of its fields one after
another, in any order. No embedded message is ever split in two: not every decoder would merge the halves.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from google.protobuf.message import Message

from spectacularbid.match.v1 import match_service_pb2, table_pb2

_LENGTH_DELIMITED: Final = 2


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_KNOWN: Final = 1 << 9
"""Nearly all parts are shorter."""


class Part:
    """A field that holds a message, or a text."""

    def __init__(self, kind: type[Message], name: str) -> None:
        self._tag = _varint(kind.DESCRIPTOR.fields_by_name[name].number << 3 | _LENGTH_DELIMITED)
        self._heads = [self._tag + _varint(length) for length in range(_KNOWN)]

    def of(self, encoded: bytes) -> bytes:
        """The field with what it holds, which is encoded already."""
        length = len(encoded)
        return (self._heads[length] if length < _KNOWN else self._tag + _varint(length)) + encoded


_SNAPSHOT: Final = Part(match_service_pb2.WatchResponse, "snapshot")
_NEWS: Final = Part(match_service_pb2.PlayResponse, "news")
_ANSWERS: Final = Part(match_service_pb2.PlayResponse, "answers")
_REQUEST_ID: Final = Part(match_service_pb2.Answer, "request_id")
_APPLIED: Final = Part(match_service_pb2.Answer, "applied")
_REFUSED: Final = Part(match_service_pb2.Answer, "refused")
_TABLE: Final = Part(match_service_pb2.Snapshot, "table")
_QUESTION: Final = Part(table_pb2.Table, "prompt")


event: Final = Part(match_service_pb2.WatchResponse, "events").of
"""An event in a WatchResponse."""
prompt: Final = Part(match_service_pb2.WatchResponse, "prompt").of
"""A prompt in a WatchResponse."""


def snapshot(sequence: int, table: bytes, question: bytes) -> bytes:
    """A snapshot in a WatchResponse: of a table without its question, and the question."""
    numbered = match_service_pb2.Snapshot(sequence=sequence).SerializeToString()
    return _SNAPSHOT.of(numbered + _TABLE.of(table + _QUESTION.of(question)))


def answer(request_id: str, result: bytes) -> bytes:
    """An answer in a PlayResponse: `applied` or `refused`."""
    return _ANSWERS.of(_REQUEST_ID.of(request_id.encode()) + result)


def applied(encoded: bytes) -> bytes:
    """The effect of a command in an Answer."""
    return _APPLIED.of(encoded)


def refused(encoded: bytes) -> bytes:
    """A refusal in an Answer."""
    return _REFUSED.of(encoded)


def play_response(news: bytes | None, answers: Iterable[bytes]) -> bytes:
    """News, which are a WatchResponse, and answers."""
    said = b"".join(answers)
    return said if news is None else _NEWS.of(news) + said
