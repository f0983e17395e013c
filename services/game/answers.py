"""The requests of one match that had their effect, and with what: remembered to its end, in few bytes.

A match of two bots has 330 of them. As objects in a dictionary that was 135 KiB, most of the memory of a live match.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from typing import Final, TypeAlias

from services.common.values import value

Named: TypeAlias = tuple[str, str]
"""Whose request it is, as `Story.asked_as` says, and its id."""

_NAME: Final = 16
"""Bytes of the digest that a request is found by."""
_GROUPS: Final = 32
_ROW: Final = struct.Struct(f">{_NAME}s32sII")


@value
class Answered:
    """A request that had its effect."""

    payload: bytes
    """The SHA-256 of what was asked."""
    first_sequence: int
    last_sequence: int


class Answers:
    """What was answered, by the name of the request."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: dict[int, bytes] = {}
        """Those whose names begin alike, one behind the other: few enough to be looked through."""

    def put(self, request: Named, answered: Answered) -> None:
        """Remembers it. There is none of that name yet."""
        name = _digest(request)
        row = _ROW.pack(name, answered.payload, answered.first_sequence, answered.last_sequence)
        group = name[0] % _GROUPS
        self._rows[group] = self._rows.get(group, b"") + row

    def get(self, request: Named) -> Answered | None:
        """What it was answered with; None when it had no effect so far."""
        name = _digest(request)
        rows = self._rows.get(name[0] % _GROUPS, b"")
        at = rows.find(name)
        while at % _ROW.size and at >= 0:
            # By chance the same bytes, but not in the place of a name.
            at = rows.find(name, at + 1)
        return None if at < 0 else Answered(*_ROW.unpack_from(rows, at)[1:])


def _digest(request: Named) -> bytes:
    whose, request_id = request
    return blake2b(f"{whose} {request_id}".encode(), digest_size=_NAME).digest()
