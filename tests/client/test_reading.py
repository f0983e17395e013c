"""Stepping through a record on the screen: keys, what is shown, and the real screen driven by keys."""

from __future__ import annotations

import re

import pytest

from client.terminal.app import record_app
from client.terminal.reading import Reader, draw_reader
from client.terminal.recordscreen import RecordScreen
from client.terminal.settings import Settings
from engine.seats import NORTH, SEATS, SOUTH
from engine.tiles import Tile
from tests.client.recorded import a_match

LYING = re.compile(r"([0-6])\|([0-6])")


def pressed(reader: Reader, *keys: str) -> Reader:
    for key in keys:
        after = reader.press(key)
        assert after is not None, f"{key} means something"
        reader = after
    return reader


def hands_on(text: str) -> set[str]:
    """The tiles of the hand rows of a small screen."""
    return {
        f"{low}|{high}"
        for line in text.splitlines()
        if re.match(r"  \[\d\|\d\]", line)
        for low, high in LYING.findall(line)
    }


@pytest.fixture
def reader() -> Reader:
    return Reader(a_match(1).study)


def test_steps_stay_within_the_record(reader: Reader) -> None:
    last = len(reader.study.positions) - 1
    assert pressed(reader, "left").place == 0
    assert pressed(reader, "right", "right", "left").place == 1
    assert pressed(reader, "end", "right").place == last
    assert pressed(reader, "end", "home").place == 0


def test_rounds_are_jumped_to_by_key_and_by_number(reader: Reader) -> None:
    rounds = reader.study.rounds
    assert pressed(reader, "pagedown").place == rounds[0]
    assert pressed(reader, "pagedown", "pagedown", "right", "pageup").place == rounds[1]
    assert pressed(reader, "2").place == rounds[1]
    assert reader.press("9") is None, "there are not that many"
    assert pressed(reader, *["pagedown"] * 9).place == len(reader.study.positions) - 1


def test_it_plays_by_itself_to_the_end_and_any_step_stops_it(reader: Reader) -> None:
    playing = pressed(reader, "end", "left", "left", "space")
    assert playing.playing
    after = playing.ticked()
    assert (after.place, after.playing) == (playing.place + 1, True)
    assert not after.ticked().playing
    assert not pressed(playing, "right").playing
    assert pressed(playing, "plus").seconds < playing.seconds < pressed(playing, "minus").seconds
    assert pressed(reader, "end", "space").place == 0, "at the end it begins anew"


def test_both_hands_one_or_none_are_shown(reader: Reader) -> None:
    reader = pressed(reader, "1", *["right"] * 9)
    hands = {seat: {tile.text for tile in reader.position.hands[seat]} for seat in SEATS}
    for shown in (SEATS, (SOUTH,), (NORTH,), ()):
        assert reader.shown == shown
        assert hands_on(draw_reader(reader, 80, 24).text()) == set().union(*(hands[seat] for seat in shown))
        reader = pressed(reader, "h")
    assert reader.shown == SEATS


@pytest.mark.parametrize("size", [(80, 24), (140, 45)])
def test_every_position_is_drawn_whole(size: tuple[int, int], reader: Reader) -> None:
    """The words of the line, its place, points, count and what a turn cost are on the screen at each step."""
    for place, position in enumerate(reader.study.positions):
        text = draw_reader(reader.at(place), *size).text()
        seen = " ".join(text.split())
        assert f"line {position.line} of {reader.study.positions[-1].line}" in seen
        if size == (80, 24):
            assert all(" ".join(words.split()) in seen for words in position.told)
        assert f"{position.table.balances.north} points" in seen
        assert f"= {position.table.count} " in seen or not position.table.placements
        assert "q:leave" in seen
        if position.spent is not None:
            assert f"{position.spent.seat} took" in seen


def test_what_a_hidden_hand_drew_is_not_named(reader: Reader) -> None:
    drawn = [
        (place, position.drawn)
        for place, position in enumerate(reader.study.positions)
        if isinstance(position.drawn, Tile)
    ]
    assert drawn
    for place, tile in drawn:
        open_, closed = reader.at(place), pressed(reader.at(place), "h", "h", "h")
        assert f"[{tile}]" in draw_reader(open_, 140, 45).text()
        assert f"draws [{tile}]" not in draw_reader(closed, 140, 45).text()


async def test_the_screen_follows_keys_clicks_and_the_wheel() -> None:
    study = a_match(1).study
    app = record_app(study, Settings())
    async with app.run_test(size=(80, 24)) as pilot:
        screen = app.screen
        assert isinstance(screen, RecordScreen)
        await pilot.press("right", "pagedown", "right")
        assert screen.reader.place == study.rounds[0] + 1
        await pilot.press("h")
        assert screen.reader.shown == (SOUTH,)
        canvas = draw_reader(screen.reader, 80, 24)
        forward = next((x, y) for x, y, target in canvas.targets() if target.key == "right")
        await pilot.click(offset=forward)
        assert screen.reader.place == study.rounds[0] + 2
        await pilot.press("space")
        assert screen.reader.playing
        await pilot.press("space", "q")
    assert app.return_code == 0
