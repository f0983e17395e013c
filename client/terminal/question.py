"""What is asked now, and of whom, in words and as buttons; the auction with its legal amounts and net prices."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from client.bots.greedy import count_after, points
from client.terminal.canvas import Target
from client.terminal.selection import fitting, letter_of, playable
from client.terminal.story import ended, who
from engine.auction import DISCOUNT, discount
from engine.command import Accept, Continue, Decline, Draw, Pass, Reveal, Start
from engine.seats import SEATS
from engine.state import DecisionKind, Phase

if TYPE_CHECKING:
    from client.table import TableState
    from client.terminal.selection import Selection
    from engine.seats import Seat
    from engine.tiles import Tile


class Button(NamedTuple):
    """Something to press: a key, or the mouse."""

    key: str
    text: str
    target: Target


class Question(NamedTuple):
    """What the question row says."""

    text: str
    asked: bool
    """Whether whoever looks on has to do something."""
    buttons: tuple[Button, ...] = ()


def question(table: TableState, seat: Seat | None, selection: Selection) -> Question:
    """The question on the table for whoever plays `seat` here; None only looks on."""
    if table.outcome is not None:
        return Question(ended(table, table.outcome), asked=False)
    if seat is None or not table.prompt.legal.asks:
        return Question(_waiting(table), asked=False)
    legal, prompt = table.prompt.legal, table.prompt
    if legal.start:
        text = "Press Enter to start. The first round is dealt when both have."
        return Question(text, asked=True, buttons=(_button("Enter", "Start", Start(seat)),))
    if legal.continue_round:
        text = f"{_round_end(table)} Enter goes on; the next is dealt when both have."
        return Question(text, asked=True, buttons=(_button("Enter", "Continue", Continue(seat)),))
    if legal.reveal:
        text = f"{who(table, seat)}: press Enter to see your tiles. Your clock runs from then on."
        return Question(text, asked=True, buttons=(_button("Enter", "Reveal", Reveal(seat)),))
    if legal.draw:
        text = "None of your tiles fits: draw from the boneyard."
        return Question(text, asked=True, buttons=(_button("D", "Draw", Draw(seat)),))
    if legal.pass_turn:
        text = "None of your tiles fits and the boneyard is empty: pass."
        return Question(text, asked=True, buttons=(_button("P", "Pass", Pass(seat)),))
    if prompt.phase is Phase.AUCTION:
        return Question(_auction(table, seat), asked=True, buttons=_words(table, seat))
    return _play(table, selection)


def _button(
    key: str, text: str, command: Start | Continue | Reveal | Draw | Pass | Accept | Decline
) -> Button:
    return Button(key, text, Target(command=command))


def _waiting(table: TableState) -> str:
    prompt = table.prompt
    if prompt.phase is Phase.AWAITING_START:
        missing = [who(table, seat) for seat in _not_pressed(table)]
        return f"Waiting for {' and '.join(missing)} to press Start."
    if prompt.phase is Phase.SETTLED:
        missing = [who(table, seat) for seat in _not_pressed(table)]
        return f"{_round_end(table)} Waiting for {' and '.join(missing)}."
    if prompt.phase is Phase.AWAITING_DEAL or prompt.to_act is None:
        return "The service deals." if prompt.phase is Phase.AWAITING_DEAL else ""
    name = who(table, prompt.to_act)
    standing = ""
    if prompt.phase is Phase.AUCTION and table.bidder is not None:
        standing = f" {who(table, table.bidder)} bid {table.standing_bid}, {_price(table)} to pay."
    verb = {
        DecisionKind.BID: "to bid or decline",
        DecisionKind.ANSWER: "to accept or raise",
        DecisionKind.OPEN: "to open",
        DecisionKind.PLAY: "to play",
    }.get(prompt.kind or DecisionKind.PLAY, "to act")
    verb = verb if name != "You" else verb.replace("to ", "", 1)
    return f"{name} {verb}.{standing}"


def _not_pressed(table: TableState) -> list[Seat]:
    return [seat for seat in SEATS if seat not in table.pressed]


def _round_end(table: TableState) -> str:
    if table.hand_totals is not None:
        totals = table.hand_totals
        return f"Blocked: north holds {totals.north}, south {totals.south}."
    return f"{who(table, table.jockey)} went out." if table.jockey is not None else "The round is over."


def price(amount: int, seat: Seat, jockey: Seat | None) -> int:
    """What a seat pays in the end for a bid: the jockey's is 15 cheaper (rule 5.5)."""
    return amount if jockey is None else amount - discount(seat, jockey, amount)


