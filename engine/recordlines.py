"""Reading the lines of a match record.

One JSON object a line, UTF-8. What a line may hold beyond the format's own keys, so that a record written by
`engine.record` replays to the nanosecond and can be verified:

* `match` lines may carry any further keys; those understood are `delay_ms` (10000 each turn when absent), `banks_ns`
  and `delay_ns` (exact, they count before the milliseconds), `outcome`, the result that is claimed, and `match_id`,
  to which drawn deals are bound.
* `deal` lines may carry `salt`, `commitment` and `next_commitment` (64 lower-case hexadecimal digits each),
  `contributions` (of both seats: the deal was drawn) and `scripted`.
* `start` and `continue` may carry `contribution`, what the seat added to the next deal.
* `command` and `clock` lines may carry `at_ns` beside `at_ms`: the exact instant, which then counts.
* `command` lines may carry `credit_ns`: time of this turn that was measured but not charged, because the service
  had failed.

Blank lines are skipped; they count in line numbers. Any other key, and the same key twice, makes a line malformed.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

from engine.clock import DELAY, MILLISECOND
from engine.command import (
    Accept,
    Bid,
    Command,
    Continue,
    Decline,
    Draw,
    Pass,
    Play,
    Resign,
    Reveal,
    Start,
)
from engine.deal import SALT_SIZE, Deal
from engine.eventjson import (
    contribution_from_json,
    deal_from_json,
    more_proof_from_json,
    outcome_from_json,
)
from engine.fields import Fields, shown
from engine.opening import RANKED, Auctioned, Opening
from engine.outcome import Outcome
from engine.state import Match, Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.seats import BySeat

FORMAT: Final = 1
_MATCH_ID: Final = re.compile(r"[!-~]{1,64}\Z")
_DIGITS_MAX: Final = 1000
_INSTANT_MAX: Final = 2**63 - 1
"""Instants are 64-bit nanoseconds everywhere else, some 292 years."""


class MalformedRecordError(ValueError):
    """A line that makes no sense. The text is `line N: what is wrong`."""

    def __init__(self, number: int, what: str) -> None:
        super().__init__(f"line {number}: {what}")


@dataclass(frozen=True, slots=True)
class MatchLine:
    """The first line: the match before anything happened, and the result that is claimed, if any."""

    start: Match
    claimed: Outcome | None
    match_id: str
    """Empty when the record does not say."""


@dataclass(frozen=True, slots=True)
class DealLine:
    """The deal of the next round."""

    deal: Deal
    salt: bytes | None
    commitment: str | None
    contributions: BySeat[bytes] | None
    """What the players added to a deal that was drawn; None for any other one."""
    next_commitment: str | None
    scripted: bool


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A command, and when it arrived (nanoseconds since the start of the record), in a timed record."""

    command: Command
    at_ns: int | None
    credit_ns: int


@dataclass(frozen=True, slots=True)
class ClockLine:
    """Time passes until this instant, in nanoseconds since the start of the record."""

    at_ns: int


Line = MatchLine | DealLine | CommandLine | ClockLine


@dataclass(frozen=True, slots=True)
class Record:
    """A record as far as it makes sense."""

    lines: tuple[tuple[int, Line], ...]
    """With their numbers, from 1."""
    timed: bool
    """Whether one of the lines says a time; then each command must."""
    malformed: MalformedRecordError | None
    """What is wrong with the line after the last one of `lines`."""


def read_record(data: bytes) -> Record:
    """Read a record to its end, or to the first line that makes no sense. Never raises."""
    lines: list[tuple[int, Line]] = []
    malformed = None
    try:
        for numbered in _parsed_lines(data):
            lines.append(numbered)  # noqa: PERF402 - what stands before a malformed line is kept
    except MalformedRecordError as error:
        malformed = error
    timed = any(isinstance(line, CommandLine | ClockLine) and line.at_ns is not None for _, line in lines)
    now = 0
    for index, (number, line) in enumerate(lines):
        if not timed or not isinstance(line, CommandLine | ClockLine):
            continue
        if line.at_ns is None or line.at_ns < now:
            what = (
                "at_ms is missing, and other lines of this record have it"
                if line.at_ns is None
                else "time goes backwards"
            )
            return Record(tuple(lines[:index]), timed, MalformedRecordError(number, what))
        now = line.at_ns
    return Record(tuple(lines), timed, malformed)


def _parsed_lines(data: bytes) -> Iterator[tuple[int, Line]]:
    first = True
    for number, raw in enumerate(data.split(b"\n"), start=1):
        if not raw.strip():
            continue
        try:
            line = _line(raw, first=first)
        except ValueError as error:
            raise MalformedRecordError(number, str(error)) from None
        yield number, line
        first = False
    if first:
        raise MalformedRecordError(1, "the record is empty")


def _line(raw: bytes, *, first: bool) -> Line:
    fields = Fields(_json(raw))
    kind = fields.text("type")
    if first != (kind == "match"):
        msg = "the first line must be the match" if first else "only the first line is a match"
        raise ValueError(msg)
    match kind:
        case "match":
            return _match_line(fields)
        case "deal":
            line: Line = _deal_line(fields)
        case "command":
            line = _command_line(fields)
        case "clock":
            if not fields.has("at_ms"):
                raise ValueError("at_ms is missing")
            line = ClockLine(_instant(fields) or 0)
        case _:
            msg = f"unknown type {shown(kind)}"
            raise ValueError(msg)
    fields.end()
    return line


