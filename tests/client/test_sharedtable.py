"""The screen of a shared device: what keys do at each stage, and that nothing hidden is drawn at any size."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest
from rich.cells import cell_len

from client.handover import Stage
from client.terminal.canvas import Target
from client.terminal.sharedtable import SharedTable, draw_shared
from client.wire import table_from_pb
from engine.command import Resign, Reveal
from engine.seats import SEATS, BySeat, Seat
from services.game.story import Audience, Story
from tests.client.tables import carry_out
from tests.devicescenes import match_and_table
from tests.told import snapshot_of

TILE = re.compile(r"\[([0-6]\|[0-6])\]|│ ([0-6]) │ ([0-6]) │")


@pytest.fixture
def scene() -> tuple[Story, SharedTable]:
    return match_and_table()


def in_the_turn(scene: tuple[Story, SharedTable]) -> tuple[SharedTable, Seat]:
    """The same device after Reveal, as the service tells it then."""
    story, shared = scene
    pressing = shared.press("r")
    (command,) = pressing.commands
    assert isinstance(command, Reveal)
    if story.state.to_act is None:
        assert carry_out(story, command, random.Random(1)) is None
    table = table_from_pb(snapshot_of(story, Audience.DEVICE), 0.0)
    return replace(pressing.after, device=pressing.after.device.told(table)), command.seat


def test_only_reveal_or_leaving_is_possible_while_the_device_is_handed_over(
    scene: tuple[Story, SharedTable],
) -> None:
    _, shared = scene
    assert shared.device.stage is Stage.HAND_OVER
    for key in ("1", "left", "tab", "a", "p", "space", "y"):
        pressing = shared.press(key)
        assert (pressing.after, pressing.commands, pressing.leaves) == (shared, (), False)
    for key in ("r", "R", "enter"):
        assert shared.press(key).commands == (Reveal(shared.device.holder or Seat.NORTH),)
    assert shared.click(Target(key="enter")).commands == shared.press("enter").commands


@pytest.mark.parametrize("size", [(80, 24), (140, 45)])
def test_the_hand_over_screen_says_whose_turn_it_is_and_shows_no_hand(
    size: tuple[int, int], scene: tuple[Story, SharedTable]
) -> None:
    story, shared = scene
    assert story.state.to_act is None
    text = draw_shared(shared, *size, 0.0).text()
    name = shared.device.names[shared.device.holder or Seat.NORTH]
    assert f"PASS THE DEVICE TO {name.upper()}" in text
    assert "clocks stand still" in text
    hidden = {tile.text for seat in SEATS for tile in story.state.hands[seat]}
    found = {one or f"{low}|{high}" for one, low, high in TILE.findall(text)}
    assert not found & hidden


@pytest.mark.parametrize("size", [(80, 24), (140, 45)])
def test_in_a_turn_the_holder_sees_the_own_hand_and_not_the_other(
    size: tuple[int, int], scene: tuple[Story, SharedTable]
) -> None:
    story, _ = scene
    shared, holder = in_the_turn(scene)
    assert shared.device.stage is Stage.TURN
    text = draw_shared(shared, *size, 0.0).text()
    found = {one or f"{low}|{high}" for one, low, high in TILE.findall(text)}
    assert {tile.text for tile in story.state.hands[holder]} <= found
    assert not {tile.text for tile in story.state.hands[holder.opponent]} & found


@pytest.mark.parametrize(
    "name",
    [
        "Maximilian-Georg",
        "\u30b9\u30da\u30af\u30bf\u30ad\u30e5\u30e9\u30fc\u30d3\u30c3\u30c9\u30b9\u30bf\u30fc\u30a2\u30a2",
    ],
)
def test_what_is_asked_fits_the_screen_for_the_longest_names(
    name: str, scene: tuple[Story, SharedTable]
) -> None:
    shared = replace(scene[1], device=replace(scene[1].device, names=BySeat(name, name)))
    for asked in (shared, shared.press("q").after):
        assert all(cell_len(line) <= 80 for line in asked.band())


def test_leaving_and_resigning_are_asked_for_once_more(scene: tuple[Story, SharedTable]) -> None:
    shared, holder = in_the_turn(scene)
    asked = shared.press("q").after
    assert "Y resigns" in draw_shared(asked, 80, 24, 0.0).text()
    assert asked.press("l").leaves
    assert asked.press("y").commands == (Resign(holder),)
    # Whoever reveals with R and presses it too often must not resign by it.
    again = shared.press("R").after.press("R")
    assert (again.after.leaving, again.commands, again.leaves) == (False, (), False)
