"""What one seat or a spectator sees of a match: a value, made from a snapshot and folded over the events.

No rule of the game is needed here: what may be done comes with every question as `Prompt.legal`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from engine.outcome import Cause, Outcome
from engine.seats import BySeat, Seat
from engine.shuffle import NOTHING as NOTHING_ADDED
from engine.state import Phase
from engine.tiles import HAND_SIZE, End, Port, Tile

if TYPE_CHECKING:
    from engine.event import Reason
    from engine.state import DecisionKind

BONEYARD_SIZE = 28 - 2 * HAND_SIZE


@dataclass(frozen=True, slots=True)
class Player:
    """Who sits on a seat."""

    player_id: str
    name: str
    bot: bool = False


@dataclass(frozen=True, slots=True)
class BidRange:
    """The legal bids: `lowest`, `lowest + step`, … `highest`, in points."""

    lowest: int
    highest: int
    step: int = 5


@dataclass(frozen=True, slots=True)
class Legal:
    """All the receiving seat may do now."""

    plays: tuple[tuple[Tile, End | None], ...] = ()
    """Tile and the end to join; None for the opening tile."""
    draw: bool = False
    pass_turn: bool = False
    accept: bool = False
    decline: bool = False
    bid: BidRange | None = None
    start: bool = False
    continue_round: bool = False
    reveal: bool = False
    resign: bool = False

    @property
    def asks(self) -> bool:
        """Whether something is asked of this seat: resigning is always allowed and never asked for."""
        return replace(self, resign=False) != NOTHING


NOTHING = Legal()


@dataclass(frozen=True, slots=True)
class Clock:
    """Both clocks when the message was made, in milliseconds. `remaining_ms` counts down from `as_of`."""

    running: Seat | None
    banks_ms: BySeat[int]
    delay_left_ms: int
    """Of the running decision."""
    remaining_ms: int
    """Delay and bank together."""
    credited_ms: int = 0
    """Time of this decision that was lost to faults of the service and is not charged."""
    as_of: float = field(compare=False, default=0.0)
    """When it was received, on this machine's monotonic clock, in seconds."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """The question on the table."""

    decision_id: int
    turn: int
    to_act: Seat | None
    kind: DecisionKind | None
    """What it asks; None when a deal is due or the match is over."""
    legal: Legal
    clock: Clock = field(compare=False)
    phase: Phase
    awaiting_reveal: Seat | None = None
    """On one device: the seat that must reveal its hand before its turn begins (rule 7.4)."""


@dataclass(frozen=True, slots=True)
class OpenEnd:
    """An end where a tile may be joined, the value it wants, and what it counts now."""

    end: End
    value: int
    counts: int


@dataclass(frozen=True, slots=True)
class Placement:
    """One tile of the layout."""

    tile: Tile
    end: End | None
    joined: Port | None


@dataclass(frozen=True, slots=True)
class Transfer:
    """Points that moved: what was due, and what the payer could pay (rule 1.2)."""

    to: Seat
    due: int
    moved: int
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class TableState:
    """The whole table as one receiver may see it."""

    match_id: str
    sequence: int
    """The last event it takes into account."""
    seat: Seat | None
    """Whose view it is; None for a spectator and on one device."""
    players: BySeat[Player]
    rated: bool
    same_device: bool
    bank_ms: int
    delay_ms: int
    balances: BySeat[int]
    banks_ms: BySeat[int] = field(compare=False)
    """As of the last turn that ended; rounded down."""
    round_no: int
    hand: tuple[Tile, ...]
    """The own tiles, sorted."""
    tiles: BySeat[int]
    """How many tiles each seat holds."""
    boneyard: int
    placements: tuple[Placement, ...]
    ends: tuple[OpenEnd, ...]
    spinner: Tile | None
    count: int
    last_transfer: Transfer | None
    """What the last command moved, if anything."""
    jockey: Seat | None
    bidder: Seat | None
    standing_bid: int
    pressed: tuple[Seat, ...]
    commitment: str
    hand_totals: BySeat[int] | None
    outcome: Outcome | None
    prompt: Prompt
    next_commitment: str = ""
    """To the seed of the round that is dealt next."""
    contributions: BySeat[bytes] = NOTHING_ADDED
    """As of a snapshot, what the seats in `pressed` add to that deal."""

    @property
    def asks_me(self) -> bool:
        """Whether the receiver has to do something."""
        return self.outcome is None and self.prompt.legal.asks


