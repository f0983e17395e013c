"""What a picture says in words: headings, clocks, counts, the auction, and all of it for those who cannot see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from client.bots.account import minutes
from client.narration import ending
from engine.auction import StandingBid, bid_range, discount
from engine.event import Reason
from engine.points import UNIT
from engine.seats import SEATS, BySeat
from engine.state import DecisionKind, Phase
from engine.tiles import Port

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from client.positions import Position, Study
    from client.table import OpenEnd, TableState
    from engine.seats import Seat

_NAME_MAX: Final = 20
_ASKED: Final = {
    DecisionKind.BID: "to bid or decline",
    DecisionKind.ANSWER: "to accept or raise",
    DecisionKind.OPEN: "to open",
    DecisionKind.PLAY: "to play",
}
_REASONS: Final = {
    Reason.SCORE: "for the count",
    Reason.AUCTION: "for the opening",
    Reason.BLOCKED: "for the blocked round",
}


def name_of(study: Study, seat: Seat) -> str:
    """A player's name, cut where it would not fit."""
    name = study.players[seat].name
    return name if len(name) <= _NAME_MAX else f"{name[: _NAME_MAX - 1]}…"


def who(study: Study, table: TableState, seat: Seat) -> str:
    """Name, seat, and whether it is the jockey."""
    name = name_of(study, seat)
    seated = name if name == seat else f"{name} ({seat})"
    return f"{seated}, jockey" if table.jockey is seat else seated


def heading(study: Study, table: TableState) -> str:
    """The round, and what it waits for."""
    round_no = f"Round {table.round_no}" if table.round_no else "Before the first round"
    return f"{round_no}: {_asked(study, table)}"


def _asked(study: Study, table: TableState) -> str:
    prompt = table.prompt
    if table.outcome is not None:
        return ending(table.outcome, BySeat(*(name_of(study, seat) for seat in SEATS)))
    if prompt.awaiting_reveal is not None:
        return f"{name_of(study, prompt.awaiting_reveal)} to reveal the hand"
    if prompt.phase in (Phase.AWAITING_START, Phase.SETTLED):
        missing = " and ".join(name_of(study, seat) for seat in SEATS if seat not in table.pressed)
        return f"{missing} to press {'Start' if prompt.phase is Phase.AWAITING_START else 'Continue'}"
    if prompt.to_act is None or prompt.kind is None:
        return "a deal is due"
    return f"{name_of(study, prompt.to_act)} {_ASKED[prompt.kind]}"


def clock(table: TableState, seat: Seat) -> str:
    """The bank, and the delay of the seat whose turn begins or goes on; never more than there is."""
    running = table.prompt.clock
    bank = minutes(table.banks_ms[seat])
    if running.running is not seat:
        return f"bank {bank}"
    return f"bank {bank} + {running.delay_left_ms // 1000} s delay"


def chips(points: int) -> str:
    """A balance in chips."""
    count = points // UNIT
    return f"{count} {'chip' if count == 1 else 'chips'} of {UNIT}"


def tiles(count: int) -> str:
    """A number of tiles."""
    return f"{count} {'tile' if count == 1 else 'tiles'}"


def count(table: TableState) -> str:
    """What the open ends count together."""
    if not table.placements:
        return "no tile lies yet"
    return f"the ends count {table.count}"


def moved(table: TableState) -> str:
    """The last transfer; empty without one."""
    last = table.last_transfer
    if last is None:
        return ""
    due = f" of {last.due} due" if last.due != last.moved else ""
    reason = f" {_REASONS[last.reason]}" if last.reason is not None else ""
    return f"{last.moved} points{due} to {last.to}{reason}"


def end(open_end: OpenEnd) -> str:
    """One open end."""
    what = "branch" if open_end.end.port in (Port.BRANCH_A, Port.BRANCH_B) else "end"
    return f"{what} {open_end.end}: takes a {open_end.value}, counts {open_end.counts}"


def auction(study: Study, table: TableState) -> tuple[str, ...]:
    """How the auction stands, and what may be bid; empty when none is held."""
    seat, jockey = table.prompt.to_act, table.jockey
    if table.prompt.phase is not Phase.AUCTION or table.outcome is not None or jockey is None:
        return ()
    bidder = table.bidder
    if bidder is None:
        lines = [f"The opening is auctioned; {name_of(study, jockey)} is the jockey"]
    else:
        waived = discount(bidder, jockey, table.standing_bid)
        price = (
            f"{table.standing_bid - waived} to pay, {waived} waived"
            if waived
            else f"{table.standing_bid} to pay"
        )
        lines = [f"{name_of(study, bidder)} bids {table.standing_bid} for the opening: {price}"]
    if seat is not None:
        standing = None if bidder is None else StandingBid(bidder, table.standing_bid)
        allowed = bid_range(seat, jockey, standing, table.balances[seat])
        word = "may decline" if bidder is None else "may accept"
        bids = "" if allowed is None else f", or bid {allowed.minimum} to {allowed.maximum}"
        lines.append(f"{name_of(study, seat)} {word}{bids}")
    return tuple(lines)


def described(study: Study, position: Position, shown: Collection[Seat]) -> Iterator[str]:
    """The whole picture in sentences."""
    table = position.table
    yield f"{heading(study, table)}."
    for seat in SEATS:
        held = tiles(len(position.hands[seat]))
        if seat in shown and position.hands[seat]:
            held += " " + " ".join(f"[{tile}]" for tile in position.hands[seat])
        time = f", {clock(table, seat)}" if study.timed else ""
        has = f"{table.balances[seat]} points, {chips(table.balances[seat])}"
        yield f"{who(study, table, seat)}: {has}, {held}{time}."
    if table.placements:
        lying = " ".join(f"[{placed.tile}]" for placed in table.placements)
        spinner = f", spinner [{table.spinner}]" if table.spinner is not None else ""
        yield f"On the table in the order of play: {lying}{spinner}. {count(table)[0].upper()}{count(table)[1:]}."
        yield "; ".join(end(each) for each in table.ends) + "."
    yield f"Boneyard: {tiles(table.boneyard)}."
    yield from (f"{line}." for line in auction(study, table))
    for line in position.words(shown):
        yield f"{line}."
