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


_VARINTS: Final = tuple(map(_varint, range(1 << 11)))
"""The lengths of nearly all parts."""


class Part:
    """A field that holds a message."""

    def __init__(self, kind: type[Message], name: str) -> None:
        self._tag = _varint(kind.DESCRIPTOR.fields_by_name[name].number << 3 | _LENGTH_DELIMITED)

    def of(self, encoded: bytes) -> bytes:
        """The field with such a message, which is encoded already."""
        length = len(encoded)
        return self._tag + (_VARINTS[length] if length < len(_VARINTS) else _varint(length)) + encoded


_EVENT: Final = Part(match_service_pb2.WatchResponse, "events")
_PROMPT: Final = Part(match_service_pb2.WatchResponse, "prompt")
_SNAPSHOT: Final = Part(match_service_pb2.WatchResponse, "snapshot")
_NEWS: Final = Part(match_service_pb2.PlayResponse, "news")
_CLOCK: Final = Part(table_pb2.Prompt, "clock")
_TABLE: Final = Part(match_service_pb2.Snapshot, "table")
_QUESTION: Final = Part(table_pb2.Table, "prompt")


def event(encoded: bytes) -> bytes:
    """An event in a WatchResponse."""
    return _EVENT.of(encoded)


def without_prompt(table: table_pb2.Table) -> bytes:
    """What of a table stays the same until something happens."""
    table.ClearField("prompt")
    return table.SerializeToString()


def with_clock(question: bytes, clock: table_pb2.Clock) -> bytes:
    """A prompt: a question, which stays the same for as long as it stands, with what the clocks show now."""
    return question + _CLOCK.of(clock.SerializeToString())


def prompt(encoded: bytes) -> bytes:
    """A prompt in a WatchResponse."""
    return _PROMPT.of(encoded)


def snapshot(sequence: int, table: bytes, question: bytes) -> bytes:
    """A snapshot in a WatchResponse: of `without_prompt`, and `with_clock`."""
    numbered = match_service_pb2.Snapshot(sequence=sequence).SerializeToString()
    return _SNAPSHOT.of(numbered + _TABLE.of(table + _QUESTION.of(question)))


def play_response(news: bytes | None, answers: Iterable[match_service_pb2.Answer]) -> bytes:
    """News, which are a WatchResponse, and answers."""
    said = match_service_pb2.PlayResponse(answers=answers).SerializeToString()
    return said if news is None else _NEWS.of(news) + said
