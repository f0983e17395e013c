"""What pictures are made of: tiles with pips, chips, badges, text. Each is a piece of SVG.

Nothing here asks for a font file, a script or another document. Colours are classes of one style sheet, which follows
the reader's light or dark surroundings; tiles and chips look the same in both.
"""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

STYLE: Final = """
text{font-family:system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif;fill:#1d2733}
.page{fill:#f4f1ea}.felt{fill:#dfe9e1;stroke:#a9bfae}.panel{fill:#fffdf8;stroke:#d3ccbc}
.acts{stroke:#b4540a;stroke-width:2.5}.mark{fill:#b4540a}.soft{fill:#55606c}.good{fill:#1f6b36}.bad{fill:#a3251d}
.tile{fill:#fffdf3;stroke:#3a3f45}.bar{stroke:#3a3f45}.pip{fill:#23282e}.spins{fill:#ffe6a8;stroke:#8a5a00}
.last{fill:none;stroke:#b4540a;stroke-width:3}.back{fill:#7d8896;stroke:#4b5561}
.badge{fill:#24507e;stroke:#fff}.branch{fill:#fff;stroke:#24507e;stroke-dasharray:3 2}
.white{fill:#fff}.blue{fill:#24507e}.chip{fill:#c8761b;stroke:#7c440a}
@media (prefers-color-scheme:dark){
text{fill:#e8e6e0}.page{fill:#171b20}.felt{fill:#21332a;stroke:#41594b}.panel{fill:#232930;stroke:#3e4751}
.acts{stroke:#ffab5c}.mark{fill:#ffab5c}.soft{fill:#a9b3bd}.good{fill:#84d69b}.bad{fill:#ff9c92}.last{stroke:#ffab5c}}
"""

_PIPS: Final = {
    0: (),
    1: ((0, 0),),
    2: ((-1, -1), (1, 1)),
    3: ((-1, -1), (0, 0), (1, 1)),
    4: ((-1, -1), (1, -1), (-1, 1), (1, 1)),
    5: ((-1, -1), (1, -1), (0, 0), (-1, 1), (1, 1)),
    6: ((-1, -1), (1, -1), (-1, 0), (1, 0), (-1, 1), (1, 1)),
}
# Names come from other people's records; XML has no way to write these characters at all.
_UNWRITABLE: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def escaped(words: str) -> str:
    """Any text as it may stand in SVG."""
    return html.escape(_UNWRITABLE.sub("\ufffd", words), quote=True)


def number(value: float) -> str:
    """A length, without needless digits."""
    return f"{value:.2f}".rstrip("0").rstrip(".") or "0"


def text(
    x: float,
    y: float,
    words: str,
    *,
    size: float = 15,
    anchor: str = "start",
    style: str = "",
    bold: bool = False,
) -> str:
    """One line of text; y is its base line."""
    classes = f' class="{style}"' if style else ""
    weight = ' font-weight="600"' if bold else ""
    end = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{number(x)}" y="{number(y)}" font-size="{number(size)}"{end}{weight}{classes}>{escaped(words)}</text>'


def rect(x: float, y: float, width: float, height: float, style: str, radius: float = 0) -> str:
    """A rectangle with round corners."""
    place = f'x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}"'
    return f'<rect {place} rx="{number(radius)}" class="{style}"/>'


def circle(x: float, y: float, radius: float, style: str) -> str:
    """A disc."""
    return f'<circle cx="{number(x)}" cy="{number(y)}" r="{number(radius)}" class="{style}"/>'


def group(title: str, parts: Iterable[str]) -> str:
    """Things that are one thing; the title is read aloud, and shown under a mouse."""
    return f'<g role="img"><title>{escaped(title)}</title>{"".join(parts)}</g>'


def face(
    x: float, y: float, half: float, values: tuple[int, int], *, upright: bool, spinner: bool = False
) -> Iterable[str]:
    """A tile face up, its left upper corner at (x, y): the left or upper half first."""
    inset = half * 0.03
    wide, high = (half, 2 * half) if upright else (2 * half, half)
    style = "tile spins" if spinner else "tile"
    yield rect(x + inset, y + inset, wide - 2 * inset, high - 2 * inset, style, half * 0.16)
    across, down = (0, half) if upright else (half, 0)
    start, end = half * 0.18, half * 0.82
    x1, y1, x2, y2 = (
        (x + start, y + half, x + end, y + half) if upright else (x + half, y + start, x + half, y + end)
    )
    ends = f'x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}"'
    yield f'<line {ends} class="bar" stroke-width="{number(max(1, half * 0.04))}"/>'
    for place, value in enumerate(values):
        middle = x + half / 2 + place * across, y + half / 2 + place * down
        for right, below in _PIPS[value]:
            # A tile that lies is a standing one turned: the six has its rows along the tile.
            turned = (right, below) if upright else (below, right)
            yield circle(
                middle[0] + turned[0] * half * 0.26, middle[1] + turned[1] * half * 0.26, half * 0.095, "pip"
            )


def back(x: float, y: float, half: float) -> str:
    """A standing tile face down."""
    inset = half * 0.03
    return rect(x + inset, y + inset, half - 2 * inset, 2 * half - 2 * inset, "back", half * 0.16)


def chips(x: float, y: float, count: int, width: float) -> Iterable[str]:
    """So many chips in a row, laid over each other in heaps of five, within this width."""
    radius = 6.5
    step = min(9.0, (width - 2 * radius) / max(1, count + count // 5))
    for each in range(count):
        yield circle(x + radius + step * (each + each // 5), y, radius, "chip")
