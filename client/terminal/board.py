"""The whole table as rows of characters: what is seen, at one instant, on a screen of any size from 80 by 24 on.

    canvas = draw(Scene(table, now=time.monotonic()), 80, 24)

Nothing here knows where the table comes from: a match that is played or watched, a shared device, a record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from client.terminal.canvas import Canvas, Target, clipped, width_of, wrapped
from client.terminal.clockface import faces
from client.terminal.hand import draw_hand, hand_rows
from client.terminal.question import amount_text, auction_rows, price, question
from client.terminal.selection import NOTHING, Selection, fitting, refreshed
from client.terminal.story import transfer_line, who
from client.terminal.theme import Theme
from client.terminal.tiling import LETTERS, draw_layout
from engine.points import UNIT
from engine.seats import SOUTH
from engine.state import Phase

if TYPE_CHECKING:
    from client.table import TableState, Transfer
    from client.terminal.clockface import Face
    from engine.seats import BySeat, Seat
    from engine.tiles import Tile

WIDTH_MIN: Final = 80
HEIGHT_MIN: Final = 24
_PANEL_FROM: Final = 118
"""From this width on, what happened stands beside the table."""
_PANEL_WIDTH: Final = 36
_MESSAGES: Final = 2

Message = tuple[str, str]
"""A text and the name of its style."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything there is to be drawn."""

    table: TableState
    now: float
    """Seconds on the clock of `Clock.as_of`."""
    seat: Seat | None = None
    """Who plays here; None only looks on."""
    bottom: Seat = SOUTH
    """Whose side is nearer."""
    hands: BySeat[tuple[Tile, ...] | None] | None = None
    """The hands to be shown; None stands for the hand of the table, which is that of `seat`."""
    selection: Selection = NOTHING
    messages: tuple[Message, ...] = ()
    """The newest last; the last two are shown."""
    log: tuple[str, ...] = ()
    """What happened, the newest last."""
    banner: str = ""
    """For example that the connection is lost."""
    footer: str = ""
    """Which keys there are; empty for those of play."""
    prompt: str | None = None
    """Instead of the question of the table."""
    way_ms: int = 0
    """See `faces`."""
    transfer: Transfer | None = None
    """The last one of this round, when the table has moved on since."""
    stale: bool = False
    """Whether the clocks may have gone on without our hearing of it."""


def draw(scene: Scene, width: int, height: int, theme: Theme | None = None) -> Canvas:
    """The table. Smaller than 80 by 24 it is cut, and says so."""
    theme = theme or Theme()
    canvas = Canvas(width, height)
    beside = width - board_width(width)
    _Board(scene, theme, Canvas(width - beside, height)).draw(canvas)
    if beside:
        _panel(canvas, width - beside, scene, theme)
    if width < WIDTH_MIN or height < HEIGHT_MIN:
        canvas.put(0, 0, f"Too small: {WIDTH_MIN}x{HEIGHT_MIN} is needed".ljust(width)[:width], "bad")
    return canvas


def board_width(width: int) -> int:
    """How much of a screen of this width is the table; what happened stands beside it where there is room."""
    return width - _PANEL_WIDTH if width >= _PANEL_FROM else width


