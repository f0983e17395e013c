"""The rest of a round played out in microseconds: what a search asks thousands of times for one move.

The same rules as `engine`, written for one purpose: tiles are bits, ends are numbers, nothing is explained or refused,
and both seats play by one habit. A test plays rounds here and in the engine and compares them.

The habit: a play is worth the points it scores, a little for the pips it gets rid of (`PIPS`), less what it leaves the
other seat: `CARE` points times the chance, roughly, that the other seat can score next. Each seat goes by the tiles it
does not see, as in a real round. This is as quick as it can be and still close to sensible play: with a habit that only
takes points, the search was weaker by 1.0 ± 1.0 points a round (700 pairs of rounds).
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Final, NamedTuple

from engine.points import TOTAL, UNIT, blocked, score
from engine.tiles import ALL_TILES, DOUBLE_SIX, ENDS, End, Port, pips_of, tiles_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from client.bots.worth import Worth
    from engine.layout import Layout
    from engine.tiles import Tile, TileSet

PIPS: Final = tuple(0.06 * tile.pips + (0.03 if tile.is_double else 0.0) for tile in DOUBLE_SIX)
"""What it is worth to be rid of a tile, in points."""
CARE: Final = 4.0
"""What it costs, in points, to let the other seat score with every tile that it may hold, for each tile it holds."""
CARE_TILES_MAX: Final = 4
"""More tiles than this in the other hand make it no likelier that one of them scores."""

_LINES: Final = (Port.LINE_A, Port.LINE_B)
_END_ID: Final = {end: number for number, end in enumerate(ENDS)}
_FITS: Final = tuple(end.fits for end in ENDS)
_COUNTS: Final = tuple(end.counts for end in ENDS)
# The double whose line an end is; no tile has the number of the others.
_LINE_OF: Final = tuple(end.tile.id if end.tile.is_double and end.port in _LINES else -2 for end in ENDS)
_BRANCHES: Final = tuple(
    (_END_ID[End.of(tile, Port.BRANCH_A)], _END_ID[End.of(tile, Port.BRANCH_B)]) if tile.is_double else (0, 0)
    for tile in DOUBLE_SIX
)
_NO_SPINNER: Final = -1
_NO_PLAY: Final = -1e9


class _Move(NamedTuple):
    """One tile at one end: how the count changes, what its pips say, the tile as a set, the end that is open then."""

    change: int
    pips: float
    bit: TileSet
    exposed: int
    spinner: int
    """The tile's number when it is a double, for the first of a round; else _NO_SPINNER."""


def _exposed(tile: Tile, end: End) -> End:
    """The end that is open when a tile has been joined (rules 3.1, 3.3)."""
    if tile.is_double:
        return End.of(tile, Port.LINE_B)
    return End.of(tile, Port.HIGH if tile.low == end.value else Port.LOW)


def _move(tile: Tile, end: End) -> _Move:
    exposed = _exposed(tile, end)
    change = exposed.counts - end.counts
    return _Move(
        change, PIPS[tile.id], tile.bit, _END_ID[exposed], tile.id if tile.is_double else _NO_SPINNER
    )


def _moves_at(end: End) -> dict[TileSet, tuple[_Move, ...]]:
    """The moves at one end for each set of tiles that fit there."""
    fitting = tiles_of(end.fits)
    sets = (chosen for size in range(1, len(fitting) + 1) for chosen in combinations(fitting, size))
    return {sum(tile.bit for tile in chosen): tuple(_move(tile, end) for tile in chosen) for chosen in sets}


_NOTHING: Final = _Move(0, 0.0, 0, 0, _NO_SPINNER)
_MOVES: Final = tuple(_moves_at(end) for end in ENDS)
_SCORING: Final = tuple(
    tuple(
        sum(tile.bit for tile in tiles_of(end.fits) if (rest + _move(tile, end).change) % UNIT == 0)
        for rest in range(UNIT)
    )
    for end in ENDS
)
"""For each end, and what the count leaves when divided by five: the tiles that score there."""


class Spot(NamedTuple):
    """What a layout comes to for those who go on with it."""

    ends: tuple[int, ...]
    """Positions in `ENDS`."""
    total: int
    """The count (rule 3.5)."""
    spinner: int
    """The number of the spinner's tile; -1 without one."""
    lines: int
    """How many line ports of the spinner are open: 2 when it lies alone and counts once."""


def spot_of(layout: Layout) -> Spot:
    """The same layout as numbers."""
    if layout.spinner is None:
        return Spot(tuple(_END_ID[end] for end in layout.ends), layout.total, _NO_SPINNER, 0)
    lines = sum(end.tile is layout.spinner and end.port in _LINES for end in layout.ends)
    return Spot(tuple(_END_ID[end] for end in layout.ends), layout.total, layout.spinner.id, lines)