def _json(raw: bytes) -> Any:
    try:
        return json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_object,
            parse_int=_whole,
            parse_float=_no_fractions,
            parse_constant=_no_fractions,
        )
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    except json.JSONDecodeError as error:
        msg = f"not JSON: {error.msg} at column {error.colno}"
        raise ValueError(msg) from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        raise ValueError("the same key stands twice in one object")
    return data


def _whole(digits: str) -> int:
    if len(digits) > _DIGITS_MAX:
        raise ValueError("a number is too long")
    return int(digits)


def _no_fractions(text: str) -> NoReturn:
    msg = f"numbers are whole here, not {shown(text)}"
    raise ValueError(msg)


def _match_line(fields: Fields) -> MatchLine:
    if (number := fields.integer("format")) != FORMAT:
        msg = f"format {number} is unknown; this reads format {FORMAT}"
        raise ValueError(msg)
    balances = fields.integers_by_seat("balances") if fields.has("balances") else None
    banks = None
    if fields.has("banks_ms"):
        banks = fields.integers_by_seat("banks_ms", 0).map(lambda ms: ms * MILLISECOND)
    if fields.has("banks_ns"):
        banks = fields.integers_by_seat("banks_ns", 0)
    delay = fields.integer("delay_ms", 0) * MILLISECOND if fields.has("delay_ms") else DELAY
    if fields.has("delay_ns"):
        delay = fields.integer("delay_ns", 0)
    mode = fields.choice("mode", Mode) if fields.has("mode") else Mode.ONLINE
    opening = _opening(fields.take("opening")) if fields.has("opening") else RANKED
    claimed = None
    if fields.has("outcome") and (claim := fields.take("outcome")) is not None:
        claimed = outcome_from_json(Fields(claim, "outcome"))
    start = Match.start(balances=balances, opening=opening, banks_ns=banks, delay_ns=delay, mode=mode)
    return MatchLine(start, claimed, _match_id(fields))


def _match_id(fields: Fields) -> str:
    """The match's id, for what is bound to it; anything that is none of ours is the same as nothing."""
    given = fields.take("match_id") if fields.has("match_id") else ""
    return given if isinstance(given, str) and _MATCH_ID.match(given) else ""


def _opening(value: object) -> Opening:
    if value == "ranked":
        return RANKED
    try:
        outer = Fields(value)
        inner = Fields(outer.take("auction"))
        jockey = inner.seat("jockey")
        inner.end()
        outer.end()
    except ValueError:
        msg = f'opening must be "ranked" or {{"auction":{{"jockey":SEAT}}}}, not {shown(value)}'
        raise ValueError(msg) from None
    return Auctioned(jockey)


def _deal_line(fields: Fields) -> DealLine:
    deal = deal_from_json(fields)
    salt = fields.hexadecimal("salt", SALT_SIZE) if fields.has("salt") else None
    claim = fields.hexadecimal("commitment", 32).hex() if fields.has("commitment") else None
    more = more_proof_from_json(fields)
    if more.contributions is not None and salt is None:
        raise ValueError("salt is missing: the deal was drawn from it")
    return DealLine(deal, salt, claim, *more)


_COMMANDS: Final[dict[str, Callable[[Fields], Command]]] = {
    "start": lambda f: Start(f.seat(), contribution_from_json(f)),
    "continue": lambda f: Continue(f.seat(), contribution_from_json(f)),
    "reveal": lambda f: Reveal(f.seat()),
    "bid": lambda f: Bid(f.seat(), f.integer("amount")),
    "accept": lambda f: Accept(f.seat()),
    "decline": lambda f: Decline(f.seat()),
    "play": lambda f: Play(f.seat(), f.tile(), f.end_of_tile() if f.has("end") else None),
    "draw": lambda f: Draw(f.seat()),
    "pass": lambda f: Pass(f.seat()),
    "resign": lambda f: Resign(f.seat()),
}


def _command_line(fields: Fields) -> CommandLine:
    name = fields.text("command")
    reader = _COMMANDS.get(name)
    if reader is None:
        msg = f"unknown command {shown(name)}"
        raise ValueError(msg)
    command = reader(fields)
    at_ns = _instant(fields)
    credit = fields.integer("credit_ns", 0) if fields.has("credit_ns") else 0
    return CommandLine(command, at_ns, credit)


def _instant(fields: Fields) -> int | None:
    """`at_ms`, or the exact `at_ns` beside it, which must be the same within less than a millisecond."""
    if not fields.has("at_ms"):
        return None
    at_ns = fields.integer("at_ms", 0) * MILLISECOND
    if at_ns > _INSTANT_MAX:
        raise ValueError("at_ms is too large")
    if not fields.has("at_ns"):
        return at_ns
    exact = fields.integer("at_ns", 0)
    if abs(exact - at_ns) >= MILLISECOND:
        raise ValueError("at_ns and at_ms are different times")
    return exact
