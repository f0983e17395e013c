"""A hand of tiles as rows: numbered for the one who plays it, in boxes where there is room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from client.terminal.canvas import Canvas, Target

if TYPE_CHECKING:
    from collections.abc import Callable

    from client.terminal.theme import Glyphs
    from engine.tiles import Tile

_INLINE: Final = 6
_BOXED: Final = 10

Hand = tuple["Tile", ...] | None


def hand_rows(hand: Hand, width: int, *, tall: bool, numbered: bool) -> int:
    """How many rows `draw_hand` takes; none for a hand that is not shown, two at least for one's own."""
    if hand is None:
        return 0
    boxed = _is_boxed(hand, width, tall=tall)
    each = (3 if boxed else 1) + numbered
    per_row = _per_row(width, boxed=boxed)
    return each * max(1, -(-len(hand) // per_row))


def draw_hand(
    canvas: Canvas,
    top: int,
    hand: Hand,
    style: Callable[[Tile], str],
    *,
    numbered: bool,
    tall: bool,
    glyphs: Glyphs,
) -> None:
    """The tiles from a row downwards; the chosen one is marked with characters as well."""
    if hand is None:
        return
    boxed = _is_boxed(hand, canvas.width, tall=tall)
    per_row = _per_row(canvas.width, boxed=boxed)
    each = (3 if boxed else 1) + numbered
    for place, tile in enumerate(hand):
        x = 2 + place % per_row * (_BOXED if boxed else _INLINE)
        y = top + place // per_row * each
        look = style(tile)
        target = Target(tile=tile)
        if boxed:
            _box(canvas, x, y, tile, look, target, glyphs)
        else:
            canvas.put(x, y, f"[{tile}]", look, target)
        if numbered:
            middle = x + (4 if boxed else 2)
            _number(canvas, middle, y + each - 1, place + 1, look, target, glyphs)


def _number(
    canvas: Canvas, middle: int, row: int, number: int, look: str, target: Target, glyphs: Glyphs
) -> None:
    if look == "hand.chosen":
        text = f"{glyphs.up}{number}{glyphs.up}"
        canvas.put(middle - 1, row, text, "label.chosen", target)
    elif look == "hand.plays":
        canvas.put(middle - (number >= 10), row, f"{number}", "number", target)
        canvas.put(middle + 1, row, "*", "number", target)
    else:
        canvas.put(middle - (number >= 10), row, f"{number}", "number.idle", target)


def _is_boxed(hand: tuple[Tile, ...], width: int, *, tall: bool) -> bool:
    return tall and len(hand) <= _per_row(width, boxed=True)


def _per_row(width: int, *, boxed: bool) -> int:
    return max(1, (width - 2) // (_BOXED if boxed else _INLINE))


def _box(canvas: Canvas, x: int, y: int, tile: Tile, look: str, target: Target, glyphs: Glyphs) -> None:
    corners, line = glyphs.corners, glyphs.horizontal
    up, down = glyphs.crossings[3], glyphs.crossings[2]
    canvas.put(x, y, f"{corners[0]}{line * 3}{up}{line * 3}{corners[1]}", look, target)
    middle = f"{glyphs.vertical} {tile.low} {glyphs.vertical} {tile.high} {glyphs.vertical}"
    canvas.put(x, y + 1, middle, look, target)
    canvas.put(x, y + 2, f"{corners[2]}{line * 3}{down}{line * 3}{corners[3]}", look, target)
