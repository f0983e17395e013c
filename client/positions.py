"""A match record as a row of positions to step through: after each of its lines the table, both hands, the time and
what the line caused."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from client.narration import ending, told
from client.printable import printable
from client.publictable import after, before
from client.table import Player, TableState
from engine.clock import MILLISECOND
from engine.event import TileDrawn, TurnTimed
from engine.outcome import Cause
from engine.playback import play_back
from engine.recordlines import ClockLine, CommandLine, DealLine, MalformedRecordError, MatchLine, read_record
from engine.seats import NORTH, SOUTH, BySeat
from engine.state import Phase
from engine.verify import Proofs, problems

if TYPE_CHECKING:
    from collections.abc import Collection

    from engine.outcome import Outcome
    from engine.playback import Answer
    from engine.seats import Seat
    from engine.tiles import Tile

_NOBODY_WINS: Final = (Cause.VOID, Cause.CANCELLED)
_SEATS: Final[BySeat[str]] = BySeat(NORTH, SOUTH)


@dataclass(frozen=True, slots=True)
class Spent:
    """What a command cost in time. Milliseconds: what was paid is rounded up, everything else down."""

    seat: Seat
    used_ms: int
    """In this turn so far, its draws included."""
    paid_ms: int
    """From the bank; 0 within the delay, and for a draw."""
    bank_ms: int
    """What the bank holds after it."""
    credited_ms: int
    """Measured, but not charged: the service had failed."""


@dataclass(frozen=True, slots=True)
class Position:
    """The match after one line of its record."""

    line: int
    """The number of the line in the record, from 1."""
    at_ms: int | None
    """The record's time, in which only open turns count; None for a line without one."""
    table: TableState
    """What is public: as a spectator sees it. Its clock stands still at what the turn begins, or goes on, with."""
    hands: BySeat[tuple[Tile, ...]]
    told: tuple[str, ...]
    """What the line caused, in words that name the seats; why it was refused; what is wrong with the proof of a deal."""
    drawn: Tile | None
    """The tile that the line drew; in `told` by name."""
    spent: Spent | None
    sound: bool
    """False for a refused line and for a deal that is not proven to be the one that was committed to."""

    def words(self, shown: Collection[Seat]) -> tuple[str, ...]:
        """`told`, for somebody to whom only these seats' tiles are shown."""
        if self.drawn is None or any(self.drawn in self.hands[seat] for seat in shown):
            return self.told
        return tuple(line.replace(f" [{self.drawn}]", " a tile") for line in self.told)

    def seen_by(self, seat: Seat | None) -> TableState:
        """The table with the hand of one seat, or of none."""
        if seat is None:
            return self.table
        return replace(self.table, seat=seat, hand=self.hands[seat])


@dataclass(frozen=True, slots=True)
class Study:
    """A whole record, read and run."""

    match_id: str
    """Empty when the record does not say."""
    players: BySeat[Player]
    """Called north and south where the record has no names that tell them apart."""
    rated: bool
    timed: bool
    started_at: str
    """As the record has it; empty when it does not say."""
    positions: tuple[Position, ...]
    rounds: tuple[int, ...]
    """The place in `positions` of each round's deal."""
    problems: tuple[str, ...]
    """What `python -m engine verify` finds; empty for a record that proves itself."""
    damage: str
    """What is wrong with the first line that makes no sense; empty when all of them do."""

    def round_at(self, place: int) -> int:
        """The round a position belongs to, as a place in `rounds`; -1 before the first deal."""
        return sum(begins <= place for begins in self.rounds) - 1


