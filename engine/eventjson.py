"""Events as JSON objects and back: the form in which they are stored, and printed by a replay.

An object has `type`, the event's name in snake case, and a field for each of the event's own; tiles, ends, ports and
seats are written as in the match record, bytes as lower-case hexadecimal digits. A deal is spread out into its
three lists.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, assert_never

from engine.deal import SALT_SIZE, Deal
from engine.event import (
    BidMade,
    Continued,
    Event,
    MatchEnded,
    OpeningWon,
    PointsMoved,
    Reason,
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
from engine.fields import Fields, shown
from engine.outcome import Cause, Outcome
from engine.seats import BySeat, Seat
from engine.shuffle import CONTRIBUTION_MAX
from engine.tiles import Port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from engine.tiles import End, Tile


# What `value` says, in a tenth of the time.
_TEXTS: Final[dict[Seat | Port | Reason, str]] = {
    member: member.value for kind in (Seat, Port, Reason) for member in kind
}
_encode: Final = json.JSONEncoder(separators=(",", ":")).encode
"""Made once: `json.dumps` makes an encoder whenever it is asked for separators, which takes as long as encoding."""


class MoreProof(NamedTuple):
    """What is told of a deal beside its salt and commitment, as fields of `RoundDealt`."""

    contributions: BySeat[bytes] | None
    next_commitment: str | None
    scripted: bool


def deal_to_json(deal: Deal) -> dict[str, Any]:
    """The three lists of a deal."""
    return {
        "north": _texts(deal.north),
        "south": _texts(deal.south),
        "boneyard": _texts(deal.boneyard),
    }


def deal_from_json(fields: Fields) -> Deal:
    """The deal made of three lists; ValueError names what is wrong."""
    return Deal(fields.tiles("north"), fields.tiles("south"), fields.tiles("boneyard"))


def contribution_to_json(contribution: bytes) -> dict[str, Any]:
    """What a seat added to a shuffle; nothing when it added nothing."""
    return {"contribution": contribution.hex()} if contribution else {}


def contribution_from_json(fields: Fields) -> bytes:
    """What `contribution_to_json` wrote; ValueError when it is none."""
    if not fields.has("contribution"):
        return b""
    return fields.hexadecimal_up_to("contribution", CONTRIBUTION_MAX)


def proof_to_json(event: RoundDealt) -> dict[str, Any]:
    """What proves a deal once it may be known: its salt or seed, the commitments, and what the players added."""
    proof: dict[str, Any] = {"salt": event.salt.hex(), "commitment": event.commitment}
    if event.contributions is not None:
        proof["contributions"] = {
            "north": event.contributions.north.hex(),
            "south": event.contributions.south.hex(),
        }
    if event.next_commitment is not None:
        proof["next_commitment"] = event.next_commitment
    return {**proof, "scripted": True} if event.scripted else proof


def more_proof_from_json(fields: Fields) -> MoreProof:
    """What of a deal's proof is beside its salt and commitment; ValueError names what is wrong."""
    contributions = next_commitment = None
    if fields.has("contributions"):
        inner = Fields(fields.take("contributions"), "contributions")
        contributions = BySeat(
            inner.hexadecimal_up_to("north", CONTRIBUTION_MAX),
            inner.hexadecimal_up_to("south", CONTRIBUTION_MAX),
        )
        inner.end()
    if fields.has("next_commitment"):
        next_commitment = fields.hexadecimal("next_commitment", 32).hex()
    scripted = fields.flag("scripted") if fields.has("scripted") else False
    if scripted and contributions is not None:
        raise ValueError("scripted: a deal that was drawn is none")
    return MoreProof(contributions, next_commitment, scripted)


def outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    """Winner and cause, and the detail where there is one."""
    data: dict[str, Any] = {"winner": outcome.winner, "cause": outcome.cause.value}
    return {**data, "detail": outcome.detail} if outcome.detail else data


def outcome_from_json(fields: Fields) -> Outcome:
    """The outcome made of winner, cause and perhaps a detail; ValueError when they contradict each other."""
    winner, cause = fields.optional_seat("winner"), fields.choice("cause", Cause)
    if (winner is None) is not (cause in (Cause.VOID, Cause.CANCELLED)):
        msg = f"cause {cause} does not go with winner {winner}"
        raise ValueError(msg)
    return Outcome(winner, cause, fields.text("detail") if fields.has("detail") else "")


def event_to_json(event: Event) -> dict[str, Any]:
    """The event as an object for `json.dumps`."""
    # The four that make up most of every match, as in `engine.evolution.evolve`.
    if isinstance(event, TilePlaced):
        seat, tile, end, joined, count = event
        return {
            "type": "tile_placed",
            "seat": _TEXTS[seat],
            "tile": tile.text,
            "end": None if end is None else end.text,
            "joined": None if joined is None else _TEXTS[joined],
            "count": count,
        }
    if isinstance(event, TurnTimed):
        seat, turn, elapsed_ns, consumed_ns, charge_ns, bank_after_ns = event
        return {
            "type": "turn_timed",
            "seat": _TEXTS[seat],
            "turn": turn,
            "elapsed_ns": elapsed_ns,
            "consumed_ns": consumed_ns,
            "charge_ns": charge_ns,
            "bank_after_ns": bank_after_ns,
        }
    if isinstance(event, TileDrawn):
        drawn = event.tile
        return {
            "type": "tile_drawn",
            "seat": _TEXTS[event.seat],
            "tile": None if drawn is None else drawn.text,
        }
    if isinstance(event, PointsMoved):
        to, due, moved, reason = event
        return {
            "type": "points_moved",
            "to": _TEXTS[to],
            "due": due,
            "moved": moved,
            "reason": _TEXTS[reason],
        }
    match event:
        case BidMade():
            return {"type": "bid_made", "seat": event.seat.value, "amount": event.amount}
        case OpeningWon():
            return {
                "type": "opening_won",
                "seat": event.seat.value,
                "price": event.price,
                "discount": event.discount,
            }
        case RoundDealt():
            return {
                "type": "round_dealt",
                "round_no": event.round_no,
                **deal_to_json(event.deal),
                **proof_to_json(event),
            }
        case RoundBlocked():
            totals = {"north": event.hand_totals.north, "south": event.hand_totals.south}
            return {"type": "round_blocked", "hand_totals": totals, "winner": event.winner}
        case MatchEnded():
            return {"type": "match_ended", **outcome_to_json(event.outcome)}
        case Revealed():
            data = {"type": "revealed", "seat": event.seat.value}
            return data if event.hand is None else {**data, "hand": _texts(event.hand)}
        case Started():
            return {"type": "started", "seat": event.seat.value, **contribution_to_json(event.contribution)}
        case Continued():
            return {"type": "continued", "seat": event.seat.value, **contribution_to_json(event.contribution)}
        case TurnPassed():
            return {"type": "turn_passed", "seat": event.seat.value}
        case RoundWentOut():
            return {"type": "round_went_out", "seat": event.seat.value}
        case _:
            assert_never(event)


