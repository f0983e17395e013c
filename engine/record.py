"""The match record: the one text form of a match, for files, tests, exports and audits.

Reading is in `engine.recordlines`, running a record in `engine.playback`; here it is written.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from engine.clock import DELAY, MILLISECOND
from engine.event import (
    BidMade,
    Continued,
    Event,
    MatchEnded,
    OpeningWon,
    Revealed,
    RoundDealt,
    Started,
    TileDrawn,
    TilePlaced,
    TurnPassed,
    TurnTimed,
)
from engine.eventjson import (
    contribution_to_json,
    deal_to_json,
    event_from_json,
    event_to_json,
    outcome_to_json,
    proof_to_json,
)
from engine.evolution import evolve
from engine.opening import Auctioned
from engine.outcome import Cause
from engine.playback import state_to_json
from engine.recordlines import FORMAT, MalformedRecordError, read_record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from engine.outcome import Outcome
    from engine.state import Match

__all__ = [
    "MalformedRecordError",
    "event_from_json",
    "event_to_json",
    "read_record",
    "record_lines",
    "state_to_json",
]


def record_lines(
    start: Match, events: Sequence[Event], header: Mapping[str, Any] | None = None
) -> Iterator[str]:
    """The record of a match, line by line without line ends: what `Match.start` made, and all its events in order.

    `header` is put into the first line beside the keys of the format (`match_id`, `players`, …); the outcome is
    taken from the events. A void or cancelled match has its outcome on the first line alone: the play just stops.

    The record's time runs only while a turn is open: a command stands where its turn began plus what was measured
    for it. Dealing, settling, storing and waiting for Start or Continue take no time, nor does the wait before a
    resignation. With no `TurnTimed` among the events the record is untimed.
    """
    timed = any(isinstance(event, TurnTimed) for event in events)
    ended = next((event.outcome for event in events if isinstance(event, MatchEnded)), None)
    yield _dumps({**_match_json(start, ended), **(header or {})})
    state, at_ns, credit_ns = start, 0, 0
    for event in events:
        if isinstance(event, TurnTimed):
            waited = event.elapsed_ns - state.consumed_ns
            # After an outage a turn may have used less than before: the service took the difference on itself.
            at_ns, credit_ns = at_ns + max(0, waited), max(0, -waited)
        line = _line(event)
        if line is not None:
            if timed and line["type"] != "deal":
                line.update(_at(at_ns, late=line["type"] == "clock"))
                if credit_ns and line["type"] == "command":
                    line["credit_ns"] = credit_ns
                credit_ns = 0
            yield _dumps(line)
        state = evolve(state, event)


def _dumps(line: Mapping[str, Any]) -> str:
    return json.dumps(line, ensure_ascii=False, separators=(",", ":"))


def _at(at_ns: int, *, late: bool) -> dict[str, int]:
    """An instant in whole milliseconds, rounded down, and up where a deadline must have passed; and exactly."""
    at_ms, rest = divmod(at_ns, MILLISECOND)
    if rest == 0:
        return {"at_ms": at_ms}
    return {"at_ms": at_ms + 1 if late else at_ms, "at_ns": at_ns}


def _match_json(start: Match, ended: Outcome | None) -> dict[str, Any]:
    opening = start.opening
    line: dict[str, Any] = {
        "type": "match",
        "format": FORMAT,
        "mode": start.mode,
        "balances": {"north": start.balances.north, "south": start.balances.south},
        "opening": {"auction": {"jockey": opening.jockey}} if isinstance(opening, Auctioned) else "ranked",
        "banks_ms": {"north": start.banks.north // MILLISECOND, "south": start.banks.south // MILLISECOND},
    }
    if any(bank % MILLISECOND for bank in start.banks):
        line["banks_ns"] = {"north": start.banks.north, "south": start.banks.south}
    if start.delay_ns != DELAY:
        line["delay_ms"] = start.delay_ns // MILLISECOND
    if start.delay_ns % MILLISECOND:
        line["delay_ns"] = start.delay_ns
    if ended is not None:
        line["outcome"] = outcome_to_json(ended)
    return line


def _line(event: Event) -> dict[str, Any] | None:
    """The line that makes this event happen again; None for an event that follows from another one's line."""
    match event:
        case TilePlaced():
            end = {} if event.end is None else {"end": event.end.text}
            return _command(event.seat, "play", tile=event.tile.text, **end)
        case TileDrawn():
            return _command(event.seat, "draw")
        case TurnPassed():
            return _command(event.seat, "pass")
        case BidMade():
            return _command(event.seat, "bid", amount=event.amount)
        case OpeningWon():
            # Only a declined opening is free: the jockey's least raise, 20, costs 5.
            return _command(event.seat.opponent, "decline" if event.price == 0 else "accept")
        case Started():
            return _command(event.seat, "start", **contribution_to_json(event.contribution))
        case Continued():
            return _command(event.seat, "continue", **contribution_to_json(event.contribution))
        case Revealed():
            return _command(event.seat, "reveal")
        case RoundDealt():
            return {"type": "deal", **deal_to_json(event.deal), **proof_to_json(event)}
        case MatchEnded():
            winner = event.outcome.winner
            if event.outcome.cause is Cause.RESIGNATION and winner is not None:
                return _command(winner.opponent, "resign")
            return {"type": "clock"} if event.outcome.cause is Cause.TIME else None
        case _:
            return None


def _command(seat: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "command", "seat": seat, "command": name, **arguments}
