"""Where tiles lie when a layout is drawn, over random play."""

from __future__ import annotations

import random
from itertools import combinations
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.layout import HALF, WIDTH_MIN, Box, Layout, Piece, lay_out
from client.table import OpenEnd
from engine.layout import EMPTY
from engine.layout import Layout as Table
from engine.tiles import DOUBLE_SIX, End
from tests.engine import tables

if TYPE_CHECKING:
    from collections.abc import Sequence


def random_table(seed: int, doubles_last: bool) -> Table:
    """Any 1 to 28 tiles that hang together; with doubles last, there is long no spinner."""
    rng = random.Random(seed)
    left = list(DOUBLE_SIX)
    rng.shuffle(left)
    table = EMPTY
    for _ in range(rng.randint(1, 28)):
        fitting = [
            (tile, end)
            for tile in left
            for end in table.ends or (None,)
            if end is None or end.fits & tile.bit
        ]
        if doubles_last:
            fitting = [play for play in fitting if not play[0].is_double] or fitting
        if not fitting:
            break
        tile, end = rng.choice(fitting)
        joined = table.joined(tile, end)
        table = table.place(tile, end, tile.pips if joined is None else joined[1])
        left.remove(tile)
    return table


def drawn(table: Table, width: int, height: int) -> Layout:
    """The drawing of an engine's table."""
    ends = [OpenEnd(end, end.value, counts) for end, counts in table.open_ends]
    return lay_out(table.placements, ends, width=width, height=height)


def halves(piece: Piece) -> list[tuple[int, Box]]:
    """The pips of both halves, and where they lie."""
    x, y = (0, HALF) if piece.upright else (HALF, 0)
    places = (piece.x, piece.y), (piece.x + x, piece.y + y)
    return [
        (value, Box(left, top, left + HALF, top + HALF))
        for value, (left, top) in zip(piece.values, places, strict=True)
    ]


def border(one: Box, other: Box) -> int:
    """How many units two rectangles touch along a side; 0 for those that meet in a corner only, or do not meet."""
    if one.overlaps(other):
        return 0
    wide = min(one.right, other.right) - max(one.left, other.left)
    high = min(one.bottom, other.bottom) - max(one.top, other.top)
    return max(wide, high) if min(wide, high) == 0 else 0


def halved(box: Box) -> Box:
    """The same on a screen with one row and one column a half."""
    return Box(box.left // 2, box.top // 2, box.left // 2 + box.width // 2, box.top // 2 + box.height // 2)


TABLES = st.builds(random_table, st.integers(0, 2**32), st.booleans())
SPACES = st.sampled_from([(WIDTH_MIN, 12), (38, 12), (38, 20), (66, 30), (120, 40)])


@settings(max_examples=60, deadline=None)
@given(TABLES, SPACES)
def test_every_tile_lies_beside_the_one_it_is_joined_to_and_covers_nothing(
    table: Table, space: tuple[int, int]
) -> None:
    """All tiles in order, none over another or over a label; joined halves touch, and are equal; never too wide."""
    layout = drawn(table, *space)
    assert [piece.tile for piece in layout.pieces] == [placement.tile for placement in table.placements]
    assert [(label.end, label.counts) for label in layout.ends] == list(table.open_ends)
    assert sum(label.counts for label in layout.ends) == table.total
    assert [piece.tile for piece in layout.pieces if piece.spinner] == (
        [table.spinner] if table.spinner else []
    )
    boxes = [*(piece.box for piece in layout.pieces), *(label.box for label in layout.ends)]
    for one, other in combinations(boxes, 2):
        assert not one.overlaps(other)
        assert not halved(one).overlaps(halved(other))
    bounds = boxes[0]
    for box in boxes:
        bounds = bounds.around(box)
    assert layout.bounds == bounds
    assert bounds.width <= space[0]
    pieces = {piece.tile: piece for piece in layout.pieces}
    for tile, end, _ in table.placements:
        assert sorted(pieces[tile].values) == [tile.low, tile.high]
        if end is None:
            assert (pieces[tile].box.left, pieces[tile].y) == (0, 0)
            continue
        touching = [
            (value, border(here, there))
            for value, here in halves(pieces[tile])
            for neighbour, there in halves(pieces[end.tile])
            if value == neighbour == end.value
        ]
        # Half a half each where a double stands across, a whole one where not.
        assert sum(length for _, length in touching) >= 1, (tile, end)
        assert border(halved(pieces[tile].box), halved(pieces[end.tile].box)) >= 1
    for label in layout.ends:
        assert border(label.box, pieces[label.end.tile].box) >= 1


@settings(max_examples=15, deadline=None)
@given(TABLES, SPACES)
def test_what_lies_stays_for_as_long_as_there_is_space(table: Table, space: tuple[int, int]) -> None:
    """A table grows tile by tile: in a wide space nothing ever moves but the first spinner's neighbours' lines, in a
    narrow one seldom."""
    moves = 0
    before: Sequence[Piece] = ()
    for count in range(1, len(table.placements) + 1):
        layout = lay_out(table.placements[:count], width=space[0], height=space[1])
        moves += list(layout.pieces[:-1]) != list(before)
        before = layout.pieces
    # Each plan is left once at most, and only a few are needed.
    assert moves <= (0 if space == (120, 40) else 12)


def test_a_line_that_turned_before_its_spinner_is_told_from_the_spinner() -> None:
    """The spinner stands across a level line whatever was placed before it, and its branches leave up and down."""
    long: tuple[tables.Step, ...] = (
        ("0|1", None),
        ("1|2", "0|1 high"),
        ("2|3", "1|2 high"),
        ("3|4", "2|3 high"),
        ("4|5", "3|4 high"),
        ("5|6", "4|5 high"),
    )
    turned = drawn(tables.layout(*long), WIDTH_MIN, 40)
    assert turned.pieces[-1].y > HALF
    layout = drawn(tables.layout(*long, ("6|6", "5|6 high"), ("0|6", "6|6 line_b")), WIDTH_MIN, 40)
    *_, spinner, last = layout.pieces
    assert (spinner.spinner, spinner.upright, last.upright) == (True, True, False)
    up, down = (label for label in layout.ends if label.end.tile is spinner.tile)
    assert (up.x, down.x) == (spinner.x, spinner.x)
    assert up.y < spinner.y < down.y


def test_an_empty_table_has_an_empty_drawing() -> None:
    """Nothing lies before the opening tile."""
    assert lay_out((), (), width=38, height=12) == Layout((), (), Box(0, 0, 0, 0))


def test_a_tile_that_hangs_in_the_air_is_an_error() -> None:
    """A table that a client has taken in wrongly is not drawn as if it were right."""
    placements = tables.layout(("1|4", None), ("4|4", "1|4 high"), ("4|6", "4|4 line_b")).placements
    with pytest.raises(ValueError, match="do not hang together"):
        lay_out((placements[0], placements[2]), width=38, height=12)
    with pytest.raises(ValueError, match="do not hang together"):
        lay_out(placements, [OpenEnd(End.parse("1|4 high"), 4, 4)], width=38, height=12)
