"""Messages of the services into values and back. Nothing else in the client reads tables or builds commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar, assert_never

from client import table as fold
from client.printable import printable
from client.table import (
    BidRange,
    Clock,
    Legal,
    OpenEnd,
    Placement,
    Player,
    Prompt,
    TableState,
    Transfer,
)
from engine.command import Accept, Bid, Continue, Decline, Draw, Pass, Play, Resign, Reveal, Start
from engine.event import Reason
from engine.outcome import Cause, Outcome
from engine.seats import NORTH, SOUTH, BySeat, Seat
from engine.state import DecisionKind, Phase
from engine.tiles import End, Port, Tile
from spectacularbid.match.v1 import match_service_pb2, table_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engine.command import Command
    from spectacularbid.match.v1 import event_pb2

N = TypeVar("N", bound=int)
T = TypeVar("T")

_SEATS: Final = {table_pb2.SEAT_NORTH: NORTH, table_pb2.SEAT_SOUTH: SOUTH}
_PORTS: Final = {
    table_pb2.PORT_LOW: Port.LOW,
    table_pb2.PORT_HIGH: Port.HIGH,
    table_pb2.PORT_LINE_A: Port.LINE_A,
    table_pb2.PORT_LINE_B: Port.LINE_B,
    table_pb2.PORT_BRANCH_A: Port.BRANCH_A,
    table_pb2.PORT_BRANCH_B: Port.BRANCH_B,
}
_PHASES: Final = {
    table_pb2.PHASE_AWAITING_START: Phase.AWAITING_START,
    table_pb2.PHASE_AWAITING_DEAL: Phase.AWAITING_DEAL,
    table_pb2.PHASE_AUCTION: Phase.AUCTION,
    table_pb2.PHASE_OPENING: Phase.OPENING,
    table_pb2.PHASE_PLAYING: Phase.PLAYING,
    table_pb2.PHASE_SETTLED: Phase.SETTLED,
    table_pb2.PHASE_OVER: Phase.OVER,
}
_KINDS: Final = {
    table_pb2.DECISION_KIND_START: DecisionKind.START,
    table_pb2.DECISION_KIND_CONTINUE: DecisionKind.CONTINUE,
    table_pb2.DECISION_KIND_REVEAL: DecisionKind.REVEAL,
    table_pb2.DECISION_KIND_BID: DecisionKind.BID,
    table_pb2.DECISION_KIND_ANSWER: DecisionKind.ANSWER,
    table_pb2.DECISION_KIND_OPEN: DecisionKind.OPEN,
    table_pb2.DECISION_KIND_PLAY: DecisionKind.PLAY,
}
_REASONS: Final = {
    table_pb2.TRANSFER_REASON_SCORE: Reason.SCORE,
    table_pb2.TRANSFER_REASON_AUCTION: Reason.AUCTION,
    table_pb2.TRANSFER_REASON_BLOCKED: Reason.BLOCKED,
}
_CAUSES: Final = {
    table_pb2.CAUSE_BALANCE: Cause.BALANCE,
    table_pb2.CAUSE_TIME: Cause.TIME,
    table_pb2.CAUSE_RESIGNATION: Cause.RESIGNATION,
    table_pb2.CAUSE_VOID: Cause.VOID,
    table_pb2.CAUSE_CANCELLED: Cause.CANCELLED,
}
_SEATS_TO_PB: Final = {seat: number for number, seat in _SEATS.items()}
_PORTS_TO_PB: Final = {port: number for number, port in _PORTS.items()}


class WireError(ValueError):
    """A message that makes no sense to this release of the client."""


def _known(values: Mapping[N, T], number: N, what: str) -> T:
    """The value of an enum number. Raises WireError for one of a newer service that cannot be left out."""
    value = values.get(number)
    if value is None:
        raise WireError(f"the service names {what} {number}, which this client does not know")
    return value


# From the service


def seat_from_pb(number: table_pb2.Seat.ValueType) -> Seat | None:
    """A seat; None when none is named."""
    return _SEATS.get(number)


def some_seat_from_pb(number: table_pb2.Seat.ValueType) -> Seat:
    """A seat where there must be one."""
    return _known(_SEATS, number, "seat")


def tile_from_pb(tile: table_pb2.Tile) -> Tile:
    """A tile. Raises WireError for one that there is not."""
    try:
        return Tile.of(tile.low, tile.high)
    except ValueError:
        raise WireError(f"the service names a tile {tile.low}|{tile.high}, which there is not") from None


def tiles_from_pb(tiles: Iterable[table_pb2.Tile]) -> tuple[Tile, ...]:
    """Tiles, in the order given."""
    return tuple(map(tile_from_pb, tiles))


def end_from_pb(end: table_pb2.End) -> End:
    """An end of the layout. Raises WireError for one that there is not."""
    tile, port = tile_from_pb(end.tile), _known(_PORTS, end.port, "port")
    try:
        return End.of(tile, port)
    except ValueError:
        raise WireError(f"the service names an end {tile} {port}, which there is not") from None


def outcome_from_pb(outcome: table_pb2.Outcome) -> Outcome:
    """How a match ended."""
    detail = printable(outcome.detail)
    return Outcome(seat_from_pb(outcome.winner), _known(_CAUSES, outcome.cause, "cause"), detail)


def player_from_pb(player: table_pb2.Player) -> Player:
    """A player."""
    return Player(printable(player.player_id), printable(player.name), player.bot)


def prompt_from_pb(prompt: table_pb2.Prompt, now: float) -> Prompt:
    """The question on the table; `now` is when it was received, in seconds on the monotonic clock."""
    legal, clock = prompt.legal, prompt.clock
    return Prompt(
        decision_id=prompt.decision_id,
        turn=prompt.turn,
        to_act=seat_from_pb(prompt.to_act),
        kind=_KINDS.get(prompt.kind),
        legal=Legal(
            plays=tuple(
                (tile_from_pb(play.tile), end_from_pb(play.end) if play.HasField("end") else None)
                for play in legal.plays
            ),
            draw=legal.draw,
            pass_turn=legal.pass_turn,
            accept=legal.accept,
            decline=legal.decline,
            bid=BidRange(legal.bid.min, legal.bid.max, legal.bid.step) if legal.HasField("bid") else None,
            start=legal.start,
            continue_round=legal.continue_round,
            reveal=legal.reveal,
            resign=legal.resign,
        ),
        clock=Clock(
            running=seat_from_pb(clock.running),
            banks_ms=BySeat(clock.north_bank_ms, clock.south_bank_ms),
            delay_left_ms=clock.delay_left_ms,
            remaining_ms=clock.remaining_ms,
            credited_ms=clock.credited_ms,
            as_of=now,
        ),
        phase=_known(_PHASES, prompt.phase, "phase"),
        awaiting_reveal=seat_from_pb(prompt.awaiting_reveal),
    )


def table_from_pb(snapshot: match_service_pb2.Snapshot, now: float) -> TableState:
    """A whole table."""
    table = snapshot.table
    layout = table.layout
    prompt = prompt_from_pb(table.prompt, now)
    return TableState(
        match_id=table.match_id,
        sequence=snapshot.sequence,
        seat=None if table.same_device else seat_from_pb(table.seat),
        players=BySeat(player_from_pb(table.north), player_from_pb(table.south)),
        rated=table.rated,
        same_device=table.same_device,
        bank_ms=table.bank_ms,
        delay_ms=table.delay_ms,
        balances=BySeat(table.balances.north, table.balances.south),
        banks_ms=prompt.clock.banks_ms,
        round_no=table.round,
        hand=tuple(sorted(tiles_from_pb(table.hand))),
        tiles=BySeat(table.north_tiles, table.south_tiles),
        boneyard=table.boneyard,
        placements=tuple(map(_placement, layout.placements)),
        ends=_ends(layout.ends),
        spinner=tile_from_pb(layout.spinner) if layout.HasField("spinner") else None,
        count=layout.count,
        last_transfer=_transfer(table.last_transfer) if table.HasField("last_transfer") else None,
        jockey=seat_from_pb(table.jockey),
        bidder=seat_from_pb(table.bidder),
        standing_bid=table.standing_bid,
        pressed=tuple(some_seat_from_pb(seat) for seat in table.pressed),
        commitment=table.commitment,
        hand_totals=_totals(table.hand_totals) if table.HasField("hand_totals") else None,
        outcome=outcome_from_pb(table.outcome) if table.HasField("outcome") else None,
        prompt=prompt,
        next_commitment=table.next_commitment,
        contributions=contributions_from_pb(table.contributions),
    )


def contributions_from_pb(given: table_pb2.Contributions) -> BySeat[bytes]:
    """What each seat has added to a deal."""
    return BySeat(given.north, given.south)


def evolve(table: TableState, event: event_pb2.MatchEvent) -> TableState:
    """The table after one more event. An event of a kind this release does not know changes only the number."""
    after = _evolve(table, event)
    return fold.numbered(after, event.sequence)


def _evolve(table: TableState, event: event_pb2.MatchEvent) -> TableState:
    match event.WhichOneof("kind"):
        case "started":
            return fold.pressed(table, some_seat_from_pb(event.started.seat))
        case "continued":
            return fold.pressed(table, some_seat_from_pb(event.continued.seat))
        case "hand_dealt":
            dealt = event.hand_dealt
            hand = tiles_from_pb(dealt.hand)
            return fold.dealt(table, dealt.round, hand, dealt.commitment, dealt.next_commitment)
        case "revealed":
            return fold.revealed(table, tiles_from_pb(event.revealed.hand))
        case "bid_made":
            return fold.bid_made(table, some_seat_from_pb(event.bid_made.seat), event.bid_made.amount)
        case "opening_won":
            return fold.opening_won(table)
        case "points_moved":
            balances = event.points_moved.balances
            after = BySeat(balances.north, balances.south)
            return fold.points_moved(table, _transfer(event.points_moved.transfer), after)
        case "tile_placed":
            placed = event.tile_placed
            spinner = tile_from_pb(placed.spinner) if placed.HasField("spinner") else None
            placement = _placement(placed.placement)
            seat = some_seat_from_pb(placed.seat)
            return fold.tile_placed(table, seat, placement, placed.count, _ends(placed.ends), spinner)
        case "tile_drawn":
            drawn = event.tile_drawn
            tile = tile_from_pb(drawn.tile) if drawn.HasField("tile") else None
            return fold.tile_drawn(table, some_seat_from_pb(drawn.seat), tile, drawn.boneyard)
        case "turn_passed":
            return fold.turn_passed(table)
        case "went_out":
            return fold.went_out(table, some_seat_from_pb(event.went_out.seat))
        case "round_blocked":
            return fold.round_blocked(table, _totals(event.round_blocked.hand_totals))
        case "match_ended":
            return fold.match_ended(table, outcome_from_pb(event.match_ended.outcome))
        case "turn_timed":
            timed = event.turn_timed
            return fold.turn_timed(table, some_seat_from_pb(timed.seat), timed.bank_ms)
        case None:
            return table
        case unknown:
            assert_never(unknown)


def _placement(placement: table_pb2.Placement) -> Placement:
    return Placement(
        tile=tile_from_pb(placement.tile),
        end=end_from_pb(placement.end) if placement.HasField("end") else None,
        joined=_PORTS.get(placement.joined),
    )


def _ends(ends: Iterable[table_pb2.OpenEnd]) -> tuple[OpenEnd, ...]:
    return tuple(OpenEnd(end_from_pb(end.end), end.value, end.counts) for end in ends)


def _transfer(transfer: table_pb2.Transfer) -> Transfer:
    return Transfer(
        to=some_seat_from_pb(transfer.to),
        due=transfer.due,
        moved=transfer.moved,
        reason=_REASONS.get(transfer.reason),
    )


def _totals(totals: table_pb2.HandTotals) -> BySeat[int]:
    return BySeat(totals.north, totals.south)


# To the service


def seat_to_pb(seat: Seat | None) -> table_pb2.Seat.ValueType:
    """A seat, or none."""
    return table_pb2.SEAT_UNSPECIFIED if seat is None else _SEATS_TO_PB[seat]


def tile_to_pb(tile: Tile) -> table_pb2.Tile:
    """A tile, both halves given."""
    return table_pb2.Tile(low=tile.low, high=tile.high)


def end_to_pb(end: End) -> table_pb2.End:
    """An end of the layout."""
    return table_pb2.End(tile=tile_to_pb(end.tile), port=_PORTS_TO_PB[end.port])


def command_to_pb(command: Command) -> match_service_pb2.Command:
    """A command; its seat goes into the request, and only on one device."""
    pb = match_service_pb2
    match command:
        case Start():
            return pb.Command(start=pb.Start(contribution=command.contribution))
        case Continue():
            return pb.Command(continue_round=pb.Continue(contribution=command.contribution))
        case Reveal():
            return pb.Command(reveal=pb.Reveal())
        case Bid():
            return pb.Command(bid=pb.Bid(amount=command.amount))
        case Accept():
            return pb.Command(accept=pb.Accept())
        case Decline():
            return pb.Command(decline=pb.Decline())
        case Play():
            end = None if command.end is None else end_to_pb(command.end)
            return pb.Command(play=pb.PlaceTile(tile=tile_to_pb(command.tile), end=end))
        case Draw():
            return pb.Command(draw=pb.Draw())
        case Pass():
            return pb.Command(pass_turn=pb.Pass())
        case Resign():
            return pb.Command(resign=pb.Resign())
        case _:
            assert_never(command)
