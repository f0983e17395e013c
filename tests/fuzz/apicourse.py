"""The model of one match: what it went through by the rules alone, and what each command had to be told at each point.

The engine decides; the service's log is only asked in which order things happened, how long they took and what was dealt.
Whatever else the log holds must follow from a command that somebody of that seat really sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from engine import command as commands
from engine.command import Command, Continue, Draw, Resign, Reveal, Start
from engine.event import Event, MatchEnded, RoundDealt, TurnTimed
from engine.match import Cause, Match, Mode, Phase, cancel, decide, evolve, expire, replay
from engine.refusal import Refusal
from engine.seats import NORTH, SEATS, SOUTH, Seat
from engine.shuffle import CONTRIBUTION_MAX
from engine.tiles import ALL_TILES, End, Port, Tile, tile_set
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import table_pb2
from tests.fuzz.apideals import Deals

LEGAL: Final = "legal"
"""What a command is that would be carried out now."""
_UNTIMED: Final = (Start, Continue, Reveal, Resign)
_PRECEDENCE: Final = {refusal: number for number, refusal in enumerate(Refusal)}
_SEATS: Final[Mapping[int, Seat | None]] = {0: None, 1: NORTH, 2: SOUTH}
_PORTS: Final[Mapping[int, Port]] = {
    number: Port[name.removeprefix("PORT_")] for name, number in table_pb2.Port.items() if number
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One stored ruling."""

    first: int
    last: int
    seat: Seat | None
    request_id: str | None
    events: tuple[Event, ...]
    credited_ns: int = 0


@dataclass(frozen=True, slots=True)
class Sent:
    """A command that went out to the match, at a moment of the caller's counter."""

    player_id: str
    request: pb.SubmitRequest
    at: int


@dataclass(frozen=True, slots=True)
class Stage:
    """The match between two rulings."""

    sequence: int
    state: Match
    asked_at: int
    """When the newest of the commands that led here was sent first: it cannot have been like this before."""


@dataclass(frozen=True, slots=True)
class Told:
    """A request that had its effect."""

    stage: int
    """From which stage on it has."""
    payload: bytes
    first: int
    last: int


