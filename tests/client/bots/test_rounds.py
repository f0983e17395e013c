"""The quick rounds of the search are rounds of the engine."""

from hypothesis import given, settings
from hypothesis import strategies as st

from client.bots.rounds import (
    CARE,
    CARE_TILES_MAX,
    PIPS,
    habitual_opening,
    joined,
    opened,
    play_out,
    scoring,
    spot_of,
)
from client.bots.worth import WORTH, Worth
from engine.command import Command, Draw, Pass, Play
from engine.match import Match, Phase, decide, legal, replay
from engine.points import TOTAL, score
from engine.refusal import Refusal
from engine.seats import Seat
from engine.tiles import ALL_TILES, End, Tile, tile_set, tiles_of
from tests.client.bots.seen import positions

# Each end of a round has a number of its own.
TOLD = Worth(
    jockey=tuple(1000.0 + balance for balance in range(TOTAL + 1)),
    challenger=tuple(2000.0 + balance for balance in range(TOTAL + 1)),
    nobody=tuple(3000.0 + balance for balance in range(TOTAL + 1)),
)


def habit(state: Match, tile: Tile, end: End | None) -> float:
    """What a seat that plays by habit goes by, from the rules alone."""
    seat = state.to_act
    assert seat is not None
    join = state.layout.joined(tile, end)
    assert join is not None
    count = join[1]
    # The count goes on from here with every open end counted for itself, but for the branches that are new then.
    before = [open_end for open_end in state.layout.ends if open_end is not end]
    ends = [*before, *set(state.layout.place(tile, end, count).ends[: len(before) + 1]).difference(before)]
    held = state.hand(seat.opponent).bit_count()
    unseen = tiles_of(state.hand(seat.opponent)) + state.boneyard
    scores = {
        other
        for other in unseen
        for open_end in ends
        if open_end.fits & other.bit and (count - open_end.counts + exposed(other, open_end)) % 5 == 0
    }
    care = CARE * min(held, CARE_TILES_MAX) / len(unseen)
    return PIPS[tile.id] - care * len(scores) + score(count)


def exposed(tile: Tile, end: End) -> int:
    """What the end counts that is open when a tile is joined."""
    return tile.pips if tile.is_double else tile.other(end.value)


def by_habit(state: Match) -> Command:
    seat, allowed = state.to_act, legal(state)
    assert seat is not None
    if allowed.play:
        return Play(seat, *max(allowed.play, key=lambda play: habit(state, *play)))
    return Draw(seat) if allowed.draw else Pass(seat)


def after(state: Match, command: Command) -> Match:
    ruling = decide(state, command)
    assert not isinstance(ruling, Refusal)
    return replay(state, ruling)


def told(state: Match, seat: Seat) -> float:
    """How the round ended, as a number."""
    if state.outcome is not None:
        return float(state.outcome.winner is seat)
    balance = state.balances[seat]
    if state.jockey is None:
        return TOLD.nobody[balance]
    return (TOLD.jockey if state.jockey is seat else TOLD.challenger)[balance]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), which=st.floats(0, 1, exclude_max=True))
def test_a_round_that_is_played_out_quickly_ends_as_in_the_engine(seed: int, which: float) -> None:
    """From any position of a random match: same placements, draws, points, jockey, and end of the match."""
    begun = [
        seen.state
        for seen in positions(seed)
        if seen.state.phase is Phase.PLAYING and seen.state.drawn_tile is None and not seen.state.passes
    ]
    state = begun[int(which * len(begun))]
    seat = state.to_act
    assert seat is not None
    quick = play_out(
        state.hand(seat),
        state.hand(seat.opponent),
        [tile.bit for tile in state.boneyard],
        spot_of(state.layout),
        state.balances[seat],
        TOLD,
    )
    while state.phase is Phase.PLAYING:
        state = after(state, by_habit(state))
    assert quick == told(state, seat)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_placement_changes_the_numbers_as_it_changes_the_layout(seed: int) -> None:
    for seen in positions(seed):
        for tile, end in legal(seen.state).play:
            layout = after(seen.state, Play(seen.seat, tile, end)).layout
            spot = opened(tile) if end is None else joined(spot_of(seen.state.layout), tile, end)
            assert spot == spot_of(layout)


def test_the_habitual_opening_takes_points_and_leaves_few() -> None:
    """[5|5] scores 10. After [1|2], [1|3], [2|2] and [2|4] count 5; after [6|6] only [3|6] makes 15."""
    hand = [Tile.parse(text) for text in ("6|6", "0|5", "4|6", "5|5", "1|2")]
    assert habitual_opening(tile_set(hand)) is Tile.parse("5|5")
    assert habitual_opening(tile_set([Tile.parse("6|6"), Tile.parse("1|2")])) is Tile.parse("6|6")
    assert scoring(opened(Tile.parse("1|2")), ALL_TILES) == 3
    assert scoring(opened(Tile.parse("6|6")), ALL_TILES) == 1


def test_what_one_seat_may_hope_for_the_other_must_fear() -> None:
    """The chances of both seats add up to one, for every balance; more points are never worth less."""
    for balance in range(0, TOTAL + 1, 5):
        left = TOTAL - balance
        assert abs(WORTH.nobody[balance] + WORTH.nobody[left] - 1) < 1e-9
        assert abs(WORTH.jockey[balance] + WORTH.challenger[left] - 1) < 1e-9
    for chances in WORTH:
        assert list(chances) == sorted(chances)
        assert (chances[0], chances[TOTAL]) == (0.0, 1.0)
