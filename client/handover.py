"""Two people at one device (rules 6.5, 7.4): whose turn it is to look at the screen, and what may be on it.

A pure value, `Device`, told of each new table and of each key that matters. What it gives out as `shown` is all that a
screen may draw: it holds tiles of a hand only after their owner has pressed Reveal *here*, in this turn.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from client.table import NOTHING, Player, TableState
from engine.command import Continue, Reveal, Start
from engine.seats import SEATS, BySeat
from spectacularbid.match.v1 import event_pb2

if TYPE_CHECKING:
    from engine.command import Command
    from engine.seats import Seat
    from spectacularbid.match.v1.event_pb2 import MatchEvent

NAME_MAX: Final = 16
"""Characters of a name at the table; longer ones are cut."""


class Stage(StrEnum):
    """What the device waits for."""

    START = "start"
    """Both are ready: the first deal."""
    HAND_OVER = "hand_over"
    """The seat to act takes the device and reveals its tiles. The clocks stand still until it has."""
    TURN = "turn"
    """A seat looks at its tiles and decides; its clock runs."""
    CONTINUE = "continue"
    """A round is settled: the next deal."""
    WAITING = "waiting"
    """The service deals, or has not answered yet."""
    OVER = "over"
    """The match has ended."""


@dataclass(frozen=True, slots=True)
class Device:
    """What the device knows of the match."""

    names: BySeat[str]
    table: TableState | None = None
    """As the service told it. Not for the screen: in a turn that goes on after a restart of the program it holds a hand
    whose owner is not known to look."""
    looking_at: int = 0
    """The number of the turn whose owner has pressed Reveal here; 0 for none."""

    def told(self, table: TableState) -> Device:
        """The same device with a newer table."""
        return replace(self, table=table)

    def reveal(self) -> Device:
        """The seat that must take the device has pressed Reveal."""
        assert self.table is not None, "there is something to reveal"
        prompt = self.table.prompt
        return replace(self, looking_at=prompt.turn if prompt.to_act is not None else prompt.turn + 1)

    @property
    def stage(self) -> Stage:
        """What is waited for."""
        table = self.table
        if table is None:
            return Stage.WAITING
        if table.outcome is not None:
            return Stage.OVER
        prompt = table.prompt
        if prompt.legal.start:
            return Stage.START
        if prompt.legal.continue_round:
            return Stage.CONTINUE
        if prompt.to_act is not None:
            return Stage.TURN if self.looking_at == prompt.turn else Stage.HAND_OVER
        return Stage.HAND_OVER if prompt.awaiting_reveal is not None else Stage.WAITING

    @property
    def holder(self) -> Seat | None:
        """Who has the device, or must take it; None where both may look."""
        if self.table is None or self.stage not in (Stage.TURN, Stage.HAND_OVER):
            return None
        return self.table.prompt.to_act or self.table.prompt.awaiting_reveal

    @property
    def commands(self) -> tuple[Command, ...]:
        """What the one key of this stage sends: Start and Continue for both seats, Reveal; nothing in a turn."""
        table, holder = self.table, self.holder
        if table is None:
            return ()
        match self.stage:
            case Stage.START:
                return tuple(Start(seat) for seat in SEATS if seat not in table.pressed)
            case Stage.CONTINUE:
                return tuple(Continue(seat) for seat in SEATS if seat not in table.pressed)
            case Stage.HAND_OVER if table.prompt.to_act is None and holder is not None:
                return (Reveal(holder),)
            case _:
                return ()

    @property
    def shown(self) -> TableState | None:
        """The table as it may be drawn now: the holder's own in a turn, else what a spectator sees."""
        table = self.table
        if table is None:
            return None
        named = replace(table, players=_named(table.players, self.names))
        if self.stage is Stage.TURN:
            return replace(named, seat=self.holder)
        return replace(named, seat=None, hand=(), prompt=replace(table.prompt, legal=NOTHING))


def names_of(north: str, south: str) -> BySeat[str]:
    """Two names that can be told apart, for a table of two people; the seats' own where none is given."""
    one, two = " ".join(north.split())[:NAME_MAX] or "North", " ".join(south.split())[:NAME_MAX] or "South"
    if one.casefold() == two.casefold():
        one, two = f"{one[: NAME_MAX - 4]} (N)", f"{two[: NAME_MAX - 4]} (S)"
    return BySeat(one, two)


def public(event: MatchEvent) -> MatchEvent:
    """An event as a spectator hears it: what is told of a turn stays on the screen longer than its hand."""
    bare = event_pb2.MatchEvent()
    bare.CopyFrom(event)
    match event.WhichOneof("kind"):
        case "hand_dealt":
            bare.hand_dealt.ClearField("hand")
        case "revealed":
            bare.revealed.ClearField("hand")
        case "tile_drawn":
            bare.tile_drawn.ClearField("tile")
    return bare


def _named(players: BySeat[Player], names: BySeat[str]) -> BySeat[Player]:
    return BySeat(
        replace(players.north, name=names.north),
        replace(players.south, name=names.south),
    )