class Course:
    """A match from its start, through the stored rulings. `faults` says what does not follow from the rules."""

    def __init__(
        self,
        start: Match,
        players: Mapping[Seat, str],
        entries: Iterable[Entry],
        sent: Sequence[Sent],
        deals: Deals,
        *,
        created_by: str | None = None,
    ) -> None:
        self.players = players
        self._asked_for = created_by is not None
        """Whether a player has made the match: then either seat may leave it before it begins."""
        others = [player_id for player_id in players.values() if player_id != created_by]
        self.invited = others[0] if self._asked_for and others else None
        """The player who takes the seat by pressing Start, if one must."""
        self.faults: list[str] = []
        self.stages = [Stage(0, start, 0)]
        self.events: list[Event] = []
        self.states = [start]
        """By sequence number."""
        self.credited_ns: list[int] = []
        """What the ruling of each event credited."""
        self.told: dict[tuple[Seat, str], Told] = {}
        self._deals = deals
        self._sent: dict[str, list[Sent]] = {}
        for each in sent:
            self._sent.setdefault(each.request.request_id, []).append(each)
        for entry in entries:
            try:
                self._take(entry)
            except Exception as error:  # noqa: BLE001 - the engine only goes where the rules lead
                self.faults.append(f"ruling {len(self.stages)} cannot be played: {error!r}")
                break

    @property
    def one_device(self) -> bool:
        """Whether both seats are one player's."""
        return self.states[0].mode is Mode.SAME_DEVICE

    @property
    def secret(self) -> list[bytes]:
        """What no live match may tell in any form: the salts of its deals."""
        return [event.salt for event in self.events if isinstance(event, RoundDealt)]

    def seats_of(self, player_id: str) -> list[Seat]:
        """The seats of a player; none for a spectator."""
        return [seat for seat in SEATS if self.players[seat] == player_id]

    def seated(self, at: int, player_id: str) -> bool:
        """Whether this is the one live match that a player of it has, at one stage."""
        state = self.stages[at].state
        if player_id == self.invited and state.phase is Phase.AWAITING_START:
            return any(self.players[seat] == player_id for seat in state.pressed)
        return state.outcome is None

    # How it went.

    def _take(self, entry: Entry) -> None:
        before = self.stages[-1]
        state = before.state
        where = f"ruling {len(self.stages)}"
        if entry.first != before.sequence + 1 or entry.last != before.sequence + len(entry.events):
            self.faults.append(f"{where}: numbered {entry.first} to {entry.last} after {before.sequence}")
        asked_at, body = before.asked_at, self._body(where, state, entry.events)
        if entry.request_id is None:
            if body not in _unasked(state):
                self.faults.append(f"{where}: nobody asked for {body}")
        else:
            asked = [
                each
                for each in self._sent.get(entry.request_id, ())
                if self._led_to(each, entry, state, body)
            ]
            if not asked:
                self.faults.append(f"{where}: no request {entry.request_id} of {entry.seat} leads to {body}")
            elif entry.seat is not None:
                asked_at = max(asked_at, min(each.at for each in asked))
                payload = payload_of(asked[0].request, entry.seat)
                key = (entry.seat, entry.request_id)
                if key in self.told:
                    self.faults.append(
                        f"{where}: request {entry.request_id} of {entry.seat} has a second effect"
                    )
                self.told[key] = Told(len(self.stages), payload, entry.first, entry.last)
        for event in entry.events:
            state = evolve(state, event)
            self.faults += [f"{where}: {fault}" for fault in unsound(state)]
            self.events.append(event)
            self.states.append(state)
            self.credited_ns.append(entry.credited_ns)
        self.stages.append(Stage(len(self.events), state, asked_at))

    def _led_to(self, sent: Sent, entry: Entry, state: Match, body: tuple[Event, ...]) -> bool:
        """Whether a request, given by that seat in that position, causes just this."""
        if entry.seat is None or self.players[entry.seat] != sent.player_id:
            return False
        if seat_of(sent.request, self.seats_of(sent.player_id)) is not entry.seat:
            return False
        command = command_of(sent.request, entry.seat)
        if command is None or self._rule(state, command, sent.request.decision_id) != body:
            return False
        timed = isinstance(entry.events[0], TurnTimed)
        return timed is not isinstance(command, _UNTIMED)

    def _body(self, where: str, state: Match, events: tuple[Event, ...]) -> tuple[Event, ...]:
        """A ruling without what the rules cannot know: how long the turn took and what was dealt. Both are checked."""
        body = events
        if body and isinstance(body[0], TurnTimed) and not isinstance(body[-1], MatchEnded):
            self.faults += [f"{where}: {fault}" for fault in mistimed(state, body)]
        if body and isinstance(body[0], TurnTimed) and body not in _unasked(state):
            body = body[1:]
        dealt = body[-1] if body and isinstance(body[-1], RoundDealt) else None
        body = body if dealt is None else body[:-1]
        self.faults += [f"{where}: {fault}" for fault in self._deals.take(body, dealt, replay(state, body))]
        return body

    # What had to be said.

    def window(self, known: int, answered_at: int) -> range:
        """The stages at which a call may have been answered: not before what was `known` (the highest sequence number
        that anybody had heard of when it was sent), and not after something that was asked for only later."""
        first = next(
            (number for number, stage in enumerate(self.stages) if stage.sequence >= known), len(self.stages)
        )
        end = first
        while end < len(self.stages) and (end == first or self.stages[end].asked_at <= answered_at):
            end += 1
        return range(first, end)

    def verdict(self, at: int, player_id: str, request: pb.SubmitRequest) -> frozenset[str]:
        """What a command had to be told at one stage: `LEGAL`, `applied 4 6`, or the reasons that apply."""
        wrong = set()
        if not _visible(request.request_id):
            wrong.add("MALFORMED")
        if request.seat not in _SEATS:
            wrong.add("MALFORMED")
        own = self.seats_of(player_id)
        seat = seat_of(request, own)
        if seat is None:
            wrong.add("MALFORMED" if self.one_device and own and not request.seat else "NOT_SEATED")
        command = command_of(request, seat or NORTH)
        if command is None:
            wrong.add("MALFORMED")
        if wrong or seat is None or command is None:
            return frozenset(wrong)
        told = self._told_before(at, seat, request.request_id)
        if told is not None:
            if told.payload != payload_of(request, seat):
                return frozenset({"REQUEST_ID_REUSED"})
            return frozenset({f"applied {told.first} {told.last}"})
        ruling = self._rule(self.stages[at].state, command, request.decision_id)
        return frozenset({ruling.value if isinstance(ruling, Refusal) else LEGAL})

    def _rule(self, state: Match, command: Command, decision_id: int) -> tuple[Event, ...] | Refusal:
        ruling = rule(state, command, decision_id)
        if ruling is Refusal.NOT_STARTED and isinstance(command, Resign) and self._asked_for:
            return cancel(state, (command.seat,))
        return ruling

    def _told_before(self, at: int, seat: Seat, request_id: str) -> Told | None:
        for named in (seat, seat.opponent) if self.one_device else (seat,):
            told = self.told.get((named, request_id))
            if told is not None and told.stage <= at:
                return told
        return None

    def ended_on_time(self, seat: Seat) -> bool:
        """Whether this seat lost on time."""
        outcome = self.states[-1].outcome
        return outcome is not None and outcome.cause is Cause.TIME and outcome.winner is seat.opponent


