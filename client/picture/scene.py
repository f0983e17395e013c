"""One position of a record as an SVG picture: both players, the layout, what its ends count, what has just happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from client.bots.account import minutes
from client.layout import lay_out
from client.picture import words
from client.picture.marks import STYLE, back, chips, circle, escaped, face, group, number, rect, text
from engine.points import UNIT, score
from engine.seats import NORTH, SEATS, SOUTH
from engine.tiles import Port

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from client.layout import Label, Layout
    from client.positions import Position, Study
    from client.table import TableState
    from engine.seats import Seat

BOTH: Final[tuple[Seat, ...]] = SEATS
"""Both hands are shown."""

WIDTH: Final = 960
"""Of every picture, in pixels; its height depends on the layout."""
_MARGIN: Final = 16
_PAD: Final = 14
_INNER: Final = WIDTH - 2 * _MARGIN
_LEFT: Final = _MARGIN + _PAD
_RIGHT: Final = WIDTH - _LEFT
_HEAD: Final = 44
_PANEL: Final = 126
_HAND_HALF: Final = 25
_LINE: Final = 22
_FOOT: Final = 38
"""The strip below the layout that says what it counts."""
_GAP: Final = 8
# What the layout may take, in its own units. A small one is drawn larger, a large one smaller.
_COLUMNS: Final = 62
_ROWS: Final = 34
_UNIT_MAX: Final = 17.0
_TABLE_MIN: Final = 190


def draw(study: Study, position: Position, shown: Collection[Seat] = BOTH) -> str:
    """The picture: an SVG document. `shown` are the seats whose tiles lie face up."""
    table = position.table
    layout = lay_out(table.placements, table.ends, width=_COLUMNS, height=_ROWS)
    unit = min(_UNIT_MAX, (_INNER - 2 * _PAD) / max(1, layout.bounds.width))
    felt = max(_TABLE_MIN, layout.bounds.height * unit + 2 * _PAD + _FOOT)
    top = _HEAD + _PANEL + _GAP
    bottom = top + felt + _GAP
    height = bottom + _PANEL + _GAP + _LINE * len(_told(position, shown)) + _PAD
    size = f'viewBox="0 0 {WIDTH} {number(height)}" width="{WIDTH}" height="{number(height)}"'
    described = " ".join(words.described(study, position, shown))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title desc">',
        f'<title id="title">{escaped(words.heading(study, table))}</title>',
        f'<desc id="desc">{escaped(described)}</desc>',
        f"<style>{STYLE}</style>",
        rect(0, 0, WIDTH, height, "page"),
        text(_LEFT, 29, words.heading(study, table), size=18, bold=True),
        *_player(study, position, NORTH, _HEAD, face_up=NORTH in shown),
        *_felt(study, table, layout, (top, felt, unit)),
        *_player(study, position, SOUTH, bottom, face_up=SOUTH in shown),
        *_caption(study, position, shown, bottom + _PANEL + _LINE),
    ]
    return "\n".join((*parts, "</svg>")) + "\n"


def _caption(study: Study, position: Position, shown: Collection[Seat], y: float) -> Iterator[str]:
    """What the line did, and which line it is."""
    style = "" if position.sound else "bad"
    for row, line in enumerate(_told(position, shown)):
        yield text(_LEFT, y + _LINE * row, line, style=style)
    at = "" if position.at_ms is None else f", {minutes(position.at_ms)} played"
    line = f"line {position.line} of {study.positions[-1].line}{at}, {'rated' if study.rated else 'unrated'}"
    yield text(_RIGHT, y, line, anchor="end", style="soft")


def _told(position: Position, shown: Collection[Seat]) -> tuple[str, ...]:
    return position.words(shown) or ("nothing has happened yet",)


def _player(study: Study, position: Position, seat: Seat, y: float, *, face_up: bool) -> Iterator[str]:
    """Name, clock, points, chips, hand. Whoever is asked has an arrow and a thicker border."""
    table = position.table
    acts = table.outcome is None and seat in (table.prompt.to_act, table.prompt.awaiting_reveal)
    yield rect(_MARGIN, y, _INNER, _PANEL, "panel acts" if acts else "panel", 8)
    if acts:
        yield f'<path class="mark" d="M{_LEFT} {number(y + 12)}l14 8l-14 8z"/>'
    yield text(_LEFT + (22 if acts else 0), y + 26, words.who(study, table, seat), size=17, bold=True)
    if study.timed:
        yield text(_RIGHT, y + 26, words.clock(table, seat), size=17, anchor="end", bold=acts)
    points = table.balances[seat]
    yield text(_LEFT, y + 53, f"{points} points", size=17)
    yield group(words.chips(points), chips(_LEFT + 112, y + 47, points // UNIT, 640))
    yield text(_RIGHT, y + 53, words.chips(points), anchor="end", style="soft")
    hand = position.hands[seat]
    for place, tile in enumerate(hand):
        x = _LEFT + place * (_HAND_HALF + 5)
        if face_up:
            yield group(f"[{tile}]", face(x, y + 66, _HAND_HALF, (tile.low, tile.high), upright=True))
        else:
            yield back(x, y + 66, _HAND_HALF)
    totals = table.hand_totals
    held = words.tiles(len(hand)) + ("" if totals is None else f", {totals[seat]} pips")
    yield text(_RIGHT, y + 98, held, anchor="end", style="soft")


def _felt(
    study: Study, table: TableState, layout: Layout, place: tuple[float, float, float]
) -> Iterator[str]:
    """The layout with its labels, and below it the count, the last transfer and the boneyard."""
    y, height, unit = place
    yield rect(_MARGIN, y, _INNER, height, "felt", 8)
    bounds = layout.bounds
    middle = y + (height - _FOOT) / 2
    left = WIDTH / 2 - (bounds.left + bounds.right) / 2 * unit
    top = middle - (bounds.top + bounds.bottom) / 2 * unit
    for index, piece in enumerate(layout.pieces, 1):
        at = left + piece.x * unit, top + piece.y * unit
        parts = [*face(*at, 2 * unit, piece.values, upright=piece.upright, spinner=piece.spinner)]
        name = f"{'spinner ' if piece.spinner else ''}[{piece.tile}], tile {index}"
        if index == len(layout.pieces):
            name += ", played last"
            parts.append(rect(*at, piece.box.width * unit, piece.box.height * unit, "last", unit * 0.35))
        yield group(name, parts)
    for label, end in zip(layout.ends, table.ends, strict=True):
        title = words.end(end)
        yield group(title, _badge(label, left + (label.x + 1) * unit, top + (label.y + 1) * unit, unit))
    if not layout.pieces:
        for row, line in enumerate(words.auction(study, table)):
            yield text(WIDTH / 2, middle + row * 28, line, size=18, anchor="middle", bold=row == 0)
    foot = y + height - 13
    style = "good" if score(table.count) else ""
    yield text(_LEFT, foot, words.count(table), size=17, bold=True, style=style)
    yield text(WIDTH / 2, foot, words.moved(table), size=17, anchor="middle", bold=True, style="good")
    yield text(_RIGHT, foot, f"boneyard: {words.tiles(table.boneyard)}", size=17, anchor="end")


def _badge(label: Label, x: float, y: float, unit: float) -> Iterator[str]:
    """What an end counts. A branch counts nothing, and looks it."""
    branch = label.end.port in (Port.BRANCH_A, Port.BRANCH_B)
    yield circle(x, y, unit * 0.8, "branch" if branch else "badge")
    style = "blue" if branch else "white"
    yield text(x, y + unit * 0.36, str(label.counts), size=unit, anchor="middle", style=style, bold=True)
