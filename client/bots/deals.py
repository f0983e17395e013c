"""Hidden tiles, drawn at random from all the deals that agree with what a seat has seen.

Every consistent deal comes equally often. The other seat's tiles came to it in groups: those it held at the beginning,
and those it drew and kept in one turn. A tile fits none of the ends of any turn in which its seat drew or passed while
holding it. The groups are filled tile by tile, each choice in proportion to the number of ways to fill the rest.
"""

from __future__ import annotations

from functools import reduce
from math import comb
from operator import or_
from typing import TYPE_CHECKING, Final, NamedTuple

from engine.tiles import ALL_TILES, tiles_of

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from client.bots.memory import Memory, Turn
    from engine.tiles import Tile, TileSet

_BONEYARD: Final = -1


class Hidden(NamedTuple):
    """One way in which the hidden tiles may lie."""

    hand: TileSet
    """Of the other seat."""
    boneyard: list[TileSet]
    """Single tiles, in drawing order."""


class _Group(NamedTuple):
    """Tiles that the other seat got at the same time."""

    began: int
    """The number of the first turn in which they were held."""
    size: int
    never: TileSet


class Deals:
    """All deals that agree with what one seat sees now and remembers."""

    def __init__(self, memory: Memory, hand: TileSet, held: int, laid: TileSet) -> None:
        """`hand` is the own one, `held` the number of tiles the other seat holds now, `laid` what lies on the table."""
        unseen = tiles_of(ALL_TILES & ~hand & ~laid)
        self._tiles = [tile.bit for tile in unseen]
        self._held = held
        turns = memory.turns
        groups = [_Group(0, memory.held, memory.never)]
        groups += [_Group(number, turn.kept, 0) for number, turn in enumerate(turns) if turn.kept]
        placed = [(turn.played, number) for number, turn in enumerate(turns) if turn.played is not None]
        if sum(group.size for group in groups) - len(placed) != held:
            # Something was not heard of, so nothing that was is relied on.
            groups, placed, turns = [_Group(0, held, 0)], [], []
        self._fitting: list[TileSet] | None = None
        self._choices: list[tuple[int, ...]] = []
        self._placed = len(placed)
        self._room = tuple(group.size for group in groups)
        self._known: dict[tuple[int, tuple[int, ...]], int] = {}
        if len(groups) == 1:
            # Which of them are left is no question: any of those that may be.
            self._fitting = [tile.bit for tile in unseen if _origins(tile, groups, turns, len(turns))]
        else:
            self._choices = [_origins(tile, groups, turns[:number], number) for tile, number in placed]
            self._choices += [(*_origins(tile, groups, turns, len(turns)), _BONEYARD) for tile in unseen]
        if not self.count:
            self._fitting = self._tiles

    @property
    def count(self) -> int:
        """In how many ways the other hand may have come about; at least one when what was seen was a real match."""
        if self._fitting is not None:
            return comb(len(self._fitting), self._held)
        return self._ways(0, self._room)

    def draw(self, rng: random.Random) -> Hidden:
        """One of them; all are equally likely."""
        hand = self._draw_hand(rng)
        boneyard = [tile for tile in self._tiles if not tile & hand]
        rng.shuffle(boneyard)
        return Hidden(hand, boneyard)

    def _draw_hand(self, rng: random.Random) -> TileSet:
        if self._fitting is not None:
            return sum(rng.sample(self._fitting, self._held))
        hand, room = 0, self._room
        for number, choices in enumerate(self._choices):
            if not any(room):
                break
            ways = [self._ways(number + 1, _less(room, group)) for group in choices]
            group = rng.choices(choices, ways)[0] if len(choices) > 1 else choices[0]
            room = _less(room, group)
            if group != _BONEYARD and number >= self._placed:
                hand |= self._tiles[number - self._placed]
        return hand

    def _ways(self, number: int, room: tuple[int, ...]) -> int:
        """How many ways there are to fill what room is left in the groups with the tiles from this number on."""
        if min(room) < 0:
            return 0
        left = sum(room)
        if not left and number >= self._placed:
            return 1
        if len(self._choices) - number < left:
            return 0
        key = (number, room)
        ways = self._known.get(key)
        if ways is None:
            ways = sum(self._ways(number + 1, _less(room, group)) for group in self._choices[number])
            self._known[key] = ways
        return ways


def _less(room: tuple[int, ...], group: int) -> tuple[int, ...]:
    """The room that is left when a tile went to a group, or to the boneyard."""
    return room if group == _BONEYARD else (*room[:group], room[group] - 1, *room[group + 1 :])


def _origins(tile: Tile, groups: Sequence[_Group], turns: Sequence[Turn], until: int) -> tuple[int, ...]:
    """The groups from which a tile that was held before turn `until` may be."""
    return tuple(
        index
        for index, group in enumerate(groups)
        if (index == 0 or group.began < until)
        and not tile.bit & (group.never | reduce(or_, (turn.lacked for turn in turns[group.began :]), 0))
    )
