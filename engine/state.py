"""The state of a match: one immutable value that holds everything the rules ask for."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from engine.clock import BANK, DELAY
from engine.layout import EMPTY, Layout
from engine.opening import RANKED, Auctioned, Opening
from engine.points import START_BALANCE, TOTAL, UNIT
from engine.seats import NORTH, SEATS, BySeat, Seat
from engine.tiles import tiles_of

if TYPE_CHECKING:
    from engine.auction import StandingBid
    from engine.event import PointsMoved
    from engine.outcome import Outcome
    from engine.tiles import Tile, TileSet


class Phase(StrEnum):
    """Where a match stands."""

    AWAITING_START = "awaiting_start"
    """Until both seats have pressed Start (rule 7.1)."""
    AWAITING_DEAL = "awaiting_deal"
    """Until the service deals the next round. Asks nothing of the players."""
    AUCTION = "auction"
    """Until the opening is won or declined (section 5)."""
    OPENING = "opening"
    """Until the opening tile is placed."""
    PLAYING = "playing"
    """Until somebody goes out or the round is blocked."""
    SETTLED = "settled"
    """Until both seats have pressed Continue (rule 7.1)."""
    OVER = "over"


class Mode(StrEnum):
    """How the two players sit."""

    ONLINE = "online"
    SAME_DEVICE = "same_device"
    """Both at one device: each turn begins with Reveal (rules 6.5, 7.4)."""


class DecisionKind(StrEnum):
    """What the question on the table is about.

    As coarse as what the other seat may know: whether a turn is to be played, drawn or passed depends on hidden
    tiles, so all three are PLAY.
    """

    START = "start"
    CONTINUE = "continue"
    REVEAL = "reveal"
    BID = "bid"
    """The challenger's first word: bid or decline."""
    ANSWER = "answer"
    """A bid stands: accept or raise."""
    OPEN = "open"
    PLAY = "play"


# A member's name is looked up through its class, which takes longer than all the rest of the question.
_REVEAL: Final = DecisionKind.REVEAL
_ANSWER: Final = DecisionKind.ANSWER
_KINDS: Final[dict[Phase, DecisionKind]] = {
    Phase.AWAITING_START: DecisionKind.START,
    Phase.SETTLED: DecisionKind.CONTINUE,
    Phase.AUCTION: DecisionKind.BID,
    Phase.OPENING: DecisionKind.OPEN,
    Phase.PLAYING: DecisionKind.PLAY,
}


