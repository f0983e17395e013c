"""What this client adds to the deals of a match, and whether the service keeps to what it has said about them.

The service commits to the seed of a round before anybody presses for it; with each press goes what that client adds, and
everybody is told. When the round is dealt, the service must name the same commitment and the same bytes again. When the
match is over its record must show them too, and prove that the deals follow from them: `against` looks.

A client that presses after the other one has been told everything else that goes into the deal: nobody can have chosen it,
even if all others work together.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from client.wire import contributions_from_pb, some_seat_from_pb
from engine.command import Continue, Start
from engine.recordlines import DealLine, MalformedRecordError, read_record
from engine.seats import SEATS, BySeat
from engine.verify import problems

if TYPE_CHECKING:
    from client.table import TableState
    from engine.command import Command
    from engine.seats import Seat
    from spectacularbid.match.v1.event_pb2 import Continued, HandDealt, MatchEvent, Started

_SECRET_SIZE: Final = 32


@dataclass(frozen=True, slots=True)
class Dealt:
    """A round as the service has told of it."""

    commitment: str
    contributions: BySeat[bytes] | None
    """None for a deal that was not drawn."""


class Fairness:
    """The deals of one match, as one client has heard of them."""

    def __init__(self, match_id: str) -> None:
        self.doubts: list[str] = []
        """What the service has not kept to, in words for people; empty while it has."""
        self._match_id = match_id
        self._secret = secrets.token_bytes(_SECRET_SIZE)
        self._announced: dict[int, str] = {}
        """By round, the commitment that was told before it was dealt."""
        self._counted: dict[tuple[int, Seat], bytes] = {}
        """By round and seat, what a press of this client has added. One that was refused has added nothing: the limit, or
        another client of the same player, was ahead of it."""
        self._added: dict[tuple[int, Seat], bytes] = {}
        """By round and seat, what was told with the press."""
        self._dealt: dict[int, Dealt] = {}
        self._bots: frozenset[Seat] = frozenset()
        self._rated = False

    # What it adds

    def with_contribution(self, command: Command, table: TableState | None, decision_id: int) -> Command:
        """A Start or Continue with what this client adds to the deal; any other command, or one that has its own, as it
        is. The same press gets the same bytes, so that it can be sent again. House bots add nothing: it does not count."""
        if not isinstance(command, Start | Continue) or table is None:
            return command
        if not command.contribution and not table.players[command.seat].bot:
            press = f"{self._match_id} {decision_id} {command.seat}".encode()
            command = replace(command, contribution=hmac.digest(self._secret, press, "sha256"))
        return command

    def carried_out(self, command: Command, round_no: int) -> None:
        """The press for this round has had its effect."""
        if isinstance(command, Start | Continue):
            self._counted[round_no, command.seat] = command.contribution
            self._compare(round_no)

    # What it hears

    def table(self, table: TableState) -> None:
        """The whole table was told."""
        self._bots = frozenset(seat for seat in SEATS if table.players[seat].bot)
        self._rated = table.rated
        if table.next_commitment:
            self._announce(table.round_no + 1, table.next_commitment)

        for seat in table.pressed:
            self._added[table.round_no + 1, seat] = table.contributions[seat]

    def hear(self, event: MatchEvent, round_no: int) -> None:
        """Something happened; `round_no` is that of the table."""
        match event.WhichOneof("kind"):
            case "started":
                self._press(round_no + 1, event.started)
            case "continued":
                self._press(round_no + 1, event.continued)
            case "hand_dealt":
                self._deal(event.hand_dealt)

    def _press(self, round_no: int, told: Started | Continued) -> None:
        self._added[round_no, some_seat_from_pb(told.seat)] = told.contribution

    def _deal(self, told: HandDealt) -> None:
        drawn = told.HasField("contributions")
        given = contributions_from_pb(told.contributions) if drawn else None
        announced = self._announced.get(told.round)
        if announced is not None and not told.scripted and not (drawn and told.commitment == announced):
            self._doubt(told.round, "was not dealt from the seed that had been committed to")
        if told.scripted and self._rated:
            self._doubt(told.round, "of a rated match was dealt as somebody wanted it")
        if given is not None and any(given[seat] for seat in self._bots):
            self._doubt(told.round, "was dealt with what a house bot added")
        self._dealt[told.round] = Dealt(told.commitment, given)
        if told.next_commitment:
            self._announce(told.round + 1, told.next_commitment)
        self._compare(told.round)

    def against(self, record: str) -> list[str]:
        """What a record of the match contradicts itself or what was told in, in words; nothing when it proves all of it."""
        lines = read_record(record.encode())
        deals = [line for _, line in lines.lines if isinstance(line, DealLine)]
        found = [*self.doubts]
        try:
            found += problems(lines)
        except MalformedRecordError as error:
            found.append(str(error))
        for number, told in sorted(self._dealt.items()):
            line = deals[number - 1] if number <= len(deals) else None
            if line is None or Dealt(line.commitment or "", line.contributions) != told:
                found.append(f"round {number} is not in the record as it was told when it was dealt")
        return found

    def _announce(self, round_no: int, commitment: str) -> None:
        if self._announced.setdefault(round_no, commitment) != commitment:
            self._doubt(round_no, "was committed to twice, and not to the same seed")

    def _compare(self, round_no: int) -> None:
        """Whether a deal was drawn with what this client has sent, as soon as both are known."""
        dealt = self._dealt.get(round_no)
        if dealt is None or dealt.contributions is None:
            return
        for seat in SEATS:
            given, place = dealt.contributions[seat], (round_no, seat)
            if self._counted.get(place, given) != given:
                self._doubt(round_no, "was not dealt with what this client had added")
            elif self._added.get(place, given) != given:
                self._doubt(round_no, f"was not dealt with what {seat} had added")

    def _doubt(self, round_no: int, what: str) -> None:
        doubt = f"round {round_no} {what}"
        if doubt not in self.doubts:
            self.doubts.append(doubt)
