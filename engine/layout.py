"""The tiles on the table: where the next one may be joined, and what the ends count (rules 3.1 to 3.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from engine.refusal import Refusal
from engine.tiles import DOUBLE_SIX, ENDS, PIPS_MAX, WITH_VALUE, End, Port

if TYPE_CHECKING:
    from engine.tiles import Tile, TileSet

_LINES: Final = (Port.LINE_A, Port.LINE_B)
_BRANCHES: Final = (Port.BRANCH_A, Port.BRANCH_B)


class Placement(NamedTuple):
    """One tile as it was placed."""

    tile: Tile
    end: End | None
    """The end it was joined to; None for the opening tile."""
    joined: Port | None
    """The port of `tile` that the join uses; None for the opening tile."""


class Join(NamedTuple):
    """What joining a tile does to it."""

    port: Port
    """The port of the joined tile that touches the layout."""
    exposed: End
    """The end that is open afterwards."""


def _join(tile: Tile, value: int) -> Join:
    """Rule 3.1 for a non-double; rule 3.3 for a double, which is joined by its LINE_A."""
    if tile.is_double:
        return Join(Port.LINE_A, End.of(tile, Port.LINE_B))
    if tile.low == value:
        return Join(Port.LOW, End.of(tile, Port.HIGH))
    return Join(Port.HIGH, End.of(tile, Port.LOW))


# Looked up with every placement: _JOINS[value to match][tile.id], None where the tile does not fit.
_JOINS: Final = tuple(
    tuple(_join(tile, value) if WITH_VALUE[value] & tile.bit else None for tile in DOUBLE_SIX)
    for value in range(PIPS_MAX + 1)
)
_LINE_ENDS: Final = {end: end.tile for end in ENDS if end.port in _LINES}
_BRANCH_ENDS: Final = {
    tile: (End.of(tile, Port.BRANCH_A), End.of(tile, Port.BRANCH_B)) for tile in DOUBLE_SIX if tile.is_double
}


class Layout(NamedTuple):
    """The table of one round. Knows its open ends and their count; nothing is searched for."""

    placements: tuple[Placement, ...]
    """In the order in which they were made."""
    ends: tuple[End, ...]
    """Where a tile may be joined."""
    spinner: Tile | None
    """The first double of the round, once it is placed (rule 3.2)."""
    total: int
    """The counted ends added up (rule 3.5)."""
    fits: TileSet
    """All the tiles of the set that would fit at one of the ends."""

    @property
    def open_ends(self) -> tuple[tuple[End, int], ...]:
        """Each open end with what it counts now; these always add up to `total`.

        An opening double counts once while both its lines are open: its whole count stands at LINE_A.
        """
        if self._is_lone_double:
            line_a, line_b = self.ends
            return ((line_a, line_a.counts), (line_b, 0))
        return tuple((end, end.counts) for end in self.ends)

    @property
    def _is_lone_double(self) -> bool:
        return len(self.placements) == 1 and self.spinner is not None

    def fault(self, tile: Tile, end: End | None) -> Refusal | None:
        """Why this tile cannot be joined there, or None. First reason first, as in `Refusal`."""
        if end is None:
            return Refusal.END_MISSING
        if end not in self.ends:
            closed = end.tile is self.spinner and end.port in _BRANCHES and not self._lines_filled
            return Refusal.BRANCH_CLOSED if closed else Refusal.END_NOT_OPEN
        if _JOINS[end.value][tile.id] is None:
            return Refusal.TILE_DOES_NOT_FIT
        return None

    @property
    def _lines_filled(self) -> bool:
        return not any(_LINE_ENDS.get(end) is self.spinner for end in self.ends)

    def joined(self, tile: Tile, end: End) -> tuple[Port, int]:
        """The port of the tile that a legal join would use, and the count after it."""
        join = _JOINS[end.value][tile.id]
        assert join is not None, "the tile fits"
        return join.port, self._total_after(join.exposed, end)

    def _total_after(self, exposed: End, covered: End) -> int:
        total = self.total + exposed.counts - covered.counts
        # An opening double goes on counting, once, until its second line is filled (rule 3.5).
        return total + covered.counts if self._is_lone_double else total

    def place(self, tile: Tile, end: End | None) -> Layout:
        """The layout after a legal placement; end is None for the opening tile."""
        if end is None:
            return OPENINGS[tile]
        join = _JOINS[end.value][tile.id]
        assert join is not None, "the tile fits"
        placements, ends, spinner, _, _ = self
        exposed = join.exposed
        left = [e for e in ends if e is not end]
        left.append(exposed)
        if spinner is None:
            if tile.is_double:
                spinner = tile
        elif _LINE_ENDS.get(end) is spinner and not any(_LINE_ENDS.get(e) is spinner for e in left):
            left.extend(_BRANCH_ENDS[spinner])  # both lines are filled (rule 3.4)
        fits = 0
        for e in left:
            fits |= WITH_VALUE[e.value]
        placements = (*placements, Placement(tile, end, join.port))
        return Layout(placements, tuple(left), spinner, self._total_after(exposed, end), fits)


def _opened(tile: Tile) -> Layout:
    """The layout after the opening tile: a non-double counts both halves, a double both halves, once."""
    ports = _LINES if tile.is_double else (Port.LOW, Port.HIGH)
    return Layout(
        placements=(Placement(tile, None, None),),
        ends=tuple(End.of(tile, port) for port in ports),
        spinner=tile if tile.is_double else None,
        total=tile.pips,
        fits=WITH_VALUE[tile.low] | WITH_VALUE[tile.high],
    )


EMPTY: Final = Layout((), (), None, 0, 0)
"""The table before the opening tile."""
OPENINGS: Final = {tile: _opened(tile) for tile in DOUBLE_SIX}
