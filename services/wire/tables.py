"""Tiles, ends, seats and whole views as messages of spectacularbid.match.v1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from engine.event import PointsMoved, Reason
from engine.layout import Placement
from engine.match import Cause, DecisionKind, Legal, Outcome, Phase
from engine.seats import BySeat, Seat
from engine.tiles import DOUBLE_SIX, End, Port, Tile
from engine.view import OpenEnd, View
from services.common.errors import malformed
from spectacularbid.match.v1 import table_pb2 as pb

MILLISECOND: Final = 1_000_000

SEAT: Final[Mapping[Seat | None, pb.Seat.ValueType]] = {
    None: pb.SEAT_UNSPECIFIED,
    Seat.NORTH: pb.SEAT_NORTH,
    Seat.SOUTH: pb.SEAT_SOUTH,
}
_SEAT_FROM: Final = {number: seat for seat, number in SEAT.items()}
PORT: Final[Mapping[Port | None, pb.Port.ValueType]] = {
    None: pb.PORT_UNSPECIFIED,
    **{port: pb.Port.Value(f"PORT_{port.name}") for port in Port},
}
_PORT_FROM: Final = {number: port for port, number in PORT.items()}
PHASE: Final[Mapping[Phase, pb.Phase.ValueType]] = {
    phase: pb.Phase.Value(f"PHASE_{phase.name}") for phase in Phase
}
KIND: Final[Mapping[DecisionKind | None, pb.DecisionKind.ValueType]] = {
    None: pb.DECISION_KIND_UNSPECIFIED,
    **{kind: pb.DecisionKind.Value(f"DECISION_KIND_{kind.name}") for kind in DecisionKind},
}
CAUSE: Final[Mapping[Cause, pb.Cause.ValueType]] = {
    cause: pb.Cause.Value(f"CAUSE_{cause.name}") for cause in Cause
}
REASON: Final[Mapping[Reason, pb.TransferReason.ValueType]] = {
    reason: pb.TransferReason.Value(f"TRANSFER_REASON_{reason.name}") for reason in Reason
}
# Messages are copied when they are put into others, so one of each tile is enough.
_TILES: Final[Mapping[Tile, pb.Tile]] = {tile: pb.Tile(low=tile.low, high=tile.high) for tile in DOUBLE_SIX}


def tile_to_pb(tile: Tile) -> pb.Tile:
    """A tile; not to be changed."""
    return _TILES[tile]


def tiles_to_pb(tiles: Iterable[Tile]) -> list[pb.Tile]:
    """Tiles; not to be changed."""
    return [_TILES[tile] for tile in tiles]


def tile_from_pb(message: pb.Tile, field: str) -> Tile:
    """A tile. Raises ServiceError naming `field`: both halves must be given, 0 to 6, the smaller first."""
    if not message.HasField("low") or not message.HasField("high"):
        raise malformed(f"{field}: both low and high must be given")
    if not 0 <= message.low <= message.high <= 6:
        raise malformed(f"{field}: [{message.low}|{message.high}] is not a tile: 0 <= low <= high <= 6")
    return Tile.of(message.low, message.high)


def end_to_pb(end: End) -> pb.End:
    """An end."""
    return pb.End(tile=_TILES[end.tile], port=PORT[end.port])


def end_from_pb(message: pb.End, field: str) -> End:
    """An end. Raises ServiceError naming `field`."""
    tile = tile_from_pb(message.tile, f"{field}.tile")
    port = _PORT_FROM.get(message.port)
    if port is None:
        raise malformed(f"{field}.port: must be one of the ports")
    try:
        return End.of(tile, port)
    except ValueError:
        raise malformed(f"{field}: {tile!r} has no port {port}") from None


def seat_from_pb(number: int, field: str) -> Seat | None:
    """A seat, None when unspecified. Raises ServiceError naming `field`."""
    if number not in _SEAT_FROM:
        raise malformed(f"{field}: {number} is no seat")
    return _SEAT_FROM[pb.Seat.ValueType(number)]


def open_ends_to_pb(ends: Iterable[OpenEnd]) -> list[pb.OpenEnd]:
    """Open ends with what they count."""
    return [pb.OpenEnd(end=end_to_pb(end), value=value, counts=counts) for end, value, counts in ends]


def placement_to_pb(tile: Tile, end: End | None, joined: Port | None) -> pb.Placement:
    """One tile of the layout."""
    return pb.Placement(tile=_TILES[tile], end=None if end is None else end_to_pb(end), joined=PORT[joined])


def transfer_to_pb(moved: PointsMoved) -> pb.Transfer:
    """A transfer."""
    return pb.Transfer(to=SEAT[moved.to], due=moved.due, moved=moved.moved, reason=REASON[moved.reason])


def balances_to_pb(balances: BySeat[int]) -> pb.Balances:
    """Both balances."""
    return pb.Balances(north=balances.north, south=balances.south)


def contributions_to_pb(given: BySeat[bytes]) -> pb.Contributions:
    """What the players have added to a deal."""
    return pb.Contributions(north=given.north, south=given.south)


def outcome_to_pb(outcome: Outcome) -> pb.Outcome:
    """How a match ended."""
    return pb.Outcome(winner=SEAT[outcome.winner], cause=CAUSE[outcome.cause], detail=outcome.detail)


def legal_to_pb(legal: Legal, *, resign: bool) -> pb.Legal:
    """What the receiving seat may do."""
    bid = legal.bid
    return pb.Legal(
        plays=[
            pb.LegalPlay(tile=_TILES[tile], end=None if end is None else end_to_pb(end))
            for tile, end in legal.play
        ],
        draw=legal.draw,
        pass_turn=legal.pass_,
        accept=legal.accept,
        decline=legal.decline,
        bid=None if bid is None else pb.BidRange(min=bid.minimum, max=bid.maximum, step=bid.step),
        start=bool(legal.start),
        continue_round=bool(legal.continue_),
        reveal=legal.reveal is not None,
        resign=resign,
    )


class Left(NamedTuple):
    """What the running decision has left, and what of its time was not charged. Nanoseconds."""

    remaining_ns: int
    credited_ns: int = 0


def clock_to_pb(view: View, left: Left | None) -> pb.Clock:
    """Both clocks; `left` is None while they stand still.

    Everything is rounded down: a client may show less than there is, never more.
    """
    clock = pb.Clock(
        running=SEAT[view.to_act],
        north_bank_ms=view.banks.north // MILLISECOND,
        south_bank_ms=view.banks.south // MILLISECOND,
    )
    if view.to_act is not None and left is not None:
        remaining = max(0, left.remaining_ns)
        clock.credited_ms = left.credited_ns // MILLISECOND
        clock.remaining_ms = remaining // MILLISECOND
        clock.delay_left_ms = max(0, remaining - view.banks[view.to_act]) // MILLISECOND
    return clock


def prompt_to_pb(view: View, sequence: int, left: Left | None) -> pb.Prompt:
    """The question on the table as one receiver sees it."""
    playing = view.phase not in (Phase.AWAITING_START, Phase.OVER)
    return pb.Prompt(
        decision_id=view.decision_id,
        turn=view.turn,
        to_act=SEAT[view.to_act],
        kind=KIND[view.kind],
        legal=legal_to_pb(view.legal, resign=playing and view.seat is not None),
        clock=clock_to_pb(view, left),
        phase=PHASE[view.phase],
        sequence=sequence,
        awaiting_reveal=SEAT[view.awaiting_reveal],
    )


def layout_to_pb(placements: Iterable[Placement], view: View) -> pb.Layout:
    """The layout."""
    return pb.Layout(
        placements=[placement_to_pb(tile, end, joined) for tile, end, joined in placements],
        spinner=None if view.spinner is None else _TILES[view.spinner],
        ends=open_ends_to_pb(view.ends),
        count=view.count,
    )


def table_to_pb(view: View, sequence: int, left: Left | None) -> pb.Table:
    """One receiver's view, without what belongs to the match row (players, time control)."""
    bid = view.standing_bid
    totals = view.hand_totals
    return pb.Table(
        seat=SEAT[view.seat],
        balances=balances_to_pb(view.balances),
        round=view.round_no,
        hand=tiles_to_pb(view.hand or ()),
        north_tiles=view.hand_counts.north,
        south_tiles=view.hand_counts.south,
        boneyard=view.boneyard_count,
        layout=layout_to_pb(view.placements, view),
        last_transfer=None if view.last_transfer is None else transfer_to_pb(view.last_transfer),
        jockey=SEAT[view.jockey],
        bidder=SEAT[None if bid is None else bid.seat],
        standing_bid=0 if bid is None else bid.amount,
        pressed=[SEAT[seat] for seat in view.pressed],
        commitment=view.commitment or "",
        outcome=None if view.outcome is None else outcome_to_pb(view.outcome),
        prompt=prompt_to_pb(view, sequence, left),
        hand_totals=None if totals is None else pb.HandTotals(north=totals.north, south=totals.south),
    )
