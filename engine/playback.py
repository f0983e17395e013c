"""Running a record: what each of its lines causes, and the state after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from engine import clock
from engine.command import Continue, Resign, Reveal, Start
from engine.deal import SALT_SIZE
from engine.event import RoundDealt
from engine.eventjson import event_to_json, outcome_to_json
from engine.evolution import replay
from engine.legal import legal
from engine.recordlines import ClockLine, CommandLine, DealLine, MatchLine
from engine.refusal import Refusal
from engine.ruling import deal_round, decide, expire, timed
from engine.seats import SEATS
from engine.shuffle import seed_commitment
from engine.state import Match, Phase

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.command import Command
    from engine.event import Event
    from engine.recordlines import Line, Record
    from engine.ruling import Ruling
    from engine.seats import BySeat
    from engine.tiles import Tile

NO_SALT: Final = bytes(SALT_SIZE)
"""Stands in for the salt of a deal line that has none."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one line caused."""

    number: int
    line: Line
    refusal: Refusal | None
    events: tuple[Event, ...]
    """Of an accepted line; of a refused one only the timeout that it came too late for."""
    state: Match
    """After the line."""
    running_since: int | None
    """In a timed record, when the clock of the seat to act began to run: nanoseconds since the start of the record;
    None in an untimed record or while no clock runs."""
    timed: bool


class Playback:
    """A match that is being replayed from its record."""

    def __init__(self, start: Match, match_id: str, *, is_timed: bool) -> None:
        self._state = start
        self._timed = is_timed
        self._match_id = match_id
        self._since = 0
        """When the clock of the seat to act began to run, or will when the round is dealt."""

    def answer(self, number: int, line: Line) -> Answer:
        """Run one line."""
        late: tuple[Event, ...] = ()
        ruling: Ruling = ()
        match line:
            case MatchLine():
                pass
            case DealLine():
                ruling = self._deal(line)
            case ClockLine():
                ruling = self._expired(line.at_ns, 0)
            case CommandLine():
                late = self._expired(line.at_ns, line.credit_ns)
                ruling = Refusal.CLOCK_EXPIRED if late else self._command(line)
        refusal, events = (ruling, late) if isinstance(ruling, Refusal) else (None, ruling)
        self._state = replay(self._state, events)
        if refusal is None and isinstance(line, CommandLine) and line.at_ns is not None:
            # A turn begins, or goes on after a draw. A deal takes no time: its first turn began at the last press.
            self._since = line.at_ns
        running = self._timed and self._state.to_act is not None
        since = self._since if running else None
        return Answer(number, line, refusal, events, self._state, since, self._timed)

    def _deal(self, line: DealLine) -> Ruling:
        state = self._state
        given: list[Event] = []
        if not self._timed and state.phase in (Phase.AWAITING_START, Phase.SETTLED):
            # Without time, Start and Continue may be left out: they are taken as given.
            press = Start if state.phase is Phase.AWAITING_START else Continue
            for seat in SEATS:
                pressed = decide(state, press(seat))
                if not isinstance(pressed, Refusal):
                    given += pressed
            state = replay(state, given)
        ruling = self._dealt(state, line)
        return ruling if isinstance(ruling, Refusal) else (*given, *ruling)

    def _dealt(self, state: Match, line: DealLine) -> Ruling:
        """The round as the line has it; `engine.verify` says whether its proof holds."""
        salt = line.salt or NO_SALT
        ruling = deal_round(
            state, line.deal, salt, next_commitment=line.next_commitment, scripted=line.scripted
        )
        if isinstance(ruling, Refusal) or line.contributions is None:
            return ruling
        number = state.round_no + 1
        committed = seed_commitment(self._match_id, number, salt)
        return (RoundDealt(number, line.deal, salt, committed, line.contributions, line.next_commitment),)

    def _expired(self, at_ns: int | None, credit_ns: int) -> tuple[Event, ...]:
        """The timeout that has happened by then, if any."""
        if at_ns is None or self._state.budget_ns is None:
            return ()
        budget = self._credited(credit_ns).budget_ns
        assert budget is not None, "a clock runs"
        return expire(self._state) if at_ns >= self._since + budget else ()

    def _credited(self, credit_ns: int) -> Match:
        """The state with some of the current turn's time given back."""
        consumed = self._state.consumed_ns
        return self._state._replace(consumed_ns=max(0, consumed - credit_ns))

    def _command(self, line: CommandLine) -> Ruling:
        state, command = self._state, line.command
        if line.at_ns is None:
            return self._untimed(command)
        ruling = decide(state, command)
        if isinstance(ruling, Refusal) or state.to_act is None or isinstance(command, Resign):
            return ruling
        return (timed(self._credited(line.credit_ns), command, line.at_ns - self._since), *ruling)

    def _untimed(self, command: Command) -> Ruling:
        """Without time, Reveal may be left out: it is taken as given."""
        given = () if isinstance(command, Reveal | Resign) else _reveal(self._state)
        ruling = decide(replay(self._state, given), command)
        return ruling if isinstance(ruling, Refusal) else (*given, *ruling)


