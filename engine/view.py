"""What a seat or a spectator may know: the only two ways out to a client (rule 2.4).

`view` and `redact` build their answers from what is allowed; nothing is copied and then struck out. No answer holds
a tile of the other hand, the order or the tiles of the boneyard, a salt, or anything that follows from them. `None`
in place of a seat is a spectator.

On a shared device (rule 7.4) one connection holds both seats. It may ask for the views of both: a view holds the
hand only while that seat's turn lasts. For the events there is `redact_for_device`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from engine.event import (
    BidMade,
    Continued,
    MatchEnded,
    OpeningWon,
    PointsMoved,
    Revealed,
    RoundBlocked,
    RoundDealt,
    RoundWentOut,
    Started,
    TileDrawn,
    TilePlaced,
    TurnPassed,
    TurnTimed,
)
from engine.legal import NOTHING, Legal, legal
from engine.seats import BySeat
from engine.state import Match, Mode
from engine.tiles import ENDS, tiles_of

if TYPE_CHECKING:
    from engine.auction import StandingBid
    from engine.event import Event
    from engine.layout import Layout, Placement
    from engine.outcome import Outcome
    from engine.seats import Seat
    from engine.state import DecisionKind, Phase
    from engine.tiles import End, Tile


class OpenEnd(NamedTuple):
    """One place where a tile may be joined."""

    end: End
    value: int
    """What the joined tile must show."""
    counts: int
    """What it adds to the count now (rule 3.5)."""


_new: Final = tuple.__new__
_SAME_DEVICE: Final = Mode.SAME_DEVICE
# One object for each end, with what it counts once and, as the second line of an opening double, not at all.
_OPEN_ENDS: Final = {
    (end, counts): OpenEnd(end, end.value, counts) for end in ENDS for counts in {0, end.counts}
}


def open_ends(layout: Layout) -> tuple[OpenEnd, ...]:
    """The places where a tile may be joined, in the order in which the layout has them."""
    return tuple([_OPEN_ENDS[each] for each in layout.open_ends])


class View(NamedTuple):
    """Everything a client may draw. See `Match` for fields of the same name."""

    seat: Seat | None
    """Who sees this; None for a spectator."""
    phase: Phase
    mode: Mode
    round_no: int
    decision_id: int
    turn: int
    to_act: Seat | None
    awaiting_reveal: Seat | None
    kind: DecisionKind | None
    balances: BySeat[int]
    banks: BySeat[int]
    delay_ns: int
    consumed_ns: int
    hand: tuple[Tile, ...] | None
    """The viewer's own tiles, sorted; None for a spectator and for a seat that has not revealed them."""
    hand_counts: BySeat[int]
    boneyard_count: int
    placements: tuple[Placement, ...]
    """The layout, in the order in which it was laid, with the join of each tile."""
    spinner: Tile | None
    ends: tuple[OpenEnd, ...]
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody needs here
    last_transfer: PointsMoved | None
    jockey: Seat | None
    standing_bid: StandingBid | None
    pressed: tuple[Seat, ...]
    legal: Legal
    """What the viewer may ask for now; empty for everybody else."""
    hand_totals: BySeat[int] | None
    commitment: str | None
    outcome: Outcome | None


def view(state: Match, seat: Seat | None) -> View:
    """The match as one seat sees it, or a spectator."""
    layout = state.layout
    # In the order of the fields: naming them takes as long as everything else here together.
    return _new(
        View,
        (
            seat,
            state.phase,
            state.mode,
            state.round_no,
            state.decision_id,
            state.turn,
            state.to_act,
            state.awaiting_reveal,
            state.decision_kind,
            state.balances,
            state.banks,
            state.delay_ns,
            state.consumed_ns,
            _hand(state, seat),
            BySeat(state.north_hand.bit_count(), state.south_hand.bit_count()),
            len(state.boneyard),
            layout.placements,
            layout.spinner,
            open_ends(layout),
            layout.total,
            state.last_transfer,
            state.jockey,
            state.standing_bid,
            state.pressed,
            choices_of(state, seat),
            state.hand_totals,
            state.commitment,
            state.outcome,
        ),
    )


def _hand(state: Match, seat: Seat | None) -> tuple[Tile, ...] | None:
    if seat is None or (state.mode is _SAME_DEVICE and state.to_act is not seat):
        return None
    return tiles_of(state.hand(seat))


def choices_of(state: Match, seat: Seat | None) -> Legal:
    """What this seat may ask for; a spectator, nothing. The list of the seat to act would tell its tiles: nobody else gets it."""
    if seat is None:
        return NOTHING
    if state.to_act is not None:
        return legal(state) if state.to_act is seat else NOTHING
    everything = legal(state)
    return Legal(
        start=(seat,) if seat in everything.start else (),
        continue_=(seat,) if seat in everything.continue_ else (),
        reveal=seat if seat is everything.reveal else None,
    )


@dataclass(frozen=True, slots=True)
class HandDealt:
    """A round was dealt, as one seat is told."""

    round_no: int
    hand: tuple[Tile, ...] | None
    """The own tiles, sorted; None for a spectator, and on a shared device, where Reveal shows them."""
    commitment: str
    contributions: BySeat[bytes] | None = None
    """What the players added to it, public from now on; None for a deal that was not drawn."""
    next_commitment: str | None = None
    scripted: bool = False


SeatEvent = (
    HandDealt
    | Started
    | Continued
    | Revealed
    | BidMade
    | OpeningWon
    | PointsMoved
    | TilePlaced
    | TileDrawn
    | TurnPassed
    | RoundWentOut
    | RoundBlocked
    | TurnTimed
    | MatchEnded
)
"""What a seat or a spectator is told: exactly one for every event, so that both are numbered alike."""


def redact(event: Event, seat: Seat | None, mode: Mode = Mode.ONLINE) -> SeatEvent:
    """One event as one seat may hear of it, or a spectator. The event itself when it is the same for everybody."""
    if isinstance(event, RoundDealt):
        shown = None if seat is None or mode is _SAME_DEVICE else event.deal.hand(seat)
        return HandDealt(
            event.round_no,
            shown,
            event.commitment,
            event.contributions,
            event.next_commitment,
            event.scripted,
        )
    if isinstance(event, TileDrawn):
        return TileDrawn(event.seat, event.tile if event.seat is seat else None)
    if isinstance(event, Revealed):
        return Revealed(event.seat, event.hand if event.seat is seat else None)
    return event  # the types say that none of the rest has secrets


def redact_for_device(event: Event) -> SeatEvent:
    """One event as the connection that holds both seats of a shared device may hear of it.

    It hears of tiles only in the turn of their holder: those of a Reveal, and those drawn in the turn it began.
    """
    seat = event.seat if isinstance(event, TileDrawn | Revealed) else None
    return redact(event, seat, Mode.SAME_DEVICE)
