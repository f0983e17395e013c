"""The worked figures of the rules: small layouts as data, and drawn in plain characters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from engine.layout import EMPTY, Layout
from engine.points import score
from engine.tiles import End, Port, Tile

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


Step = tuple[str, str | None]
"""A tile and the end it is joined to, as text; None for the opening tile."""


class Figure(NamedTuple):
    """A layout after its last tile was placed."""

    name: str
    layout: Layout

    @property
    def points(self) -> int:
        """What the last tile scores, when the other player can pay it (rule 3.6)."""
        return score(self.layout.total)

    @property
    def counted(self) -> tuple[int, ...]:
        """What each counted end adds, an exposed blank as 0; their sum is the count (rule 3.5)."""
        return tuple(
            counts
            for _, counts in sorted(
                _counted(self.layout), key=lambda each: (each[0].tile, each[0].port.value)
            )
        )


def laid(steps: Iterable[Step]) -> Layout:
    """The layout that these placements make. ValueError when one of them is not legal."""
    layout = EMPTY
    for tile_text, end_text in steps:
        tile = Tile.parse(tile_text)
        if end_text is None:
            layout = layout.place(tile, None, tile.pips)
            continue
        end = End.parse(end_text)
        join = layout.joined(tile, end)
        if join is None:
            raise ValueError(f"[{tile_text}] cannot be joined to {end_text}: {layout.fault(end)}")
        layout = layout.place(tile, end, join[1])
    return layout


# One round that grows from figure to figure.
_STORY: Final[tuple[Step, ...]] = (
    ("1|4", None),
    ("1|1", "1|4 low"),
    ("4|4", "1|4 high"),
    ("3|4", "4|4 line_b"),
    ("1|2", "1|1 line_b"),
    ("1|5", "1|1 branch_a"),
    ("5|5", "1|5 high"),
    ("0|5", "5|5 line_b"),
    ("1|3", "1|1 branch_b"),
)
_STEPS: Final[dict[str, Sequence[Step]]] = {
    "D01": _STORY[:1],
    "D02": _STORY[:2],
    "D03": (("3|6", None), ("6|6", "3|6 high")),
    "D04": (("0|0", None),),
    "D05": _STORY[:3],
    "D06": _STORY[:4],
    "D07": (("2|2", None),),
    "D08": _STORY[:5],
    "D09": _STORY[:6],
    "D09b": _STORY[:7],
    "D10": _STORY[:8],
    "D11": _STORY,
}
FIGURES: Final[dict[str, Figure]] = {name: Figure(name, laid(steps)) for name, steps in _STEPS.items()}
"""By name, in the order of the rules' worked examples."""


def _counted(layout: Layout) -> list[tuple[End, int]]:
    """The ends that count. An opening double counts once, at LINE_A; a branch that is not begun does not count."""
    ends = [(end, counts) for end, counts in layout.open_ends if end.port not in _BRANCHES]
    return ends[:1] if len(layout.placements) == 1 and layout.spinner is not None else ends


# Drawing. Columns grow to the right, rows downwards; the tile in the middle is at row 0.

_BRANCHES: Final = (Port.BRANCH_A, Port.BRANCH_B)
_ARMS: Final = {
    "left": (Port.LINE_A, Port.LOW),
    "right": (Port.LINE_B, Port.HIGH),
    "up": (Port.BRANCH_A,),
    "down": (Port.BRANCH_B,),
}
_ACROSS: Final = {
    Port.LOW: Port.HIGH,
    Port.HIGH: Port.LOW,
    Port.LINE_A: Port.LINE_B,
    Port.LINE_B: Port.LINE_A,
}
Canvas = dict[tuple[int, int], str]