class Match(NamedTuple):
    """A match between two events. Made by `Match.start`, changed by `evolve` alone.

    A named tuple because a new one is made with every event, many thousand times a second.
    """

    phase: Phase
    mode: Mode
    balances: BySeat[int]
    """Points; always 300 together (rule 1.1)."""
    banks: BySeat[int]
    """Nanoseconds left for the whole match, as of the last turn that ended (rule 6.1)."""
    delay_ns: int
    consumed_ns: int
    """What the current turn has used before its last draw (rule 6.3)."""
    round_no: int
    """The number of the last round that was dealt; 0 before the first."""
    decision_id: int
    """The number of the question on the table, from 1. Grows by one with each accepted command, except with the
    first of two presses of Start or Continue, which answers only half of the question."""
    turn: int
    """The number of the timed decision that is open or was the last one, from 1; 0 before the first. A draw
    changes the question, but not the turn."""
    to_act: Seat | None
    """The seat whose clock runs; None while no timed decision is open."""
    awaiting_reveal: Seat | None
    """On a shared device, the seat whose turn begins when it reveals its tiles."""
    pressed: tuple[Seat, ...]
    """The seats that have pressed Start or Continue while the other has not."""
    jockey: Seat | None
    """The seat that went out in the round before, until this round is over (rules 4.5, 5.1)."""
    standing_bid: StandingBid | None
    forced_tile: Tile | None
    """The tile the opening must be made with (rules 2.2, 2.3); None when any will do. Hidden from the opponent."""
    drawn_tile: Tile | None
    """A drawn tile that fits and waits to be placed (rule 4.3). Hidden from the opponent."""
    passes: int
    """How many turns in a row were passed: 0, 1, or 2 when the round is blocked."""
    north_hand: TileSet
    south_hand: TileSet
    boneyard: tuple[Tile, ...]
    """In drawing order."""
    layout: Layout
    last_transfer: PointsMoved | None
    """What the last command moved, if anything."""
    hand_totals: BySeat[int] | None
    """Both hand totals after a blocked round, until the next deal (rule 4.6)."""
    commitment: str | None
    """To the deal of this round; see `engine.deal.commitment`."""
    outcome: Outcome | None

    @staticmethod
    def start(
        *,
        balances: BySeat[int] | None = None,
        opening: Opening = RANKED,
        banks_ns: BySeat[int] | None = None,
        delay_ns: int = DELAY,
        mode: Mode | str = Mode.ONLINE,
    ) -> Match:
        """A match that waits for both seats to press Start. ValueError names what is wrong.

        By default 150 points and 120 s a seat. `opening` is how the first round opens: a position in the middle
        of a match may begin with an auction.
        """
        balances = BySeat(START_BALANCE, START_BALANCE) if balances is None else balances
        banks_ns = BySeat(BANK, BANK) if banks_ns is None else banks_ns
        for seat in SEATS:
            if balances[seat] % UNIT != 0 or not 0 < balances[seat] < TOTAL:
                msg = f"the balance of {seat} is {balances[seat]}: not a multiple of {UNIT} between 0 and {TOTAL}"
                raise ValueError(msg)
            if banks_ns[seat] < 0:
                msg = f"the bank of {seat} is negative"
                raise ValueError(msg)
            if banks_ns[seat] + delay_ns <= 0:
                msg = f"{seat} has neither bank nor delay"
                raise ValueError(msg)
        if balances.north + balances.south != TOTAL:
            msg = f"the balances are {balances.north + balances.south} together instead of {TOTAL}"
            raise ValueError(msg)
        if delay_ns < 0:
            raise ValueError("the delay is negative")
        return Match(
            phase=Phase.AWAITING_START,
            mode=Mode(mode),
            balances=balances,
            banks=banks_ns,
            delay_ns=delay_ns,
            consumed_ns=0,
            round_no=0,
            decision_id=1,
            turn=0,
            to_act=None,
            awaiting_reveal=None,
            pressed=(),
            jockey=opening.jockey if isinstance(opening, Auctioned) else None,
            standing_bid=None,
            forced_tile=None,
            drawn_tile=None,
            passes=0,
            north_hand=0,
            south_hand=0,
            boneyard=(),
            layout=EMPTY,
            last_transfer=None,
            hand_totals=None,
            commitment=None,
            outcome=None,
        )

    def hand(self, seat: Seat) -> TileSet:
        """The tiles one seat holds, as a set."""
        return self.north_hand if seat is NORTH else self.south_hand

    @property
    def hands(self) -> BySeat[tuple[Tile, ...]]:
        """The tiles both seats hold, sorted."""
        return BySeat(tiles_of(self.north_hand), tiles_of(self.south_hand))

    @property
    def opening(self) -> Opening:
        """How the round opens that is dealt next (rules 2.2, 5.1); in a round, how this one was opened."""
        return RANKED if self.jockey is None else Auctioned(self.jockey)

    @property
    def decision_kind(self) -> DecisionKind | None:
        """What the question on the table is about; None while there is none (a deal is due, the match is over)."""
        if self.awaiting_reveal is not None:
            return _REVEAL
        if self.standing_bid is not None:
            return _ANSWER
        return _KINDS.get(self.phase)

    @property
    def budget_ns(self) -> int | None:
        """What the seat to act still has for its turn, draws taken off; None while no clock runs."""
        if self.to_act is None:
            return None
        return self.delay_ns + self.banks[self.to_act] - self.consumed_ns