def joined(spot: Spot, tile: Tile, end: End) -> Spot:
    """The layout after a placement that fits; its `total` is the count."""
    ends, total, spinner, lines = spot
    number = _END_ID[end]
    move = _move(tile, end)
    total += move.change + (_COUNTS[number] if lines == 2 else 0)
    left = [move.exposed if each == number else each for each in ends]
    if spinner == _NO_SPINNER:
        spinner, lines = move.spinner, int(tile.is_double)
    elif _LINE_OF[number] == spinner:
        lines -= 1
        if not lines:
            left += _BRANCHES[spinner]
    return Spot(tuple(left), total, spinner, lines)


def opened(tile: Tile) -> Spot:
    """The layout of an opening tile alone."""
    ports = _LINES if tile.is_double else (Port.LOW, Port.HIGH)
    ends = tuple(_END_ID[End.of(tile, port)] for port in ports)
    return Spot(ends, tile.pips, tile.id if tile.is_double else _NO_SPINNER, 2 if tile.is_double else 0)


def habitual_opening(hand: TileSet) -> Tile:
    """What a seat that plays by habit opens with."""
    unseen = ALL_TILES & ~hand
    care = CARE * CARE_TILES_MAX / unseen.bit_count()

    def worth(tile: Tile) -> float:
        return score(tile.pips) + PIPS[tile.id] - care * scoring(opened(tile), unseen)

    return max(tiles_of(hand), key=worth)


def scoring(spot: Spot, unseen: TileSet) -> int:
    """How many of these tiles would bring the count to a multiple of five."""
    tiles = 0
    for end in spot.ends:
        # A spinner that lies alone goes on counting.
        count = spot.total + _COUNTS[end] if spot.lines == 2 else spot.total
        tiles |= _SCORING[end][count % UNIT]
    return (tiles & unseen).bit_count()


def play_out(
    me: TileSet, other: TileSet, boneyard: Sequence[TileSet], spot: Spot, balance: int, worth: Worth
) -> float:
    """What the round is worth to `me`, who moves next: 0 to 1, from the end of the round, or of the match.

    `boneyard` holds single tiles in drawing order, `balance` is that of `me`. Both seats play by habit.
    """
    out_me, out_other, nobody = worth
    at, total, spinner, lines = spot
    ends = list(at)
    rest, left = sum(boneyard), len(boneyard)
    sign, passes = 1, 0
    chosen, place, count_then = _NOTHING, 0, 0
    while True:
        fits = 0
        for end in ends:
            fits |= _FITS[end]
        fitting = me & fits
        if not fitting:
            while left:
                tile = boneyard[-left]
                left -= 1
                me |= tile
                rest ^= tile
                if tile & fits:
                    fitting = tile
                    break
            else:
                passes += 1
                if passes == 2:
                    return _blocked(me, other, balance, sign, nobody)
                me, other, sign = other, me, -sign
                continue
        best = _NO_PLAY
        unseen, held = other | rest, other.bit_count()
        care = CARE * (held if held < CARE_TILES_MAX else CARE_TILES_MAX) / (held + left)
        for index, end in enumerate(ends):
            here = fitting & _FITS[end]
            if here:
                base = total + _COUNTS[end] if lines == 2 else total
                for move in _MOVES[end][here]:
                    count = base + move[0]
                    modulo = count % 5
                    inviting = _SCORING[move[3]][modulo]
                    for other_index, other_end in enumerate(ends):
                        if other_index != index:
                            inviting |= _SCORING[other_end][modulo]
                    value = move[1] - care * (inviting & unseen).bit_count()
                    if not modulo:
                        value += count
                    if value > best:
                        best, chosen, count_then, place = value, move, count, index
        total = count_then
        _, _, bit, exposed, double = chosen
        end = ends[place]
        ends[place] = exposed
        me ^= bit
        if spinner < 0:
            if double >= 0:
                spinner, lines = double, 1
        elif _LINE_OF[end] == spinner:
            lines -= 1
            if not lines:
                ends += _BRANCHES[spinner]
        if not total % 5:
            balance += sign * total
            if balance <= 0:
                return 0.0
            if balance >= TOTAL:
                return 1.0
        if not me:
            return (out_me if sign > 0 else out_other)[balance]
        passes = 0
        me, other, sign = other, me, -sign


def _blocked(me: TileSet, other: TileSet, balance: int, sign: int, nobody: Sequence[float]) -> float:
    """Rule 4.6, for the seat with that balance; `sign` says whether it is `me` (1) or `other` (-1)."""
    mine, theirs = pips_of(me), pips_of(other)
    if mine != theirs:
        due = blocked(max(mine, theirs))
        balance += sign * (due if mine < theirs else -due)
    if balance <= 0:
        return 0.0
    return 1.0 if balance >= TOTAL else nobody[balance]
