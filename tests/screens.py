"""Makes the screens of docs/screens anew, from scripted positions: `python -m tests.screens`.

Each screen at both sizes as text and as PNG. A test holds the texts to the code.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

import resvg_py
from rich.color import Color
from rich.style import Style
from rich.terminal_theme import MONOKAI

from client.terminal.canvas import Canvas, width_of
from client.terminal.theme import Theme
from tests import devicescenes, tablescenes

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "screens"
SIZES = ((80, 24), (140, 45))
_CELL_WIDTH, _CELL_HEIGHT, _FONT_SIZE = 9, 17, 15
_FONT = "DejaVu Sans Mono, Menlo, Consolas, monospace"


def screens() -> Iterator[tuple[str, Canvas]]:
    """File name without its ending, and what is on the screen."""
    theme = Theme()
    for name, draw in {**tablescenes.scenes(), **devicescenes.scenes()}.items():
        for width, height in SIZES:
            yield f"{name}-{width}x{height}", draw(width, height, theme)


def svg(canvas: Canvas, theme: Theme) -> str:
    """The canvas as a picture, each character in its cell."""
    wide, high = canvas.width * _CELL_WIDTH + 16, canvas.height * _CELL_HEIGHT + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}">',
        f'<rect width="{wide}" height="{high}" rx="6" fill="{_hex(None, foreground=False)}"/>',
        f'<g font-family="{_FONT}" font-size="{_FONT_SIZE}" transform="translate(8 8)">',
    ]
    for y in range(canvas.height):
        column = 0
        for text, name in canvas.row(y):
            parts += _segment(column, y, text, theme.style(name))
            column += width_of(text)
    return "\n".join([*parts, "</g>", "</svg>"])


def _segment(column: int, y: int, text: str, style: Style) -> Iterator[str]:
    fore, back = _hex(style.color, foreground=True), _hex(style.bgcolor, foreground=False)
    if style.reverse:
        fore, back = back, fore
    x, top = column * _CELL_WIDTH, y * _CELL_HEIGHT
    if style.bgcolor is not None or style.reverse:
        size = f'width="{width_of(text) * _CELL_WIDTH}" height="{_CELL_HEIGHT}"'
        yield f'<rect x="{x}" y="{top}" {size} fill="{back}"/>'
    if not text.strip():
        return
    places, at = [], x
    for character in text:
        places.append(str(at))
        at += width_of(character) * _CELL_WIDTH
    weight = ' font-weight="bold"' if style.bold else ""
    where = f'x="{" ".join(places)}" y="{top + 13}"'
    yield f'<text {where} fill="{fore}"{weight} xml:space="preserve">{escape(text)}</text>'


def _hex(color: Color | None, *, foreground: bool) -> str:
    return (color or Color.default()).get_truecolor(MONOKAI, foreground=foreground).hex


def main() -> None:
    """Write every file."""
    FOLDER.mkdir(exist_ok=True)
    theme = Theme()
    for name, canvas in screens():
        (FOLDER / f"{name}.txt").write_text(canvas.text() + "\n", "utf-8")
        (FOLDER / f"{name}.png").write_bytes(bytes(resvg_py.svg_to_bytes(svg_string=svg(canvas, theme))))
        print(name)


if __name__ == "__main__":
    main()
