"""Set tables: short ways to a deal, a running match and a layout for the tests of the rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.command import Command, Continue, Decline, Play, Start
from engine.deal import Deal
from engine.layout import EMPTY, Layout
from engine.match import RANKED, Auctioned, Match, Mode, Opening, deal_round, decide, replay
from engine.refusal import Refusal
from engine.seats import NORTH, SEATS, BySeat, Seat
from engine.tiles import DOUBLE_SIX, End, Tile, tile_set

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from engine.event import Event

SALT = bytes(range(32))


def tiles(text: str) -> tuple[Tile, ...]:
    """`1|4 2|2` as tiles."""
    return tuple(Tile.parse(word) for word in text.split())


def deal(north: str = "", south: str = "", boneyard: str = "") -> Deal:
    """A deal with these tiles where they are said to be (the boneyard from its top); the rest fills up in order."""
    named = [tiles(north), tiles(south), tiles(boneyard)]
    rest = [tile for tile in DOUBLE_SIX if not any(tile in pile for pile in named)]
    filled = []
    for pile, size in zip(named, (7, 7, 14), strict=True):
        missing = size - len(pile)
        filled.append(pile + tuple(rest[:missing]))
        rest = rest[missing:]
    return Deal(*filled)


def accepted(state: Match, command: Command) -> tuple[Event, ...]:
    """The events of a command that must be legal."""
    ruling = decide(state, command)
    assert not isinstance(ruling, Refusal), f"{command} was refused: {ruling}"
    return ruling


def after(state: Match, *commands: Command) -> Match:
    """The state after commands that must all be legal."""
    for command in commands:
        state = replay(state, accepted(state, command))
    return state


def started(
    *,
    balances: tuple[int, int] = (150, 150),
    opening: Opening | None = None,
    mode: Mode = Mode.ONLINE,
    banks_ns: BySeat[int] | None = None,
) -> Match:
    """A match in which both seats have pressed Start."""
    state = Match.start(
        balances=BySeat(*balances),
        mode=mode,
        banks_ns=banks_ns,
        opening=RANKED if opening is None else opening,
    )
    return after(state, *(Start(seat) for seat in SEATS))


def dealt(state: Match, the_deal: Deal) -> Match:
    """The state after a deal that must be due."""
    ruling = deal_round(state, the_deal, SALT)
    assert not isinstance(ruling, Refusal)
    return replay(state, ruling)


def continued(state: Match) -> Match:
    """The state after both seats have pressed Continue."""
    return after(state, *(Continue(seat) for seat in SEATS))


def auction(jockey: Seat = NORTH, *, balances: tuple[int, int] = (150, 150)) -> Match:
    """The beginning of an auction; the challenger is to speak."""
    return dealt(started(balances=balances, opening=Auctioned(jockey)), deal())


def free_opening(opener: Seat, the_deal: Deal, *, balances: tuple[int, int] = (150, 150)) -> Match:
    """A round this seat may open with any tile."""
    state = dealt(started(balances=balances, opening=Auctioned(opener)), the_deal)
    return after(state, Decline(opener.opponent))


def play(seat: Seat, tile: str, end: str | None = None) -> Play:
    """A Play command from texts."""
    return Play(seat, Tile.parse(tile), None if end is None else End.parse(end))


Step = tuple[str, str | None]
"""A tile and the end it is joined to."""


def scripted_round(steps: Sequence[Step], opener: Seat = NORTH) -> tuple[Match, list[Play]]:
    """A round about to be opened, and the plays of these steps by the seats in turn."""
    mine = " ".join(tile for tile, _ in steps[::2])
    theirs = " ".join(tile for tile, _ in steps[1::2])
    hands = (mine, theirs) if opener is NORTH else (theirs, mine)
    seats = [opener if n % 2 == 0 else opener.opponent for n in range(len(steps))]
    plays = [play(seat, tile, end) for seat, (tile, end) in zip(seats, steps, strict=True)]
    return free_opening(opener, deal(*hands)), plays


def layout(*steps: Step) -> Layout:
    """The layout after these placements."""
    table = EMPTY
    for name, at in steps:
        tile, end = Tile.parse(name), None if at is None else End.parse(at)
        join = table.joined(tile, end)
        assert end is None or join is not None, f"{name} cannot be joined to {at}"
        table = table.place(tile, end, tile.pips if join is None else join[1])
    return table


def endgame(
    north: str,
    south: str,
    *,
    table: Layout | None = None,
    boneyard: str = "",
    to_act: Seat = NORTH,
    passes: int = 0,
    balances: tuple[int, int] = (150, 150),
) -> Match:
    """A position late in a round, put together by hand; other tiles are simply not there."""
    state = free_opening(to_act, deal(), balances=balances)
    table = layout(("6|6", None)) if table is None else table
    opened = after(state, Play(to_act, state.hands[to_act][0]))
    return opened._replace(
        north_hand=tile_set(tiles(north)),
        south_hand=tile_set(tiles(south)),
        boneyard=tiles(boneyard),
        layout=table,
        to_act=to_act,
        passes=passes,
        balances=BySeat(*balances),
        last_transfer=None,
    )


def events_of(events: Iterable[Event], kind: type) -> list[Event]:
    """The events of one kind."""
    return [event for event in events if isinstance(event, kind)]