def _price(table: TableState) -> int:
    assert table.bidder is not None, "a bid stands"
    return price(table.standing_bid, table.bidder, table.jockey)


def _auction(table: TableState, seat: Seat) -> str:
    role = "jockey" if seat is table.jockey else "challenger"
    if table.bidder is None:
        least = "" if table.prompt.legal.bid else " You have less than 15 points."
        return f"Auction. You are the {role}: bid for the opening, or decline.{least}"
    bidder = who(table, table.bidder)
    return f"Auction. {bidder} bid {table.standing_bid}: accept and get {_price(table)}, or raise."


def auction_rows(table: TableState) -> list[tuple[str, str]]:
    """The auction as rows of text and style: the two roles, the standing bid, what each would pay for it."""
    jockey = table.jockey
    assert jockey is not None, "an auction has a jockey"
    rows = [("The auction for the opening", "title"), ("", "")]
    for seat, role in ((jockey, "jockey"), (jockey.opponent, "challenger")):
        name, has = who(table, seat), "have" if seat is table.seat else "has"
        rows.append((f"{role:<11}{name}, {has} {table.balances[seat]} points", ""))
    rows.append(("", ""))
    if table.bidder is None:
        rows.append(("no bid yet; the first is at least 15", ""))
    else:
        bidder, other = who(table, table.bidder), who(table, table.bidder.opponent).replace("You", "you")
        pays = "pay" if table.bidder is table.seat else "pays"
        text = f"standing bid {table.standing_bid} by {bidder}: {bidder} {pays} {other} {_price(table)} if accepted"
        rows.append((text, "question"))
    rows.append(
        (f"The jockey's own winning bid costs {DISCOUNT} less; whoever wins opens with any tile.", "")
    )
    return rows


def _words(table: TableState, seat: Seat) -> tuple[Button, ...]:
    legal = table.prompt.legal
    found = []
    if legal.accept:
        found.append(_button("A", "Accept", Accept(seat)))
    if legal.decline:
        found.append(_button("D", "Decline", Decline(seat)))
    return tuple(found)


def amount_text(table: TableState, seat: Seat, selection: Selection) -> str:
    """What the chosen amount comes to, or how to choose one; empty where no bid is legal."""
    bid = table.prompt.legal.bid
    if bid is None:
        return ""
    if selection.amount is None:
        return f"{bid.lowest} to {bid.highest}"
    net = price(selection.amount, seat, table.jockey)
    off = f" ({selection.amount - net} off)" if net != selection.amount else ""
    warning = ", ALL you have: you lose" if net == table.balances[seat] else ""
    return f"you pay {net}{off}{warning}"


def _play(table: TableState, selection: Selection) -> Question:
    tile = selection.tile
    plays = playable(table)
    enter = Button("Enter", "Play", Target(key="enter"))
    if tile is None:
        if not table.placements:
            return Question("You open: choose any tile.", asked=True)
        return Question("Your turn: choose a tile, then an end.", asked=True)
    if not table.placements:
        forced = "You must open with" if len(plays) == 1 else "Open with"
        if tile not in plays:
            return Question(f"[{tile}] may not open this round.", asked=True, buttons=(enter,))
        return Question(f"{forced} [{tile}]: {_scores(tile.pips)}.", asked=True, buttons=(enter,))
    ends = fitting(table, tile)
    if not ends:
        somewhere = any(each.value in (tile.low, tile.high) for each in table.ends)
        # Where it would fit, only the drawn tile may be placed (rule 4.3).
        why = "may not be placed now" if somewhere else "fits nowhere"
        return Question(f"[{tile}] {why}.", asked=True, buttons=(enter,))
    if selection.end is None:
        letters = " or ".join(letter_of(table, end).upper() for end in ends)
        return Question(f"[{tile}] fits at {letters}: choose an end.", asked=True)
    if selection.end not in ends:
        text = f"[{tile}] does not fit at {letter_of(table, selection.end).upper()}."
        return Question(text, asked=True, buttons=(enter,))
    return Question(_placing(table, tile, selection), asked=True, buttons=(enter,))


def _placing(table: TableState, tile: Tile, selection: Selection) -> str:
    assert selection.end is not None, "an end is chosen"
    count = count_after(table, tile, selection.end)
    return f"[{tile}] at {letter_of(table, selection.end).upper()}: {_scores(count)}."


def _scores(count: int) -> str:
    scored = points(count)
    return f"count {count}, you score {scored}" if scored else f"count {count}, no score"
