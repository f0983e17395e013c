"""A record as lines of text: what stands above it, and one line for each thing that happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from client.bots.account import minutes
from client.narration import seconds
from engine.seats import SEATS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from client.positions import Position, Study
    from engine.seats import Seat

_ROW: Final = "{:>5} {:>8} {:<46} {:>7} {:>9}"
HEADER: Final = _ROW.format("line", "time", "", "n:s", "banks")
"""The titles above the lines."""


def heading(study: Study) -> list[str]:
    """Who played, and whether the record proves itself."""
    kind = "rated" if study.rated else "unrated"
    match = f"match {study.match_id}, {kind}" if study.match_id else "a match"
    begun = f", {study.started_at[:16].replace('T', ' ')}" if study.started_at else ""
    return [f"{match}{begun}", *(_who(study, seat) for seat in SEATS), *proof(study)]


def _who(study: Study, seat: Seat) -> str:
    player = study.players[seat]
    known = [text for text in (player.name if player.name != seat else "", player.player_id) if text]
    return f"{seat}: {', '.join(known) or 'not named'}"


def proof(study: Study) -> list[str]:
    """What a check of the record finds."""
    if study.damage:
        return [f"damaged: {study.damage}; shown as far as it makes sense"]
    if study.problems:
        return [f"not sound: {problem}" for problem in study.problems]
    return [f"sound: {len(study.rounds)} deals as committed, every command legal"]


def listing(study: Study, hands: Collection[Seat] = SEATS) -> Iterator[str]:
    """The whole record, line by line; with each deal the hands of these seats."""
    yield from heading(study)
    yield HEADER.rstrip()
    rounds = frozenset(study.rounds)
    for place, position in enumerate(study.positions):
        if place in rounds:
            yield ""
        yield from _lines(position, hands)
        if place in rounds:
            yield from (f"{'':15}{hand_line(position, seat)}" for seat in SEATS if seat in hands)


def hand_line(position: Position, seat: Seat) -> str:
    """The tiles a seat holds."""
    return f"{seat}: " + " ".join(f"[{tile}]" for tile in position.hands[seat])


def _lines(position: Position, hands: Collection[Seat]) -> Iterator[str]:
    table = position.table
    points = f"{table.balances.north}:{table.balances.south}"
    clock = " ".join(map(minutes, table.banks_ms))
    at = "" if position.at_ms is None else when(position.at_ms)
    told = position.words(hands) or ("",)
    for number, words in enumerate(told):
        first, last = number == 0, number == len(told) - 1
        row = _ROW.format(
            position.line if first else "",
            at if first else "",
            words,
            points if last else "",
            clock if last else "",
        )
        yield row.rstrip()
    if position.spent is not None:
        yield f"{'':15}{spent_line(position)}"


def spent_line(position: Position) -> str:
    """What a command cost in time; empty for what costs nothing."""
    spent = position.spent
    if spent is None:
        return ""
    paid = f", {seconds(spent.paid_ms)} from the bank" if spent.paid_ms else ""
    credited = f", {seconds(spent.credited_ms)} credited" if spent.credited_ms else ""
    return f"{spent.seat} took {seconds(spent.used_ms)}{paid}{credited}"


def when(milliseconds: int) -> str:
    """A record's time: minutes, seconds and tenths, rounded down."""
    return f"{minutes(milliseconds)}.{milliseconds % 1000 // 100}"
