"""The rules once more, slowly and in another way: nothing is remembered, everything is looked up anew.

Open ends and counts come from the graph of the joins. Refusals come as the set of all reasons that apply; the
engine must answer with the first of them in the order of the enum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.command import Accept, Bid, Command, Continue, Decline, Draw, Pass, Play, Resign, Reveal, Start
from engine.match import Match, Mode, Phase
from engine.refusal import Refusal
from engine.seats import NORTH
from engine.tiles import DOUBLE_SIX, Tile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.layout import Placement
    from engine.seats import Seat

Place = tuple[str, str]
"""Tile and port, as texts."""


class Graph:
    """The tiles on the table as nodes with ports, and which ports are taken."""

    def __init__(self, placements: Sequence[Placement]) -> None:
        self.tiles = [placement.tile for placement in placements]
        self.taken: set[Place] = set()
        for placement in placements:
            if placement.end is not None and placement.joined is not None:
                self.taken.add((placement.end.tile.text, placement.end.port.value))
                self.taken.add((placement.tile.text, placement.joined.value))
        self.spinner = next((tile for tile in self.tiles if tile.low == tile.high), None)

    def _free(self, tile: Tile, *ports: str) -> list[Place]:
        return [(tile.text, port) for port in ports if (tile.text, port) not in self.taken]

    def open_ends(self) -> dict[Place, int]:
        """Each place where a tile may be joined, with the value it must show."""
        ends: dict[Place, int] = {}
        for tile in self.tiles:
            if tile.low != tile.high:
                ends.update(dict.fromkeys(self._free(tile, "low"), tile.low))
                ends.update(dict.fromkeys(self._free(tile, "high"), tile.high))
                continue
            lines = self._free(tile, "line_a", "line_b")
            ends.update(dict.fromkeys(lines, tile.low))
            if tile is self.spinner and not lines:
                ends.update(dict.fromkeys(self._free(tile, "branch_a", "branch_b"), tile.low))
        return ends

    def closed_branch(self, place: Place) -> bool:
        """Whether this is a branch of the spinner before both of its lines are filled."""
        if self.spinner is None or place[0] != self.spinner.text or "branch" not in place[1]:
            return False
        return bool(self._free(self.spinner, "line_a", "line_b"))

    def count(self) -> int:
        """All exposed halves; both halves of a double with a free line."""
        total = 0
        for tile in self.tiles:
            if tile.low == tile.high:
                total += 2 * tile.low if self._free(tile, "line_a", "line_b") else 0
            else:
                total += tile.low * len(self._free(tile, "low")) + tile.high * len(self._free(tile, "high"))
        if len(self.tiles) == 1 and self.tiles[0].low != self.tiles[0].high:
            assert total == self.tiles[0].low + self.tiles[0].high
        return total


def plays(state: Match) -> set[tuple[str, str | None]]:
    """Every legal play of the seat to act, as texts."""
    seat = state.to_act
    if seat is None or state.phase not in (Phase.OPENING, Phase.PLAYING):
        return set()
    hand = state.hands[seat]
    if state.phase is Phase.OPENING:
        return {(tile.text, None) for tile in hand if state.forced_tile in (None, tile)}
    ends = Graph(state.layout.placements).open_ends()
    return {
        (tile.text, f"{name} {port}")
        for tile in hand
        for (name, port), value in ends.items()
        if value in (tile.low, tile.high) and state.drawn_tile in (None, tile)
    }


def reasons(state: Match, command: Command) -> set[Refusal]:
    """Every reason for which this command would be refused."""
    return {reason for reason, applies in _checks(state, command) if applies}


def first_reason(state: Match, command: Command) -> Refusal | None:
    """The reason that comes first in the order of precedence, or None for a legal command."""
    found = reasons(state, command)
    return next((reason for reason in Refusal if reason in found), None)


def _checks(state: Match, command: Command) -> list[tuple[Refusal, bool]]:
    r = Refusal
    phase, seat = state.phase, command.seat
    checks = [
        (r.MATCH_OVER, phase is Phase.OVER),
        (r.NOT_STARTED, phase is Phase.AWAITING_START and not isinstance(command, Start)),
        (r.ROUND_SETTLED, phase is Phase.SETTLED and not isinstance(command, Continue | Resign)),
        (r.AWAITING_DEAL, phase is Phase.AWAITING_DEAL and not isinstance(command, Resign)),
        (r.START_NOT_DUE, isinstance(command, Start) and phase is not Phase.AWAITING_START),
        (r.CONTINUE_NOT_DUE, isinstance(command, Continue) and phase is not Phase.SETTLED),
        (r.NOT_SAME_DEVICE, isinstance(command, Reveal) and state.mode is Mode.ONLINE),
        (r.REVEAL_NOT_DUE, isinstance(command, Reveal) and state.awaiting_reveal is not seat),
        (r.ALREADY_PRESSED, isinstance(command, Start | Continue) and seat in state.pressed),
    ]
    if isinstance(command, Bid | Accept | Decline | Play | Draw | Pass):
        on_turn = state.to_act or state.awaiting_reveal
        checks.append((r.NOT_YOUR_TURN, on_turn is not seat))
        checks.append((r.NOT_REVEALED, state.awaiting_reveal is not None))
        checks += _turn_checks(state, command, seat)
    return checks


def _turn_checks(state: Match, command: Command, seat: Seat) -> list[tuple[Refusal, bool]]:
    r = Refusal
    in_auction, opening = state.phase is Phase.AUCTION, state.phase is Phase.OPENING
    if isinstance(command, Bid | Accept | Decline):
        bid = state.standing_bid
        checks = [
            (r.NO_AUCTION, not in_auction),
            (r.BID_STANDS, isinstance(command, Decline) and bid is not None),
            (r.NO_BID_STANDS, isinstance(command, Accept) and bid is None),
        ]
        if isinstance(command, Bid):
            balance = state.balances[seat]
            to_pay = max(0, command.amount - 15) if seat is state.jockey else command.amount
            checks += [
                (r.MUST_DECLINE, bid is None and balance < 15),
                (r.BID_NOT_A_MULTIPLE_OF_FIVE, command.amount % 5 != 0),
                (r.BID_BELOW_MINIMUM, bid is None and command.amount < 15),
                (r.RAISE_TOO_SMALL, bid is not None and command.amount < bid.amount + 5),
                (r.BID_UNAFFORDABLE, to_pay > balance),
            ]
        return checks
    playing = state.phase is Phase.PLAYING
    checks = [(r.AUCTION_OPEN, in_auction)]
    if isinstance(command, Play):
        held = command.tile in state.hands[seat]
        checks += [
            (r.TILE_NOT_IN_HAND, not held),
            (r.OPENING_TILE_FORCED, opening and state.forced_tile not in (None, command.tile)),
            (r.END_GIVEN_FOR_OPENING, opening and command.end is not None),
            (r.MUST_PLAY_DRAWN_TILE, playing and state.drawn_tile not in (None, command.tile)),
            (r.END_MISSING, playing and command.end is None),
        ]
        if playing and command.end is not None:
            graph = Graph(state.layout.placements)
            place = (command.end.tile.text, command.end.port.value)
            is_open, is_closed = place in graph.open_ends(), graph.closed_branch(place)
            value = command.end.tile.low if command.end.port == "low" else command.end.tile.high
            checks += [
                (r.END_NOT_OPEN, not is_open and not is_closed),
                (r.BRANCH_CLOSED, is_closed),
                (r.TILE_DOES_NOT_FIT, value not in (command.tile.low, command.tile.high)),
            ]
        return checks
    can_play = playing and bool(plays(state._replace(to_act=seat)))
    return [
        *checks,
        (r.MUST_OPEN, opening),
        (r.MUST_PLAY_DRAWN_TILE, playing and state.drawn_tile is not None),
        (r.MUST_PLAY, can_play),
        (r.BONEYARD_EMPTY, isinstance(command, Draw) and playing and not state.boneyard),
        (r.MUST_DRAW, isinstance(command, Pass) and playing and bool(state.boneyard)),
    ]


def where_is_everything(state: Match) -> list[Tile]:
    """All tiles of a dealt round wherever they are, sorted: each of the 28 once."""
    on_table = [placement.tile for placement in state.layout.placements]
    held = [tile for tile in DOUBLE_SIX if (state.north_hand | state.south_hand) & tile.bit]
    assert state.north_hand & state.south_hand == 0
    return sorted([*on_table, *held, *state.boneyard])


def opener(state: Match) -> tuple[Seat, Tile]:
    """Rules 2.2 and 2.3 by trying one tile after the other."""
    for value in range(6, -1, -1):
        double = Tile.of(value, value)
        for seat in (NORTH, NORTH.opponent):
            if double in state.hands[seat]:
                return seat, double
    for pips in range(11, 0, -1):
        for high in range(6, -1, -1):
            if 0 <= pips - high < high:
                tile = Tile.of(pips - high, high)
                for seat in (NORTH, NORTH.opponent):
                    if tile in state.hands[seat]:
                        return seat, tile
    raise AssertionError("fourteen tiles were dealt")