def rule(state: Match, command: Command, decision_id: int) -> tuple[Event, ...] | Refusal:
    """What the rules say to a command that answers that question."""
    ruling = decide(state, command)
    if decision_id == state.decision_id or isinstance(command, Resign):
        return ruling
    if isinstance(ruling, Refusal) and _PRECEDENCE[ruling] < _PRECEDENCE[Refusal.STALE_DECISION]:
        return ruling
    return Refusal.STALE_DECISION


def unsound(state: Match) -> list[str]:
    """What no match may ever be: the points are 300 in fives, the tiles 28."""
    found = []
    if sum(state.balances) != 300 or any(points < 0 or points % 5 for points in state.balances):
        found.append(f"the balances are {tuple(state.balances)}")
    if state.round_no:
        piles = (
            tile_set(placed.tile for placed in state.layout.placements),
            state.north_hand,
            state.south_hand,
            tile_set(state.boneyard),
        )
        if sum(piles) != ALL_TILES or sum(pile.bit_count() for pile in piles) != 28:
            found.append("the tiles are not the 28 of the set")
    return found


def mistimed(state: Match, events: tuple[Event, ...]) -> list[str]:
    """What is wrong with the time of a turn (rules 6.1 to 6.3), as far as it follows from the position."""
    timed = events[0]
    assert isinstance(timed, TurnTimed)
    if timed.seat is not state.to_act or timed.turn != state.turn:
        return [f"{timed} in turn {state.turn} of {state.to_act}"]
    drew = any(type(event).__name__ == "TileDrawn" for event in events)
    charge = 0 if drew else max(0, timed.elapsed_ns - state.delay_ns)
    bank = state.banks[timed.seat]
    if (
        timed.elapsed_ns < state.consumed_ns
        or timed.elapsed_ns >= state.delay_ns + bank
        or timed.charge_ns != charge
        or timed.bank_after_ns != bank - charge
        or timed.consumed_ns != (timed.elapsed_ns if drew else 0)
    ):
        return [f"{timed} with a bank of {bank} and a delay of {state.delay_ns}"]
    return []


def _unasked(state: Match) -> list[tuple[Event, ...]]:
    """What the service may do by itself: limits and deadlines. A void is none of it: nothing failed here."""
    missing = [seat for seat in SEATS if seat not in state.pressed]
    if state.phase is Phase.AWAITING_START:
        return [cancel(state, missing)]
    if state.phase is Phase.SETTLED:
        events: tuple[Event, ...] = ()
        for seat in missing:
            ruling = decide(state, Continue(seat))
            assert not isinstance(ruling, Refusal)
            state, events = replay(state, ruling), events + ruling
        return [events]
    return [] if state.to_act is None else [expire(state)]


# Requests, read once more and apart from the service.


def seat_of(request: pb.SubmitRequest, own: Sequence[Seat]) -> Seat | None:
    """The seat for which a player with these seats gives a command; None when it may not."""
    named = _SEATS.get(request.seat)
    if len(own) == 1:
        return own[0] if named in (None, own[0]) else None
    return named if named in own else None


def payload_of(request: pb.SubmitRequest, seat: Seat) -> bytes:
    """What makes two requests with one id the same."""
    action = request.command.SerializeToString(deterministic=True)
    return f"{seat.value} {request.decision_id} ".encode() + action


def _visible(text: str) -> bool:
    return 1 <= len(text) <= 64 and all("!" <= letter <= "~" for letter in text)


def command_of(request: pb.SubmitRequest, seat: Seat) -> Command | None:
    """The command of a request; None when it makes no sense."""
    action = request.command.WhichOneof("action")
    if action is None or (action != "resign" and request.decision_id <= 0):
        return None
    if action == "bid":
        bid = request.command.bid
        return commands.Bid(seat, bid.amount) if bid.HasField("amount") else None
    if action == "play":
        play = request.command.play
        tile = _tile(play.tile) if play.HasField("tile") else None
        end = _end(play.end) if play.HasField("end") else None
        if tile is None or (play.HasField("end") and end is None):
            return None
        return commands.Play(seat, tile, end)
    if action in ("start", "continue_round"):
        given: bytes = getattr(request.command, action).contribution
        press = Start if action == "start" else Continue
        return press(seat, given) if len(given) <= CONTRIBUTION_MAX else None
    simple: Mapping[str, Callable[[Seat], Command]] = {
        "reveal": commands.Reveal,
        "accept": commands.Accept,
        "decline": commands.Decline,
        "draw": Draw,
        "pass_turn": commands.Pass,
        "resign": Resign,
    }
    return simple[action](seat)


def _tile(tile: table_pb2.Tile) -> Tile | None:
    if not tile.HasField("low") or not tile.HasField("high") or not 0 <= tile.low <= tile.high <= 6:
        return None
    return Tile.of(tile.low, tile.high)


def _end(end: table_pb2.End) -> End | None:
    tile, port = _tile(end.tile), _PORTS.get(end.port)
    if tile is None or port is None:
        return None
    line = port in (Port.HIGH, Port.LOW)
    return End.of(tile, port) if line is not (tile.low == tile.high) else None
