"""The tiles on the table: where the next one may be joined, and what the ends count (rules 3.1 to 3.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from engine.refusal import Refusal
from engine.tiles import DOUBLE_SIX, ENDS, WITH_VALUE, End, Port

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.tiles import Tile, TileSet

_new: Final = tuple.__new__
_LINES: Final = (Port.LINE_A, Port.LINE_B)
_BRANCHES: Final = (Port.BRANCH_A, Port.BRANCH_B)


class Placement(NamedTuple):
    """One tile as it was placed."""

    tile: Tile
    end: End | None
    """The end it was joined to; None for the opening tile."""
    joined: Port | None
    """The port of `tile` that the join uses; None for the opening tile."""


Join = tuple["Port", "End", int, Placement]
"""What joining one tile at one end comes to: the port of the tile that touches the layout, the end that is open
afterwards, what the count changes by (but for an opening double, which goes on counting: rule 3.5), and the placement.
A plain tuple: one is taken apart for each look and each placement."""


def _join(tile: Tile, end: End) -> Join:
    """Rule 3.1 for a non-double; rule 3.3 for a double, which is joined by its LINE_A."""
    if tile.is_double:
        port, exposed = Port.LINE_A, End.of(tile, Port.LINE_B)
    elif tile.low == end.value:
        port, exposed = Port.LOW, End.of(tile, Port.HIGH)
    else:
        port, exposed = Port.HIGH, End.of(tile, Port.LOW)
    return (port, exposed, exposed.counts - end.counts, Placement(tile, end, port))


# Looked up with every placement: the join of each tile at each end, None where it does not fit.
_JOINS: Final = {
    end: tuple(_join(tile, end) if end.fits & tile.bit else None for tile in DOUBLE_SIX) for end in ENDS
}
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
        if self.spinner is not None and len(self.placements) == 1:
            line_a, line_b = self.ends
            return ((line_a, line_a.counts), (line_b, 0))
        return tuple([(end, end.counts) for end in self.ends])

    def joined(self, tile: Tile, end: End | None) -> tuple[Port, int] | None:
        """What joining this tile there comes to: the port of the tile that touches the layout, and the count
        afterwards. None when it cannot be joined; `fault` says why."""
        if end is None or end not in self.ends:
            return None
        join = _JOINS[end][tile.id]
        if join is None:
            return None
        port, _, adds, _ = join
        count = self.total + adds
        # An opening double goes on counting, once, until its second line is filled (rule 3.5).
        if self.spinner is not None and len(self.placements) == 1:
            count += end.counts
        return port, count

    def fault(self, end: End | None) -> Refusal:
        """Why a tile that cannot be joined there cannot. First reason first, as in `Refusal`."""
        if end is None:
            return Refusal.END_MISSING
        if end in self.ends:
            return Refusal.TILE_DOES_NOT_FIT
        closed = end.tile is self.spinner and end.port in _BRANCHES and _has_line(self.ends, end.tile)
        return Refusal.BRANCH_CLOSED if closed else Refusal.END_NOT_OPEN

    def place(self, tile: Tile, end: End | None, count: int) -> Layout:
        """The layout after a legal placement, which made this count; end is None for the opening tile."""
        if end is None:
            return _OPENINGS[tile]
        join = _JOINS[end][tile.id]
        assert join is not None, "the tile fits"
        _, exposed, _, placement = join
        placements, ends, spinner, _, _ = self
        left = [*ends]
        left[left.index(end)] = exposed
        fits = 0
        for open_end in left:
            fits |= open_end.fits
        if spinner is None:
            if tile.is_double:
                spinner = tile
        elif end.tile is spinner and end.port in _LINES and not _has_line(left, spinner):
            left += _BRANCH_ENDS[spinner]  # both lines are filled (rule 3.4)
            fits |= end.fits
        placements += (placement,)
        return _new(Layout, (placements, tuple(left), spinner, count, fits))


def _has_line(ends: Iterable[End], spinner: Tile) -> bool:
    """Whether a line of the spinner is among these open ends."""
    return any(end.tile is spinner and end.port in _LINES for end in ends)


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
_OPENINGS: Final = {tile: _opened(tile) for tile in DOUBLE_SIX}