# The fold. One function an event; `client.wire` calls them with the fields of the message.


def moved_on(table: TableState) -> TableState:
    """A command was carried out: what the one before moved is history."""
    return replace(table, last_transfer=None)


def pressed(table: TableState, seat: Seat) -> TableState:
    """Start or Continue; the second press ends the waiting."""
    both = bool(table.pressed)
    return replace(moved_on(table), pressed=() if both else (seat,))


def dealt(
    table: TableState, round_no: int, hand: tuple[Tile, ...], commitment: str, next_commitment: str = ""
) -> TableState:
    """A new round."""
    return replace(
        moved_on(table),
        round_no=round_no,
        hand=tuple(sorted(hand)),
        tiles=BySeat(HAND_SIZE, HAND_SIZE),
        boneyard=BONEYARD_SIZE,
        placements=(),
        ends=(),
        spinner=None,
        count=0,
        pressed=(),
        commitment=commitment,
        next_commitment=next_commitment,
        hand_totals=None,
    )


def revealed(table: TableState, hand: tuple[Tile, ...]) -> TableState:
    """On one device, the seat whose turn begins looks at its tiles."""
    return replace(moved_on(table), hand=tuple(sorted(hand)))


def bid_made(table: TableState, seat: Seat, amount: int) -> TableState:
    """A bid or raise."""
    return replace(_hidden(moved_on(table)), bidder=seat, standing_bid=amount)


def opening_won(table: TableState) -> TableState:
    """The auction is over."""
    return replace(_hidden(moved_on(table)), bidder=None, standing_bid=0)


def points_moved(table: TableState, transfer: Transfer, balances: BySeat[int]) -> TableState:
    """A transfer."""
    return replace(table, last_transfer=transfer, balances=balances)


def tile_placed(
    table: TableState,
    seat: Seat,
    placement: Placement,
    count: int,
    ends: tuple[OpenEnd, ...],
    spinner: Tile | None,
) -> TableState:
    """A tile left a hand for the layout."""
    return replace(
        _hidden(replace(table, hand=tuple(tile for tile in table.hand if tile is not placement.tile))),
        tiles=table.tiles.put(seat, table.tiles[seat] - 1),
        placements=(*table.placements, placement),
        count=count,
        ends=ends,
        spinner=spinner,
        last_transfer=None,
    )


def tile_drawn(table: TableState, seat: Seat, tile: Tile | None, boneyard: int) -> TableState:
    """A tile left the boneyard; only its own seat sees which."""
    return replace(
        moved_on(table),
        hand=table.hand if tile is None else tuple(sorted((*table.hand, tile))),
        tiles=table.tiles.put(seat, table.tiles[seat] + 1),
        boneyard=boneyard,
    )


def turn_passed(table: TableState) -> TableState:
    """A turn without a placement."""
    return _hidden(moved_on(table))


def went_out(table: TableState, seat: Seat) -> TableState:
    """A seat has no tile left."""
    return replace(table, jockey=seat, pressed=())


def round_blocked(table: TableState, hand_totals: BySeat[int]) -> TableState:
    """Two passes in a row."""
    return replace(table, jockey=None, pressed=(), hand_totals=hand_totals)


def match_ended(table: TableState, outcome: Outcome) -> TableState:
    """The end; nothing is asked of anybody any more."""
    transfer = table.last_transfer if outcome.cause is Cause.BALANCE else None
    over = replace(
        table.prompt, to_act=None, kind=None, legal=NOTHING, phase=Phase.OVER, awaiting_reveal=None
    )
    return replace(
        _hidden(table),
        outcome=outcome,
        prompt=over,
        last_transfer=transfer,
        bidder=None,
        standing_bid=0,
        pressed=(),
        next_commitment="",
    )


def turn_timed(table: TableState, seat: Seat, bank_ms: int) -> TableState:
    """A command was charged for its time."""
    return replace(table, banks_ms=table.banks_ms.put(seat, bank_ms))


def prompted(table: TableState, prompt: Prompt) -> TableState:
    """The question after the events."""
    return replace(table, prompt=prompt, banks_ms=prompt.clock.banks_ms)


def numbered(table: TableState, sequence: int) -> TableState:
    """The event with this number is taken into account."""
    return replace(table, sequence=sequence)


def _hidden(table: TableState) -> TableState:
    """On one device a hand is out of sight again when its turn ends (rule 7.4)."""
    return replace(table, hand=()) if table.same_device else table