def read(data: bytes) -> Study:
    """Read a record and run it as far as it makes sense. MalformedRecordError when not even its first line does."""
    record = read_record(data)
    if not record.lines:
        assert record.malformed is not None, "an empty record is malformed"
        raise record.malformed
    header = _header(data)
    players = _players(header)
    answers: list[Answer] = []
    wrong: list[str] = []
    damage = ""
    try:
        for answer in play_back(record):
            answers.append(answer)  # noqa: PERF402  what stands before a malformed line is kept
    except MalformedRecordError as error:
        damage = str(error)
    with suppress(MalformedRecordError):
        wrong += problems(record)
    first = answers[0].line
    assert isinstance(first, MatchLine), "the first line of a record is the match"
    base = before(
        first.start,
        match_id=_text(header, "match_id"),
        players=players,
        rated=header.get("rated") is True,
    )
    positions: list[Position] = []
    sequence, proofs = 0, Proofs()
    for answer in answers:
        sequence += len(answer.events)
        positions.append(_position(replace(base, sequence=sequence), answer, proofs.fault(answer)))
    claimed = first.claimed and replace(first.claimed, detail=printable(first.claimed.detail))
    if claimed is not None and claimed.cause in _NOBODY_WINS and positions[-1].table.outcome is None:
        positions[-1] = _stopped(positions[-1], claimed)
    return Study(
        match_id=base.match_id,
        players=players,
        rated=base.rated,
        timed=record.timed,
        started_at=_text(header, "started_at"),
        positions=tuple(positions),
        rounds=tuple(
            place
            for place, answer in enumerate(answers)
            if isinstance(answer.line, DealLine) and answer.refusal is None
        ),
        problems=tuple(wrong),
        damage=damage,
    )


def _header(data: bytes) -> dict[str, Any]:
    """The keys of the first line that the engine has no use for."""
    first = next(line for line in data.split(b"\n") if line.strip())
    header = json.loads(first)
    assert isinstance(header, dict), "the first line was read before"
    return header


def _text(header: object, key: str) -> str:
    value = header.get(key) if isinstance(header, dict) else None
    return printable(value) if isinstance(value, str) else ""


def _players(header: dict[str, Any]) -> BySeat[Player]:
    """Who sat there; called north and south where the record has no names that tell the two apart."""
    ids, names = header.get("players"), header.get("names")

    def player(seat: Seat) -> Player:
        return Player(_text(ids, seat), _text(names, seat) or seat)

    north, south = player(NORTH), player(SOUTH)
    if north.name == south.name:  # two people at one device
        return BySeat(replace(north, name=NORTH), replace(south, name=SOUTH))
    return BySeat(north, south)


def _position(base: TableState, answer: Answer, fault: str | None) -> Position:
    state, line = answer.state, answer.line
    words = [told(event, _SEATS) for event in answer.events if not isinstance(event, TurnTimed)]
    timed = next((event for event in answer.events if isinstance(event, TurnTimed)), None)
    if answer.refusal is not None:
        words.insert(0, f"refused: {answer.refusal} (rule {answer.refusal.rule})")
    elif fault is not None:
        words.append(fault)
    elif isinstance(line, DealLine) and line.contributions is not None:
        words.append("the deal follows from the seed that was committed to and from what the players added")
    elif isinstance(line, DealLine):
        words.append("the deal is the one that was committed to")
    moved_nothing = not answer.events or answer.refusal is not None
    return Position(
        line=answer.number,
        at_ms=_at_ms(answer),
        table=after(base, state._replace(last_transfer=None) if moved_nothing else state, timed=answer.timed),
        hands=state.hands,
        told=tuple(words),
        drawn=next((event.tile for event in answer.events if isinstance(event, TileDrawn)), None),
        spent=None if timed is None else _spent(timed, line),
        sound=answer.refusal is None and fault is None,
    )


def _at_ms(answer: Answer) -> int | None:
    at_ns = answer.line.at_ns if isinstance(answer.line, CommandLine | ClockLine) else None
    return None if at_ns is None else at_ns // MILLISECOND


def _spent(timed: TurnTimed, line: object) -> Spent:
    credit = line.credit_ns if isinstance(line, CommandLine) else 0
    return Spent(
        seat=timed.seat,
        used_ms=timed.elapsed_ns // MILLISECOND,
        paid_ms=-(-timed.charge_ns // MILLISECOND),
        bank_ms=timed.bank_after_ns // MILLISECOND,
        credited_ms=credit // MILLISECOND,
    )


def _stopped(last: Position, outcome: Outcome) -> Position:
    """A void or cancelled match: its record just stops, and only the first line says why."""
    over = replace(
        last.table.prompt,
        to_act=None,
        kind=None,
        phase=Phase.OVER,
        clock=replace(last.table.prompt.clock, running=None),
    )
    table = replace(last.table, outcome=outcome, prompt=over)
    return replace(last, table=table, told=(*last.told, ending(outcome, _SEATS)))