def draw(layout: Layout) -> str:
    """The layout in ASCII, lines without trailing spaces, and below it the ends added up.

    The spinner, or else the opening tile, is in the middle; its lines lead to the left and right, its branches up and
    down. The spinner has round brackets. Doubles stand across their line. At each open end stands what it counts, or
    `o` when a tile may be joined there and nothing is counted. Arms are never bent: this is for figures of a few tiles.
    """
    middle = layout.spinner or layout.placements[0].tile
    canvas: Canvas = {}
    if middle.is_double:
        _put_upright(canvas, 0, 0, f"({middle.low})", "-", f"({middle.low})")
        reach = {"left": 0, "right": 2, "up": -1, "down": 1}
    else:
        _write(canvas, 0, 0, f"[{middle.low}|{middle.high}]")
        reach = {"left": 0, "right": 4, "up": 0, "down": 0}
    labels = dict.fromkeys((end for end, _ in layout.open_ends), "o")
    labels.update((end, str(counts)) for end, counts in _counted(layout))
    for arm, ports in _ARMS.items():
        for port in ports:
            if middle.is_double == (port not in (Port.LOW, Port.HIGH)):
                _draw_arm(canvas, arm, reach[arm], _walk(layout, middle, port), labels)
    rows = sorted({row for row, _ in canvas})
    left = min(column for _, column in canvas)
    lines = []
    for row in range(rows[0], rows[-1] + 1):
        columns = [column for at, column in canvas if at == row]
        lines.append("".join(canvas.get((row, at), " ") for at in range(left, max(columns) + 1)))
    counted = Figure("", layout).counted
    return "\n".join([*lines, "", f"{' + '.join(map(str, counted))} = {layout.total}"])


def _walk(layout: Layout, tile: Tile, port: Port) -> tuple[list[tuple[int, int]], End]:
    """From a port outwards: the tiles of the arm, each as near and far half, and the end behind the last one."""
    joins: dict[End, End] = {}
    for placement in layout.placements:
        if placement.end is not None and placement.joined is not None:
            own = End.of(placement.tile, placement.joined)
            joins[own], joins[placement.end] = placement.end, own
    tiles = []
    end = End.of(tile, port)
    while end in joins:
        near = joins[end]
        end = End.of(near.tile, _ACROSS[near.port])
        tiles.append((near.value, end.value))
    return tiles, end


def _draw_arm(
    canvas: Canvas, arm: str, reach: int, walk: tuple[list[tuple[int, int]], End], labels: dict[End, str]
) -> None:
    """One arm and the label of its end; `reach` is how far the middle tile goes in that direction."""
    tiles, end = walk
    label = labels.get(end)
    if arm in ("up", "down"):
        step = -1 if arm == "up" else 1
        row = reach + step
        for near, far in tiles:
            if near == far:
                _write(canvas, row, -1, f"[{near}|{near}]")
                row += step
            else:
                for part in (f"[{near}]", " -", f"[{far}]"):
                    _write(canvas, row, 0, part)
                    row += step
        if label is not None:
            _write(canvas, row, 1, "^" if arm == "up" else "v")
            _write(canvas, row + step, 1, label)
        return
    at = reach
    for near, far in tiles:
        width = 3 if near == far else 5
        first = at - width - 1 if arm == "left" else at + 2
        if near == far:
            _put_upright(canvas, 0, first, f"[{near}]", "-", f"[{near}]")
        else:
            shown = f"[{far}|{near}]" if arm == "left" else f"[{near}|{far}]"
            _write(canvas, 0, first, shown)
        at = first if arm == "left" else first + width - 1
    if label is not None:
        text = f"{label} <" if arm == "left" else f"> {label}"
        _write(canvas, 0, at - len(text) - 1 if arm == "left" else at + 2, text)


def _put_upright(canvas: Canvas, row: int, column: int, above: str, bar: str, below: str) -> None:
    _write(canvas, row - 1, column, above)
    _write(canvas, row, column + 1, bar)
    _write(canvas, row + 1, column, below)


def _write(canvas: Canvas, row: int, column: int, text: str) -> None:
    canvas.update(((row, column + offset), char) for offset, char in enumerate(text) if char != " ")