def events_to_text(events: Iterable[Event]) -> str:
    """The events of one ruling as they are stored: a JSON array of `event_to_json`, without spaces."""
    return f"[{','.join([_event_to_text(event) for event in events])}]"


# Nearly all that is stored is one of these four. Of a placement all but the count is one of some hundred, and the figures
# of the others are put into their places: to make an object and encode it takes six times as long.
_TIMED: Final = '{"type":"turn_timed","seat":"%s","turn":%d,"elapsed_ns":%d,"consumed_ns":%d,"charge_ns":%d,"bank_after_ns":%d}'
_MOVED: Final = '{"type":"points_moved","to":"%s","due":%d,"moved":%d,"reason":"%s"}'


def _event_to_text(event: Event) -> str:
    """What `event_to_json` makes of it, encoded."""
    kind = event.__class__
    if kind is TilePlaced:
        seat, tile, end, joined, count = event  # type: ignore[misc]
        return f"{_placed_text(seat, tile, end, joined)}{count}}}"
    if kind is TurnTimed:
        return _TIMED % event
    if kind is PointsMoved:
        return _MOVED % event
    if kind is TileDrawn:
        return _drawn_text(event)
    return _encode(event_to_json(event))


@cache
def _placed_text(seat: Seat, tile: Tile, end: End | None, joined: Port | None) -> str:
    """A placement up to its count."""
    return _encode(event_to_json(TilePlaced(seat, tile, end, joined, 0))).removesuffix("0}")


@cache
def _drawn_text(event: TileDrawn) -> str:
    return _encode(event_to_json(event))


def event_from_json(data: object) -> Event:
    """The event that `event_to_json` made this of. ValueError says what is wrong with anything else."""
    fields = Fields(data, "an event")
    name = fields.text("type")
    reader = _READERS.get(name)
    if reader is None:
        msg = f"unknown event {shown(name)}"
        raise ValueError(msg)
    event = reader(fields)
    fields.end()
    return event


def _texts(tiles: Iterable[Tile]) -> list[str]:
    return [tile.text for tile in tiles]


def _round_dealt(fields: Fields) -> RoundDealt:
    return RoundDealt(
        fields.integer("round_no", 1),
        deal_from_json(fields),
        fields.hexadecimal("salt", SALT_SIZE),
        fields.text("commitment"),
        *more_proof_from_json(fields),
    )


def _tile_placed(fields: Fields) -> TilePlaced:
    seat, tile, end = fields.seat(), fields.tile(), fields.end_of_tile()
    joined = fields.choice("joined", Port) if end else fields.take("joined")
    if end is None and joined is not None:
        raise ValueError("joined must be null: the first tile of a layout is joined to nothing")
    return TilePlaced(seat, tile, end, joined, fields.integer("count", 0))


def _turn_timed(fields: Fields) -> TurnTimed:
    names = ("elapsed_ns", "consumed_ns", "charge_ns", "bank_after_ns")
    return TurnTimed(fields.seat(), fields.integer("turn", 1), *(fields.integer(name, 0) for name in names))


def _points_moved(fields: Fields) -> PointsMoved:
    return PointsMoved(
        fields.seat("to"),
        fields.integer("due", 1),
        fields.integer("moved", 1),
        fields.choice("reason", Reason),
    )


_READERS: Final[dict[str, Callable[[Fields], Event]]] = {
    "started": lambda f: Started(f.seat(), contribution_from_json(f)),
    "continued": lambda f: Continued(f.seat(), contribution_from_json(f)),
    "round_dealt": _round_dealt,
    "revealed": lambda f: Revealed(f.seat(), f.tiles("hand") if f.has("hand") else None),
    "bid_made": lambda f: BidMade(f.seat(), f.integer("amount")),
    "opening_won": lambda f: OpeningWon(f.seat(), f.integer("price", 0), f.integer("discount", 0)),
    "points_moved": _points_moved,
    "tile_placed": _tile_placed,
    "tile_drawn": lambda f: TileDrawn(f.seat(), f.tile()),
    "turn_passed": lambda f: TurnPassed(f.seat()),
    "round_went_out": lambda f: RoundWentOut(f.seat()),
    "round_blocked": lambda f: RoundBlocked(f.integers_by_seat("hand_totals", 0), f.optional_seat("winner")),
    "turn_timed": _turn_timed,
    "match_ended": lambda f: MatchEnded(outcome_from_json(f)),
}
