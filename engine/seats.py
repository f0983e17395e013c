"""The two seats of a match, and a pair with one value for each of them."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
U = TypeVar("U")


class Seat(StrEnum):
    """One of the two places at the table."""

    NORTH = "north"
    SOUTH = "south"

    @property
    def opponent(self) -> Seat:
        """The other seat."""
        return SOUTH if self is NORTH else NORTH


# Enum members are looked up through a metaclass; the engine names them often enough for short cuts to pay.
NORTH: Final = Seat.NORTH
SOUTH: Final = Seat.SOUTH
SEATS: Final = (NORTH, SOUTH)


class BySeat(NamedTuple, Generic[T]):
    """One value for each seat; north's comes first. Asked by seat, not by position."""

    north: T
    south: T

    def __getitem__(self, seat: Seat) -> T:  # type: ignore[override]
        return self.north if seat is NORTH else self.south

    def put(self, seat: Seat, value: T) -> BySeat[T]:
        """The same pair with another value for one seat."""
        north, south = self
        return BySeat(value, south) if seat is NORTH else BySeat(north, value)

    def map(self, f: Callable[[T], U]) -> BySeat[U]:
        """The pair of the results of one function."""
        return BySeat(f(self.north), f(self.south))