class _Board:
    """The table itself, from the top row to the bottom row."""

    def __init__(self, scene: Scene, theme: Theme, canvas: Canvas) -> None:
        self._scene = scene
        self._theme = theme
        self._glyphs = theme.glyphs
        self._canvas = canvas
        self._table = scene.table
        self._selection = refreshed(scene.selection, scene.table) if scene.seat else NOTHING
        self._faces = faces(scene.table, scene.now, way_ms=scene.way_ms)

    def draw(self, onto: Canvas) -> None:
        """Everything, onto the left of the canvas."""
        canvas, scene, width = self._canvas, self._scene, self._canvas.width
        bottom, top = scene.bottom, scene.bottom.opponent
        own, other = self._hand(bottom), self._hand(top)
        tall = canvas.height >= 34
        own_rows = hand_rows(own, width, tall=tall, numbered=scene.seat is bottom)
        other_rows = hand_rows(other, width, tall=False, numbered=False)
        self._title()
        self._seat(1, top)
        draw_hand(canvas, 2, other, _no_tile, numbered=False, tall=False, glyphs=self._glyphs)
        upper = 2 + other_rows
        lower = canvas.height - 5 - _MESSAGES - own_rows
        self._rule(upper, self._count(), f"boneyard {self._table.boneyard}")
        self._layout(upper + 1, lower)
        self._rule(lower, self._transfer(), self._round_facts())
        self._seat(lower + 1, bottom)
        draw_hand(
            canvas,
            lower + 2,
            own,
            self._tile_style,
            numbered=scene.seat is bottom,
            tall=tall,
            glyphs=self._glyphs,
        )
        row = lower + 2 + own_rows
        self._question(row)
        self._messages(row + 2)
        self._footer()
        onto.paste(0, 0, canvas)

    def _hand(self, seat: Seat) -> tuple[Tile, ...] | None:
        if self._scene.hands is not None:
            return self._scene.hands[seat]
        return (
            self._table.hand if self._table.hand and seat is (self._table.seat or self._scene.seat) else None
        )

    def _title(self) -> None:
        table, canvas = self._table, self._canvas
        kind = "same device" if table.same_device else "rated" if table.rated else "unrated"
        phase = f"round {table.round_no}" if table.round_no else "before the first round"
        title, banner = f"Spectacular Bid  {phase}  {kind}", self._scene.banner
        room = canvas.width - width_of(banner) - 2
        # What the banner says matters more than the title.
        if room >= width_of(title) or not banner:
            canvas.put(0, 0, title, "title")
        elif room >= width_of(phase):
            canvas.put(0, 0, phase, "title")
        if banner:
            canvas.put_right(canvas.width, 0, clipped(banner, canvas.width, self._glyphs.ellipsis), "notice")

    def _seat(self, row: int, seat: Seat) -> None:
        """One seat: whose turn, name, points and chips, tiles, clock."""
        table, canvas, width = self._table, self._canvas, self._canvas.width
        acts = table.outcome is None and table.prompt.to_act is seat
        style = "turn" if acts else ""
        canvas.put(0, row, self._glyphs.turn if acts else " ", "turn")
        player = table.players[seat]
        marks = " (bot)" if player.bot else ""
        marks += " jockey" if seat is table.jockey and table.prompt.phase is Phase.AUCTION else ""
        name = player.name if table.seat is not seat else f"You ({player.name})"
        points = table.balances[seat]
        tiles = "tile " if table.tiles[seat] == 1 else "tiles"
        figures = f"{points:>3} points {points // UNIT:>2} chips  {table.tiles[seat]:>2} {tiles}"
        clock = self._clock(self._faces[seat])
        room = width - 4 - width_of(str(seat)) - width_of(figures) - width_of(clock) - width_of(marks) - 4
        title = clipped(name, room, self._glyphs.ellipsis)
        canvas.put(2, row, f"{str(seat).capitalize()} {title}{marks}", style)
        clock_style = self._clock_style(self._faces[seat])
        left = canvas.put_right(width, row, clock, clock_style)
        canvas.put_right(left - 2, row, figures)

    def _clock(self, face: Face) -> str:
        if self._scene.stale:
            return f"delay  ? bank ?{face.bank:>4}"
        mark = "!" if face.low else " "
        return f"delay {face.delay:>2} bank{mark}{face.bank:>5}"

    def _clock_style(self, face: Face) -> str:
        if face.low and face.running:
            return "clock.low"
        return "clock" if face.running else "clock.idle"

    def _rule(self, row: int, left: str, right: str) -> None:
        canvas, width = self._canvas, self._canvas.width
        canvas.put(0, row, self._glyphs.horizontal * width, "rule")
        room = width - 6
        right = clipped(right, room // 2, self._glyphs.ellipsis)
        left = clipped(left, room - width_of(right), self._glyphs.ellipsis)
        if left:
            canvas.put(1, row, f" {left} ", "title")
        if right:
            canvas.put_right(width - 1, row, f" {right} ", "")

    def _count(self) -> str:
        """How the count comes about: each end with its letter, and the total."""
        table = self._table
        if not table.placements:
            return "no tile on the table yet"
        parts = [f"{LETTERS[place]} {each.counts}" for place, each in enumerate(table.ends)]
        return f"{' + '.join(parts)} = {table.count}"

    def _transfer(self) -> str:
        return transfer_line(self._table, self._table.last_transfer or self._scene.transfer)

    def _round_facts(self) -> str:
        table = self._table
        if table.prompt.phase is Phase.AUCTION and table.bidder is not None:
            net = price(table.standing_bid, table.bidder, table.jockey)
            return f"{who(table, table.bidder)} bid {table.standing_bid}, pays {net}"
        if table.spinner is not None:
            return f"spinner {table.spinner}"
        return ""

    def _layout(self, top: int, bottom: int) -> None:
        table, selection = self._table, self._selection
        if table.prompt.phase is Phase.AUCTION:
            self._auction(top, bottom)
            return
        fits = fitting(table, selection.tile)
        drawn = draw_layout(
            self._canvas.width,
            bottom - top,
            table.placements,
            table.ends,
            fits=fits,
            chosen=selection.end,
            glyphs=self._glyphs,
        )
        self._canvas.paste(0, top, drawn)

    def _auction(self, top: int, bottom: int) -> None:
        """Where no tile lies yet: who bids against whom, and what it costs each of them."""
        rows = auction_rows(self._table)
        left = max(0, (self._canvas.width - max(width_of(text) for text, _ in rows)) // 2)
        first = top + max(0, (bottom - top - len(rows)) // 2)
        for row, (text, style) in enumerate(rows[: bottom - top], first):
            self._canvas.put(left, row, clipped(text, self._canvas.width, self._glyphs.ellipsis), style)

    def _tile_style(self, tile: Tile) -> str:
        table = self._table
        if tile is self._selection.tile:
            return "hand.chosen"
        if not table.prompt.legal.plays:
            return "hand"
        return "hand.plays" if any(tile is legal for legal, _ in table.prompt.legal.plays) else "hand.idle"

    def _question(self, row: int) -> None:
        canvas, scene, width = self._canvas, self._scene, self._canvas.width
        asked = question(self._table, scene.seat, self._selection)
        text = asked.text if scene.prompt is None else scene.prompt
        style = "question" if asked.asked or scene.prompt is not None else "wait"
        marked = asked.asked and scene.prompt is None
        x = canvas.put(0, row, f"{self._glyphs.turn} ", "turn") if marked else 0
        lines = wrapped(text, width - x)
        canvas.put(x, row, lines[0], style)
        if len(lines) > 1:
            canvas.put(x, row + 1, clipped(" ".join(lines[1:]), width - x, self._glyphs.ellipsis), style)
            x = canvas.width  # no room for buttons in the second row
            return
        x = 2
        for button in asked.buttons if scene.prompt is None else ():
            x = canvas.put(x, row + 1, f" {button.key} {button.text} ", "button", button.target) + 1
        if scene.seat is not None and scene.prompt is None:
            self._amounts(x, row + 1, scene.seat)

    def _amounts(self, x: int, row: int, seat: Seat) -> None:
        """The legal bids, as many as there is room for around the chosen one, and what it comes to."""
        bid = self._table.prompt.legal.bid
        if bid is None:
            return
        canvas, chosen = self._canvas, self._selection.amount
        text = amount_text(self._table, seat, self._selection)
        x = canvas.put(x + 1, row, "Bid ", "title")
        room = (canvas.width - x - width_of(text) - 4) // 5
        amounts = list(range(bid.lowest, bid.highest + 1, bid.step))
        place = amounts.index(chosen) if chosen in amounts else 0
        first = max(0, min(place - room // 2, len(amounts) - room))
        x = canvas.put(x, row, self._glyphs.left if first else " ", "key", Target(key="left"))
        for amount in amounts[first : first + room]:
            label = f"[{amount}]" if amount == chosen else f" {amount} "
            style = "hand.chosen" if amount == chosen else ""
            x = canvas.put(x, row, label, style, Target(amount=amount))
        more = first + room < len(amounts)
        x = canvas.put(x, row, self._glyphs.right if more else " ", "key", Target(key="right"))
        canvas.put(x + 1, row, text, "notice" if chosen is not None else "")

    def _messages(self, row: int) -> None:
        width = self._canvas.width
        shown = [
            (line, style)
            for text, style in self._scene.messages[-_MESSAGES:]
            for line in wrapped(text, width)
        ][-_MESSAGES:]
        for place, (line, style) in enumerate(shown):
            self._canvas.put(0, row + place, line, style)

    def _footer(self) -> None:
        keys = self._scene.footer or _keys(self._scene, self._glyphs.left + self._glyphs.right)
        self._canvas.put(
            0, self._canvas.height - 1, clipped(keys, self._canvas.width, self._glyphs.ellipsis), "help"
        )


def _keys(scene: Scene, arrows: str) -> str:
    if scene.seat is None or scene.table.outcome is not None:
        return "?:help  q:leave"
    return f"{arrows}/1-9:tile  tab/wxyz:end  enter:play  ?:help  R:resign  q:leave"


def _no_tile(_: Tile) -> str:
    return "hand"


def _panel(canvas: Canvas, left: int, scene: Scene, theme: Theme) -> None:
    """What happened, beside the table."""
    glyphs = theme.glyphs
    for row in range(canvas.height):
        canvas.put(left, row, glyphs.vertical, "rule")
    canvas.put(left + 2, 0, "What happened", "title")
    width = canvas.width - left - 3
    lines = [line for text in scene.log[-canvas.height :] for line in _indented(text, width)]
    for row, line in enumerate(lines[-(canvas.height - 2) :], 2):
        canvas.put(left + 2, row, line)


def _indented(text: str, width: int) -> list[str]:
    first, *rest = wrapped(text, width)
    return [first, *(f"  {line}" for line in wrapped(" ".join(rest), width - 2) if rest)]
