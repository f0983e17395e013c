"""The drawn table: everything there is on the screen, nothing hidden, nothing cut off, at both sizes that are promised."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from client.table import BidRange, Legal, TableState
from client.terminal.board import Scene, draw
from client.terminal.canvas import Canvas, clipped, width_of, wrapped
from client.terminal.desk import Desk
from client.terminal.selection import NOTHING, Selection
from client.terminal.theme import COLOURED, Theme
from client.terminal.tiling import draw_layout
from engine.match import Match as State
from engine.match import legal
from engine.seats import NORTH, SEATS, SOUTH, BySeat
from engine.state import Phase
from engine.tiles import DOUBLE_SIX, Tile, tiles_of
from engine.view import view
from services.game.story import Audience, Story
from tests.client.tables import carry_out, new_story, news, told
from tests.engine.randomplay import choose, start, steps

SIZES = ((80, 24), (140, 45))
AUDIENCES = {Audience.NORTH: NORTH, Audience.SOUTH: SOUTH, Audience.SPECTATOR: None}
_TILE = re.compile(r"[\[{]([0-6])\|([0-6])[\]}]")


def tables(seed: int, audience: Audience, share: float) -> Iterator[tuple[Story, TableState]]:
    """Tables of a random match as somebody sees them, some of them."""
    rng = random.Random(seed)
    story = new_story()
    while True:
        if story.over or rng.random() < share:
            yield story, told(None, news(story, audience, 0))
        if story.over:
            return
        assert carry_out(story, choose(story.state, legal(story.state), rng), rng) is None


def scene(table: TableState, selection: Selection = NOTHING, now: float = 0.0) -> Scene:
    return Scene(table, now, seat=table.seat, bottom=table.seat or SOUTH, selection=selection)


@pytest.mark.parametrize("audience", AUDIENCES)
@pytest.mark.parametrize("seed", range(3))
def test_everything_is_on_the_screen_and_nothing_is_cut_off(seed: int, audience: Audience) -> None:
    rng = random.Random(seed)
    for _, table in tables(seed, audience, 0.2):
        selection = Selection(rng.choice(table.hand)) if table.hand else NOTHING
        any_size = rng.randint(80, 200), rng.randint(24, 60)
        for (width, height), theme in zip(
            (*SIZES, any_size), (Theme(), Theme(ascii=True), Theme()), strict=True
        ):
            canvas = draw(scene(table, selection), width, height, theme)
            text = canvas.text()
            rows = [canvas.row(y) for y in range(height)]
            assert all(sum(width_of(part.text) for part in row) == width for row in rows)
            assert {part.style for row in rows for part in row} <= COLOURED.keys()
            assert theme.glyphs.ellipsis not in text
            assert theme.ascii is False or text.isascii()
            clickable = [target for _, _, target in canvas.targets()]
            assert {target.tile for target in clickable if target.tile} == set(table.hand)
            if table.placements:
                assert {target.end for target in clickable if target.end} == {each.end for each in table.ends}
                assert f"= {table.count}" in text
            for seat in SEATS:
                points = table.balances[seat]
                assert f"{points} points {points // 5:>2} chips" in text
                assert f"{table.tiles[seat]} tile" in text
            assert f"boneyard {table.boneyard}" in text


@pytest.mark.parametrize("audience", AUDIENCES)
def test_a_hidden_tile_is_nowhere_on_the_screen(audience: Audience) -> None:
    """Rule 2.4: of the other hand and the boneyard nothing is drawn, and none of it can be clicked."""
    seat = AUDIENCES[audience]
    for story, table in tables(7, audience, 0.2):
        layout = {placed.tile for placed in table.placements}
        hand = set(tiles_of(story.state.hand(seat))) if seat and table.round_no else set()
        for size in SIZES:
            canvas = draw(scene(table), *size)
            shown = {Tile.of(int(low), int(high)) for low, high in _TILE.findall(canvas.text())}
            shown |= {target.tile for _, _, target in canvas.targets() if target.tile}
            assert shown <= layout | hand


def layouts(seed: int) -> Iterator[State]:
    """Positions of random matches with something on the table."""
    rng = random.Random(seed)
    for state, _ in steps(start(rng), rng):
        if state.layout.placements:
            yield state


@pytest.mark.parametrize("size", [(80, 9), (80, 12), (104, 30)])
def test_each_end_has_its_letter_and_its_count_beside_it(size: tuple[int, int]) -> None:
    rng = random.Random(size[1])
    for state in layouts(5):
        if rng.random() > 0.03:
            continue
        shown = view(state, None)
        canvas = draw_layout(*size, shown.placements, shown.ends)
        places: dict[object, str] = {}
        for x, y, target in sorted(canvas.targets(), key=lambda cell: (cell[1], cell[0])):
            cell = "".join(part.text for part in canvas.row(y))[x]
            places[target.end] = places.get(target.end, "") + cell
        for number, each in enumerate(shown.ends):
            label = places[each.end]
            assert label[0] == "wxyz"[number]
            assert label[1:] in (f"={each.counts}", str(each.counts), ""), label


def table_with(phase: Phase, **fields: object) -> TableState:
    """A table in a phase, as north sees it, with some fields replaced."""
    for seed in range(20):
        for _, table in tables(seed, Audience.NORTH, 1.0):
            if table.prompt.phase is phase and table.asks_me:
                return replace(table, **fields)  # type: ignore[arg-type]
    raise AssertionError(f"no table in phase {phase}")


@pytest.mark.parametrize(
    ("jockey", "amount", "net"),
    [(SOUTH, 20, "you pay 20"), (NORTH, 20, "you pay 5 (15 off)"), (NORTH, 15, "you pay 0 (15 off)")],
)
def test_the_auction_shows_legal_amounts_and_the_net_price(jockey: object, amount: int, net: str) -> None:
    """Rule 5.5: the jockey pays its own winning bid less 15."""
    table = table_with(Phase.AUCTION, jockey=jockey, balances=BySeat(150, 150))
    table = replace(table, prompt=replace(table.prompt, legal=Legal(decline=True, bid=BidRange(15, 60))))
    canvas = draw(scene(table, Selection(amount=amount)), 80, 24)
    amounts = {target.amount for _, _, target in canvas.targets() if target.amount}
    assert amounts <= set(range(15, 65, 5))
    assert {15, 20, 25} <= amounts
    assert f"[{amount}]" in canvas.text()
    assert net in canvas.text()


def test_a_bid_of_everything_says_that_it_loses() -> None:
    """Rule 5.7."""
    table = table_with(Phase.AUCTION, jockey=SOUTH, balances=BySeat(45, 255))
    table = replace(table, prompt=replace(table.prompt, legal=Legal(decline=True, bid=BidRange(15, 45))))
    assert "ALL you have: you lose" in draw(scene(table, Selection(amount=45)), 80, 24).text()
    assert "you lose" not in draw(scene(table, Selection(amount=40)), 80, 24).text()


def test_the_chosen_tile_and_where_it_fits_are_marked_without_colours() -> None:
    table = next(
        table
        for _, table in tables(1, Audience.NORTH, 1.0)
        if table.placements and len({end for _, end in table.prompt.legal.plays}) > 1
    )
    tile, end = table.prompt.legal.plays[0]
    assert end is not None
    letter = "WXYZ"[[each.end for each in table.ends].index(end)]
    for theme, up in ((Theme(colours=False), "↑"), (Theme(colours=False, ascii=True), "^")):
        text = draw(scene(table, Selection(tile, end)), 80, 24, theme).text()
        assert f"{up}{table.hand.index(tile) + 1}{up}" in text
        assert f">{letter}" in text
        assert not any(theme.style(name).color or theme.style(name).bgcolor for name in COLOURED)


def test_a_long_hand_takes_more_rows_and_leaves_the_rest() -> None:
    table = table_with(Phase.PLAYING)
    hand = tuple(sorted({*table.hand, *DOUBLE_SIX[:21]}))[:21]
    canvas = draw(scene(replace(table, hand=hand)), 80, 24)
    assert {target.tile for _, _, target in canvas.targets() if target.tile} == set(hand)
    text = canvas.text()
    assert all(f"[{tile}]" in text for tile in hand)
    assert all(re.search(rf" [↑]?{number}\b", text) for number in range(1, 22))


def test_both_hands_are_shown_where_a_record_gives_them() -> None:
    table = table_with(Phase.PLAYING, seat=None, hand=())
    hands: BySeat[tuple[Tile, ...] | None] = BySeat((Tile.parse("0|1"),), (Tile.parse("5|6"),))
    text = draw(replace(scene(table), hands=hands), 80, 24).text()
    assert text.index("[0|1]") < text.index("[5|6]")


def test_a_small_screen_says_that_it_is_too_small() -> None:
    table = table_with(Phase.PLAYING)
    for size in ((79, 24), (80, 23), (20, 5), (1, 1)):
        top = draw(scene(table), *size).text().split("\n")[0]
        assert top == "Too small: 80x24 is needed"[: size[0]].rstrip()


def test_the_clocks_are_unknown_while_nothing_is_heard() -> None:
    table = table_with(Phase.PLAYING)
    text = Desk(table).draw(80, 24, 0.0, Theme(), banner="Connection lost", stale=True).text()
    assert "Connection lost" in text
    assert text.count("bank ?") == 2


def test_a_canvas_never_cuts_a_wide_character() -> None:
    canvas = Canvas(5, 1)
    assert canvas.put(0, 0, "東京の") == 6
    assert canvas.text() == "東京"
    assert sum(width_of(part.text) for part in canvas.row(0)) == 5
    assert clipped("東京の夜", 5) == "東京~"
    assert wrapped("東京の夜 ab", 4) == ["東京", "の夜", "ab"]
