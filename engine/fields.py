"""Reading JSON objects strictly: each field is asked for by name and type, and none may be left over."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from engine.seats import BySeat, Seat
from engine.tiles import End, Tile

if TYPE_CHECKING:
    from enum import StrEnum

    E = TypeVar("E", bound=StrEnum)

_SHOWN_MAX = 60


def shown(value: object) -> str:
    """A value for an error text, shortened."""
    text = repr(value)
    return text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 1] + "…"


@cache
def _members(kind: type[E]) -> dict[str, E]:
    """The members of an enum by their values. Asking the enum itself takes four times as long."""
    return {member.value: member for member in kind}


class Fields:
    """The fields of one JSON object. Every reading method raises ValueError, saying which field is wrong and how."""

    def __init__(self, data: object, what: str = "a line") -> None:
        if not isinstance(data, dict):
            msg = f"{what} must be an object"
            raise ValueError(msg)
        self._data: dict[str, Any] = dict(data)

    def has(self, name: str) -> bool:
        """Whether this field is there and was not read yet."""
        return name in self._data

    def take(self, name: str) -> Any:
        """The value of a field, of any type."""
        try:
            return self._data.pop(name)
        except KeyError:
            msg = f"{name} is missing"
            raise ValueError(msg) from None

    def rest(self) -> dict[str, Any]:
        """The fields nobody asked for."""
        return self._data

    def end(self) -> None:
        """Nothing else may be there."""
        if self._data:
            msg = f"unknown field {shown(next(iter(self._data)))}"
            raise ValueError(msg)

    def integer(self, name: str, minimum: int | None = None) -> int:
        """A whole number; true and 1.0 are none."""
        value = self.take(name)
        if type(value) is not int:
            msg = f"{name} must be a whole number, not {shown(value)}"
            raise ValueError(msg)
        if minimum is not None and value < minimum:
            msg = f"{name} must be at least {minimum}"
            raise ValueError(msg)
        return value

    def text(self, name: str) -> str:
        """A string."""
        value = self.take(name)
        if not isinstance(value, str):
            msg = f"{name} must be a string, not {shown(value)}"
            raise ValueError(msg)
        return value

    def hexadecimal(self, name: str, size: int) -> bytes:
        """`size` bytes as lower-case hexadecimal digits."""
        text = self.text(name)
        if len(text) != 2 * size or set(text) - set("0123456789abcdef"):
            msg = f"{name} must be {2 * size} lower-case hexadecimal digits"
            raise ValueError(msg)
        return bytes.fromhex(text)

    def hexadecimal_up_to(self, name: str, size_max: int) -> bytes:
        """At most `size_max` bytes as lower-case hexadecimal digits."""
        text = self.text(name)
        if len(text) > 2 * size_max or len(text) % 2 or set(text) - set("0123456789abcdef"):
            msg = f"{name} must be at most {2 * size_max} lower-case hexadecimal digits, two a byte"
            raise ValueError(msg)
        return bytes.fromhex(text)

    def flag(self, name: str) -> bool:
        """True or false."""
        value = self.take(name)
        if not isinstance(value, bool):
            msg = f"{name} must be true or false, not {shown(value)}"
            raise ValueError(msg)
        return value

    def choice(self, name: str, kind: type[E]) -> E:
        """A member of an enum, by its value."""
        value = self.take(name)
        member: E | None = _members(kind).get(value) if isinstance(value, str) else None
        if member is None:
            msg = f"{name} must be one of {', '.join(kind)}, not {shown(value)}"
            raise ValueError(msg)
        return member

    def seat(self, name: str = "seat") -> Seat:
        """A seat."""
        return self.choice(name, Seat)

    def tile(self, name: str = "tile") -> Tile:
        """A tile, `low|high`."""
        return Tile.parse(self.text(name))

    def tiles(self, name: str) -> tuple[Tile, ...]:
        """A list of tiles."""
        value = self.take(name)
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            msg = f"{name} must be a list of tiles"
            raise ValueError(msg)
        return tuple(Tile.parse(text) for text in value)

    def end_of_tile(self, name: str = "end") -> End | None:
        """An end, `TILE PORT`, or null."""
        if self._data.get(name, "") is None:
            del self._data[name]
            return None
        return End.parse(self.text(name))

    def optional_seat(self, name: str) -> Seat | None:
        """A seat or null."""
        if self._data.get(name, "") is None:
            del self._data[name]
            return None
        return self.seat(name)

    def integers_by_seat(self, name: str, minimum: int | None = None) -> BySeat[int]:
        """A whole number for each seat."""
        inner = Fields(self.take(name), name)
        try:
            pair = BySeat(inner.integer("north", minimum), inner.integer("south", minimum))
            inner.end()
        except ValueError as error:
            msg = f"{name}: {error}"
            raise ValueError(msg) from None
        return pair