def _reveal(state: Match) -> tuple[Event, ...]:
    """What the seat that has not revealed its tiles would cause by doing so; nothing where no Reveal is due."""
    if state.awaiting_reveal is None:
        return ()
    ruling = decide(state, Reveal(state.awaiting_reveal))
    assert not isinstance(ruling, Refusal), "the seat awaits it"
    return ruling


def play_back(record: Record) -> Iterator[Answer]:
    """Run the lines of a record. MalformedRecordError when it cannot be run to its end; after the last answer."""
    playback: Playback | None = None
    for number, line in record.lines:
        if isinstance(line, MatchLine):
            playback = Playback(line.start, line.match_id, is_timed=record.timed)
        assert playback is not None, "the first line of a record is the match"
        yield playback.answer(number, line)
    if record.malformed is not None:
        raise record.malformed


def answer_to_json(answer: Answer) -> dict[str, Any]:
    """The output line for one input line, as the record format has it."""
    state = answer.state
    if not answer.timed:
        state = replay(state, _reveal(state))  # taken as given: show whose turn it is and what may be played
    if not answer.events or answer.refusal:
        state = state._replace(last_transfer=None)  # this line moved nothing
    data = state_to_json(state)
    if answer.timed:
        data["clock"] = _clock_to_json(answer)
    if answer.refusal is None:
        events = [event_to_json(event) for event in answer.events]
        return {"line": answer.number, "accepted": True, "events": events, "state": data}
    refused: dict[str, Any] = {
        "line": answer.number,
        "accepted": False,
        "refusal": answer.refusal.value,
        "rule": answer.refusal.rule,
    }
    if answer.events:
        refused["events"] = [event_to_json(event) for event in answer.events]
    refused["state"] = data
    return refused


def _clock_to_json(answer: Answer) -> dict[str, Any]:
    """Times are rounded down to milliseconds: never more is shown than there is."""
    state = answer.state
    deadline_ms = None
    if answer.running_since is not None and state.budget_ns is not None:
        deadline_ms = (answer.running_since + state.budget_ns) // clock.MILLISECOND
    return {
        "running": state.to_act,
        "banks_ms": _by_seat(state.banks.map(lambda bank: bank // clock.MILLISECOND)),
        "deadline_ms": deadline_ms,
    }


def state_to_json(state: Match) -> dict[str, Any]:
    """Everything about a match, hidden tiles included, as an object for `json.dumps`. `clock` is null: a state
    does not know what time it is."""
    layout, bid, moved = state.layout, state.standing_bid, state.last_transfer
    ends = sorted(layout.open_ends, key=lambda pair: (pair[0].tile.id, pair[0].port))
    return {
        "phase": state.phase.value,
        "to_act": state.to_act,
        "balances": _by_seat(state.balances),
        "hands": {"north": _texts(state.hands.north), "south": _texts(state.hands.south)},
        "boneyard": len(state.boneyard),
        "spinner": layout.spinner.text if layout.spinner else None,
        "ends": [{"end": end.text, "value": end.value, "counts": counts} for end, counts in ends],
        "count": layout.total,
        "last_transfer": {"to": moved.to, "due": moved.due, "moved": moved.moved} if moved else None,
        "jockey": state.jockey,
        "standing_bid": bid.amount if bid else None,
        "bidder": bid.seat if bid else None,
        "legal": _legal_to_json(state),
        "clock": None,
        "outcome": outcome_to_json(state.outcome) if state.outcome else None,
        "round_no": state.round_no,
        "decision_id": state.decision_id,
        "turn": state.turn,
        "awaiting_reveal": state.awaiting_reveal,
        "pressed": list(state.pressed),
        "hand_totals": _by_seat(state.hand_totals) if state.hand_totals else None,
    }


def _legal_to_json(state: Match) -> dict[str, Any]:
    allowed = legal(state)
    plays = sorted((tile.id, end.text if end else None, tile.text) for tile, end in allowed.play)
    bid = allowed.bid
    return {
        "play": [{"tile": tile, "end": end} for _, end, tile in plays],
        "draw": allowed.draw,
        "pass": allowed.pass_,
        "accept": allowed.accept,
        "decline": allowed.decline,
        "bid": {"min": bid.minimum, "max": bid.maximum, "step": bid.step} if bid else None,
    }


def _by_seat(pair: BySeat[int]) -> dict[str, int]:
    return {"north": pair.north, "south": pair.south}


def _texts(tiles: Iterable[Tile]) -> list[str]:
    return [tile.text for tile in tiles]
