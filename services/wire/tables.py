"""Tiles, ends, seats and whole views as messages of spectacularbid.match.v1.

What repeats is encoded once: an encoded message put behind another one is the encoding of both merged, so the plays of
a legal list, the open ends and the placements are joined from pieces and parsed in one go. That takes a tenth of the
time of building them message by message. There is one piece for each tile and end, hence a few hundred of each kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from engine.event import PointsMoved, Reason
from engine.layout import Placement
from engine.legal import NOTHING
from engine.match import Cause, DecisionKind, Legal, Match, Outcome, Phase
from engine.seats import NORTH, BySeat, Seat
from engine.tiles import DOUBLE_SIX, ENDS, End, Port, Tile, tiles_of
from engine.view import OpenEnd, View
from services.common.errors import malformed
from services.wire.parts import Part
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
_LEGAL: Final = Part(pb.Prompt, "legal")
_CLOCK: Final = Part(pb.Prompt, "clock")
_AWAITING_START: Final = Phase.AWAITING_START
_OVER: Final = Phase.OVER
# Messages are copied when they are put into others, so one of each tile is enough.
_TILES: Final[Mapping[Tile, pb.Tile]] = {tile: pb.Tile(low=tile.low, high=tile.high) for tile in DOUBLE_SIX}
_TILE_FROM: Final = {(tile.low, tile.high): tile for tile in DOUBLE_SIX}
_END_FROM: Final = {(end.tile, int(PORT[end.port])): end for end in ENDS}


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
    tile = _TILE_FROM.get((message.low, message.high))
    if tile is None:
        raise malformed(f"{field}: [{message.low}|{message.high}] is not a tile: 0 <= low <= high <= 6")
    return tile


def end_to_pb(end: End) -> pb.End:
    """An end."""
    return pb.End(tile=_TILES[end.tile], port=PORT[end.port])


def end_from_pb(message: pb.End, field: str) -> End:
    """An end. Raises ServiceError naming `field`."""
    tile, port = tile_from_pb(message.tile, f"{field}.tile"), message.port
    end = _END_FROM.get((tile, port))
    if end is None:
        if _PORT_FROM.get(port) is None:
            raise malformed(f"{field}.port: must be one of the ports")
        raise malformed(f"{field}: {tile!r} has no port {_PORT_FROM[port]}")
    return end


def seat_from_pb(number: int, field: str) -> Seat | None:
    """A seat, None when unspecified. Raises ServiceError naming `field`."""
    if number not in _SEAT_FROM:
        raise malformed(f"{field}: {number} is no seat")
    return _SEAT_FROM[pb.Seat.ValueType(number)]


@cache
def open_end_to_pb(end: End, value: int, counts: int) -> pb.OpenEnd:
    """An open end with what it counts; not to be changed."""
    return pb.OpenEnd(end=end_to_pb(end), value=value, counts=counts)


@cache
def placement_to_pb(tile: Tile, end: End | None, joined: Port | None) -> pb.Placement:
    """One tile of the layout; not to be changed."""
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
    return pb.Legal.FromString(_legal(legal, resign=resign))


def _legal(legal: Legal, *, resign: bool) -> bytes:
    """A Legal, encoded."""
    pieces = [_PLAYS[play] for play in legal.play]
    pieces.append(_beside_plays(legal[1:]))
    if resign:
        pieces.append(_RESIGN)
    return b"".join(pieces)


_RESIGN: Final = pb.Legal(resign=True).SerializeToString()


def _play(tile: Tile, end: End | None) -> bytes:
    """A play as a piece of a Legal."""
    play = pb.LegalPlay(tile=_TILES[tile], end=None if end is None else end_to_pb(end))
    return pb.Legal(plays=[play]).SerializeToString()


_PLAYS: Final = {
    (tile, end): _play(tile, end)
    for end in (None, *ENDS)
    for tile in (DOUBLE_SIX if end is None else tiles_of(end.fits))
}


@cache
def _beside_plays(rest: tuple[Any, ...]) -> bytes:
    """The fields of a `Legal` that stand behind its plays as a piece; mostly one of a few."""
    legal = Legal((), *rest)
    bid = legal.bid
    return pb.Legal(
        draw=legal.draw,
        pass_turn=legal.pass_,
        accept=legal.accept,
        decline=legal.decline,
        bid=None if bid is None else pb.BidRange(min=bid.minimum, max=bid.maximum, step=bid.step),
        start=bool(legal.start),
        continue_round=bool(legal.continue_),
        reveal=legal.reveal is not None,
    ).SerializeToString()


class Left(NamedTuple):
    """What the running decision has left, and what of its time was not charged. Nanoseconds."""

    remaining_ns: int
    credited_ns: int = 0


# A Prompt is put together from three parts, since the first is the same for everybody, and only the last changes while a
# question stands.


def question_to_bytes(state: Match, sequence: int) -> bytes:
    """The question on the table as everybody is told it, encoded. Of the state, only public facts are read."""
    return pb.Prompt(
        decision_id=state.decision_id,
        turn=state.turn,
        to_act=SEAT[state.to_act],
        kind=KIND[state.decision_kind],
        phase=PHASE[state.phase],
        sequence=sequence,
        awaiting_reveal=SEAT[state.awaiting_reveal],
    ).SerializeToString()


def choices_to_bytes(legal: Legal, phase: Phase, *, seated: bool) -> bytes:
    """What one receiver of the question may do, encoded; `seated` unless it is a spectator."""
    resign = seated and phase is not _AWAITING_START and phase is not _OVER
    if legal is NOTHING:
        return _ONLY_RESIGN if resign else _NO_CHOICE
    return _LEGAL.of(_legal(legal, resign=resign))


_ONLY_RESIGN: Final = _LEGAL.of(_RESIGN)
_NO_CHOICE: Final = _LEGAL.of(b"")


def clock_to_bytes(state: Match, left: Left | None) -> bytes:
    """Both clocks, encoded; `left` is None while they stand still. Of the state, only public facts are read.

    Everything is rounded down: a client may show less than there is, never more.
    """
    seat, (north_bank, south_bank) = state.to_act, state.banks
    if seat is None or left is None:
        clock = pb.Clock(
            running=SEAT[seat],
            north_bank_ms=north_bank // MILLISECOND,
            south_bank_ms=south_bank // MILLISECOND,
        )
        return _CLOCK.of(clock.SerializeToString())
    remaining, credited = left
    remaining = max(0, remaining)
    delay_left = remaining - (north_bank if seat is NORTH else south_bank)
    clock = pb.Clock(
        running=SEAT[seat],
        delay_left_ms=delay_left // MILLISECOND if delay_left > 0 else 0,
        north_bank_ms=north_bank // MILLISECOND,
        south_bank_ms=south_bank // MILLISECOND,
        remaining_ms=remaining // MILLISECOND,
        credited_ms=credited // MILLISECOND,
    )
    return _CLOCK.of(clock.SerializeToString())


def layout_to_pb(
    placements: Iterable[Placement], ends: Iterable[OpenEnd], spinner: Tile | None, count: int
) -> pb.Layout:
    """The layout, with its open ends and what they count."""
    pieces = [_placement(*each) for each in placements]
    pieces += [_open_end(*each) for each in ends]
    layout = pb.Layout.FromString(b"".join(pieces))
    layout.count = count
    if spinner is not None:
        layout.spinner.CopyFrom(_TILES[spinner])
    return layout


@cache
def _placement(tile: Tile, end: End | None, joined: Port | None) -> bytes:
    """A placement as a piece of a Layout."""
    return pb.Layout(placements=[placement_to_pb(tile, end, joined)]).SerializeToString()


@cache
def _open_end(end: End, value: int, counts: int) -> bytes:
    """An open end as a piece of a Layout."""
    return pb.Layout(ends=[open_end_to_pb(end, value, counts)]).SerializeToString()


def table_to_pb(view: View) -> pb.Table:
    """One receiver's view, without what belongs to the match row (players, time control) and without the question."""
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
        layout=layout_to_pb(view.placements, view.ends, view.spinner, view.count),
        last_transfer=None if view.last_transfer is None else transfer_to_pb(view.last_transfer),
        jockey=SEAT[view.jockey],
        bidder=SEAT[None if bid is None else bid.seat],
        standing_bid=0 if bid is None else bid.amount,
        pressed=[SEAT[seat] for seat in view.pressed],
        commitment=view.commitment or "",
        outcome=None if view.outcome is None else outcome_to_pb(view.outcome),
        hand_totals=None if totals is None else pb.HandTotals(north=totals.north, south=totals.south),
    )
