"""What somebody who waits for an opponent sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from client.printable import printable
from client.terminal.canvas import Canvas, Target, wrapped
from client.terminal.theme import Theme

if TYPE_CHECKING:
    from spectacularbid.matchmaking.v1.matchmaking_service_pb2 import Waiting

QUIET_MS: Final = 10_000
"""Whoever waits is told something every few seconds: after so long without a word the connection is in doubt."""


@dataclass(frozen=True, slots=True)
class Seeking:
    """A seek and what is known of it."""

    rated: bool
    name: str
    """Who seeks."""
    facts: Waiting | None = None
    """What the service said last."""
    since_ms: int = 0
    """How long ago it said so, or how long the seek has lasted without a word."""
    problem: str = ""


def draw_seeking(seeking: Seeking, width: int, height: int, theme: Theme | None = None) -> Canvas:
    """The seek in the middle of the screen."""
    theme = theme or Theme()
    canvas = Canvas(width, height)
    pool = "rated" if seeking.rated else "casual"
    canvas.put(0, 0, f"Spectacular Bid  {pool} match  {seeking.name}", "title")
    canvas.put(0, 1, theme.glyphs.horizontal * width, "rule")
    rows = _rows(seeking)
    left = max(0, (width - 64) // 2)
    row = max(3, (height - len(rows) - 6) // 2)
    canvas.put(left, row, "Waiting for an opponent", "question")
    row += 2
    for name, value in rows:
        canvas.put(left, row, name)
        for place, line in enumerate(wrapped(value, min(width - left - 20, 60))):
            canvas.put(left + 20, row, line, "title" if place == 0 else "")
            row += 1
    row += 1
    x = canvas.put(left, row, " Esc Cancel ", "button", Target(key="escape")) + 2
    for number, bot in enumerate(bots_offered(seeking.facts), 1):
        x = canvas.put(x, row, f" {number} Play {bot} ", "button.plain", Target(key=str(number))) + 1
    problem = seeking.problem
    if not problem and seeking.since_ms > QUIET_MS:
        problem = f"No word from the service for {seconds(seeking.since_ms)}; the search goes on by itself."
    if problem:
        for place, line in enumerate(wrapped(problem, width)[:2]):
            canvas.put(0, height - 3 + place, line, "bad")
    keys = "esc:cancel the search  ?:help"
    canvas.put(0, height - 1, keys[:width], "help")
    return canvas


def bots_offered(facts: Waiting | None) -> tuple[str, ...]:
    """The house bots that may be played instead, at most nine: each has a key."""
    return () if facts is None else tuple(facts.house_bots)[:9]


def seconds(milliseconds: int) -> str:
    """A duration in whole seconds, or minutes and seconds."""
    minutes, rest = divmod(max(0, milliseconds) // 1000, 60)
    return f"{minutes}:{rest:02} min" if minutes else f"{rest} s"


def _rows(seeking: Seeking) -> list[tuple[str, str]]:
    facts = seeking.facts
    if facts is None:
        return [("waited", seconds(seeking.since_ms)), ("", "asking the service ...")]
    rows = [
        ("waited", seconds(facts.waited_ms + seeking.since_ms)),
        ("players waiting", f"{facts.players_waiting}, you included"),
        ("rating window", f"opponents within {facts.rating_window} points now; it widens"),
    ]
    if facts.HasField("estimate"):
        estimate = facts.estimate
        who = "players of about your rating" if estimate.similar_rating else "players of this pool"
        half, most = seconds(estimate.median_ms), seconds(estimate.most_ms)
        text = f"half waited up to {half}, nine of ten {most} ({estimate.basis} {who})"
        rows.append(("usual wait", text))
    else:
        rows.append(("usual wait", "not known yet"))
    if facts.house_bots:
        rows.append(("meanwhile", "a house bot, unrated; the search ends then"))
    if facts.paused:
        rows.append(("paused", "operators have paused this pool: nobody is paired; your time counts"))
    if facts.announcement:
        rows.append(("operators say", printable(facts.announcement)))
    return rows
