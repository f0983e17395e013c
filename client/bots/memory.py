"""What a seat has seen of the other seat's turns in this round: what it lacked, drew, kept and placed.

Sound, never guessed: a seat that draws or passes has no tile that fits (rules 4.1, 4.2), and a drawn tile that fits is
placed at once (rule 4.3), so all it holds at the end of such a turn fits none of the ends of that turn.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from engine.layout import EMPTY
from engine.opening import ranked_opening
from engine.seats import NORTH
from engine.tiles import DOUBLE_SIX, HAND_SIZE

if TYPE_CHECKING:
    from client.table import TableState
    from engine.layout import Layout
    from engine.seats import Seat
    from engine.tiles import End, Tile, TileSet

# For each tile, those that would have had to open a ranked round in its place (rules 2.2, 2.3).
_HIGHER: Final = {
    tile: sum(
        each.bit
        for each in DOUBLE_SIX
        if each is not tile and ranked_opening(tile.bit, each.bit)[0] is not NORTH
    )
    for tile in DOUBLE_SIX
}


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of the other seat."""

    lacked: TileSet
    """Tiles that it cannot have held when the turn ended, nor before it drew; 0 when it did not draw or pass."""
    kept: int
    """How many tiles it drew and kept."""
    played: Tile | None
    """The tile it placed from its hand; None when it placed what it had just drawn, or passed."""


@dataclass(slots=True)
class Memory:
    """The other seat's turns since the deal, or since `resumed`."""

    seat: Seat
    """Whose memory it is."""
    held: int = HAND_SIZE
    """How many tiles the other seat held at the beginning of what is remembered."""
    never: TileSet = 0
    """Tiles it cannot have held then."""
    turns: list[Turn] = field(default_factory=list)
    layout: Layout = EMPTY
    _auctioned: bool = False
    _drawn: int = 0

    def dealt(self) -> None:
        """A new round."""
        self._begin(HAND_SIZE, EMPTY)

    def resumed(self, table: TableState) -> None:
        """The table was told anew: what happened before is not known."""
        self._begin(table.tiles[self.seat.opponent], layout_of(table))
        self._auctioned = table.jockey is not None

    def _begin(self, held: int, layout: Layout) -> None:
        self.held, self.never, self.turns, self.layout = held, 0, [], layout
        self._auctioned, self._drawn = False, 0

    def opening_won(self) -> None:
        """The opening was auctioned: its tile says nothing about the other hand."""
        self._auctioned = True

    def placed(self, seat: Seat, tile: Tile, end: End | None, count: int) -> None:
        """A tile left a hand."""
        if end is None and not self._auctioned:
            self.never = _HIGHER[tile]
        if seat is not self.seat:
            if self._drawn:
                self.turns.append(Turn(self.layout.fits, self._drawn - 1, None))
            else:
                self.turns.append(Turn(0, 0, tile))
            self._drawn = 0
        self.layout = self.layout.place(tile, end, count)

    def drew(self, seat: Seat) -> None:
        """A seat took a tile from the boneyard."""
        if seat is not self.seat:
            self._drawn += 1

    def passed(self, seat: Seat) -> None:
        """A seat had nothing to place and nothing to draw."""
        if seat is not self.seat:
            self.turns.append(Turn(self.layout.fits, self._drawn, None))
            self._drawn = 0


def layout_of(table: TableState) -> Layout:
    """The layout of a table as the rules see it."""
    layout = EMPTY
    for placement in table.placements:
        tile, end = placement.tile, placement.end
        if end is None:
            layout = layout.place(tile, None, tile.pips)
            continue
        join = layout.joined(tile, end)
        assert join is not None, "the service tells of legal placements"
        layout = layout.place(tile, end, join[1])
    return layout
