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

from client.table import BONEYARD_SIZE
from client.wire import contributions_from_pb, some_seat_from_pb, tile_from_pb, tiles_from_pb
from engine.command import Continue, Start
from engine.recordlines import DealLine, MalformedRecordError, MatchLine, read_record
from engine.seats import SEATS, BySeat
from engine.verify import problems

if TYPE_CHECKING:
    from client.table import TableState
    from engine.command import Command
    from engine.deal import Deal
    from engine.seats import Seat
    from engine.tiles import Tile
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

    def __init__(self, match_id: str, *, house_bot: bool = False) -> None:
        """Whether it is a house bot's is for whoever runs it to say: a service that calls a person a bot could otherwise
        have them add nothing, and choose the deal."""
        self.doubts: list[str] = []
        """What the service has not kept to, in words for people; empty while it has."""
        self._match_id = match_id
        self._house_bot = house_bot
        self._secret = secrets.token_bytes(_SECRET_SIZE)
        self._announced: dict[int, str] = {}
        """By round, the commitment that was told before it was dealt."""
        self._counted: dict[tuple[int, Seat], bytes] = {}
        """By round and seat, what a press of this client has added. One that was refused has added nothing: the limit, or
        another client of the same player, was ahead of it."""
        self._added: dict[tuple[int, Seat], bytes] = {}
        """By round and seat, what was told with the press."""
        self._dealt: dict[int, Dealt] = {}
        self._seat: Seat | None = None
        self._hands: dict[int, frozenset[Tile]] = {}
        """By round, the seven tiles that this client's seat was dealt."""
        self._drawn: dict[int, dict[int, Tile]] = {}
        """By round and place in the boneyard, the tiles that this client was shown when they were drawn."""
        self._bots: frozenset[Seat] = frozenset()
        self._rated = False

    # What it adds

    def with_contribution(self, command: Command, table: TableState | None, decision_id: int) -> Command:
        """A Start or Continue with what this client adds to the deal; any other command, or one that has its own, as it
        is. The same press gets the same bytes, so that it can be sent again. House bots add nothing: it does not count."""
        if not isinstance(command, Start | Continue) or table is None:
            return command
        if not command.contribution and not self._house_bot:
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
        self._seat = table.seat
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
            case "tile_drawn" if event.tile_drawn.HasField("tile"):
                place = BONEYARD_SIZE - 1 - event.tile_drawn.boneyard
                self._drawn.setdefault(round_no, {})[place] = tile_from_pb(event.tile_drawn.tile)

    def _press(self, round_no: int, told: Started | Continued) -> None:
        self._added[round_no, some_seat_from_pb(told.seat)] = told.contribution

    def _deal(self, told: HandDealt) -> None:
        drawn = told.HasField("contributions")
        given = contributions_from_pb(told.contributions) if drawn else None
        announced = self._announced.get(told.round)
        if announced is None and not told.scripted:
            self._doubt(told.round, "was dealt without a seed that had been committed to")
        elif not told.scripted and not (drawn and told.commitment == announced):
            self._doubt(told.round, "was not dealt from the seed that had been committed to")
        if told.scripted and self._rated:
            self._doubt(told.round, "of a rated match was dealt as somebody wanted it")
        if given is not None and any(given[seat] for seat in self._bots):
            self._doubt(told.round, "was dealt with what a house bot added")
        self._dealt[told.round] = Dealt(told.commitment, given)
        if told.hand:
            self._hands[told.round] = frozenset(tiles_from_pb(told.hand))
        if told.next_commitment:
            self._announce(told.round + 1, told.next_commitment)
        self._compare(told.round)

    def against(self, record: str) -> list[str]:
        """What a record of the match contradicts itself or what was told in, in words; nothing when it proves all of it."""
        lines = read_record(record.encode())
        deals = [line for _, line in lines.lines if isinstance(line, DealLine)]
        found = [*self.doubts]
        if not any(
            isinstance(line, MatchLine) and line.match_id == self._match_id for _, line in lines.lines
        ):
            found.append("the record is not that of this match")
        try:
            found += problems(lines)
        except MalformedRecordError as error:
            found.append(str(error))
        for number, told in sorted(self._dealt.items()):
            line = deals[number - 1] if number <= len(deals) else None
            if line is None or Dealt(line.commitment or "", line.contributions) != told:
                found.append(f"round {number} is not in the record as it was told when it was dealt")
            elif not self._agrees(number, line.deal):
                found.append(f"round {number} was played with other tiles than the record shows")
        return found

    def _agrees(self, number: int, deal: Deal) -> bool:
        """Whether the tiles of a round that this client has seen lay where a deal has them."""
        hand, drawn = self._hands.get(number), self._drawn.get(number, {})
        if self._seat is not None and hand is not None and hand != frozenset(deal.hand(self._seat)):
            return False
        return all(
            place in range(BONEYARD_SIZE) and deal.boneyard[place] is tile for place, tile in drawn.items()
        )

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
