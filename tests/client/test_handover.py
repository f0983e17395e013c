"""What is on the screen of a shared device: a hand only in its own turn, after its owner has pressed Reveal here."""

from __future__ import annotations

import random

import pytest

from client.handover import NAME_MAX, Device, Stage, names_of, public
from client.hotseat import options
from client.table import TableState
from client.wire import table_from_pb
from engine.command import Reveal
from engine.seats import NORTH, SEATS, SOUTH
from engine.tiles import TileSet, tile_set
from services.game.story import Audience, Story
from tests.client.tables import carry_out, new_story, news, told
from tests.hidden import tiles_in
from tests.told import snapshot_of

NAMES = names_of("Ada", "Ben")


def tiles_on(table: TableState) -> TileSet:
    """Every tile a drawing of this table could show, but for those that are laid."""
    return tile_set(table.hand) | tile_set(tile for tile, _ in table.prompt.legal.plays)


@pytest.mark.parametrize("seed", range(4))
def test_no_hand_may_be_drawn_but_that_of_the_seat_whose_turn_it_is(seed: int) -> None:
    """Rule 7.4, over whole random matches: before each Reveal and after each turn what may be drawn holds no tile of either
    hand, in the turn those of its own seat, and what is told of the turn never names one."""
    rng = random.Random(seed)
    story = new_story(same_device=True)
    device, table, stages = Device(NAMES), told(None, news(story, Audience.DEVICE, 0)), set[Stage]()
    for _ in range(250):
        device = device.told(table)
        shown, stage, state = device.shown, device.stage, story.state
        stages.add(stage)
        assert shown is not None
        if stage is not Stage.TURN:
            assert tiles_on(shown) == 0
            assert shown.seat is None
        if stage is Stage.OVER:
            break
        if stage is Stage.TURN:
            assert state.to_act is device.holder is shown.seat
            assert state.to_act is not None
            assert tile_set(shown.hand) == state.hand(state.to_act)
            chosen = [rng.choice([command for _, command in options(shown, state.to_act)])]
        else:
            chosen = list(device.commands)
            if stage is Stage.HAND_OVER:
                assert chosen == [Reveal(device.holder or NORTH)]
                device = device.reveal()
                again = device.shown
                assert again is not None
                assert tiles_on(again) == 0, "pressed, but the service has not answered"
        for command in chosen:
            assert carry_out(story, command, rng) is None
        message = news(story, Audience.DEVICE, table.sequence)
        table = told(table, message)
        laid = tile_set(placed.tile for placed in story.state.layout.placements)
        for event in message.events:
            assert not tiles_in(public(event)) & ~laid
    assert stages >= {Stage.START, Stage.HAND_OVER, Stage.TURN, Stage.CONTINUE}


def in_a_turn() -> tuple[Story, TableState]:
    rng = random.Random(1)
    story = new_story(same_device=True)
    for command in Device(NAMES).told(told(None, news(story, Audience.DEVICE, 0))).commands:
        carry_out(story, command, rng)
    assert story.state.awaiting_reveal is not None
    carry_out(story, Reveal(story.state.awaiting_reveal), rng)
    return story, table_from_pb(snapshot_of(story, Audience.DEVICE), 0.0)


def test_a_program_that_comes_back_in_the_middle_of_a_turn_asks_who_is_looking() -> None:
    """The service shows the hand of a turn that is open; the program does not before its owner has pressed. Nothing needs
    to be sent: the clock runs already."""
    story, table = in_a_turn()
    device = Device(NAMES).told(table)
    assert device.stage is Stage.HAND_OVER
    assert device.holder is story.state.to_act
    assert device.commands == ()
    shown = device.shown
    assert shown is not None
    assert tiles_on(shown) == 0
    device = device.reveal()
    assert device.stage is Stage.TURN
    shown = device.shown
    assert shown is not None
    assert len(shown.hand) == 7


def test_both_press_start_with_one_key_unless_one_has() -> None:
    story = new_story(same_device=True)
    table = told(None, news(story, Audience.DEVICE, 0))
    commands = Device(NAMES).told(table).commands
    assert [command.seat for command in commands] == list(SEATS)
    carry_out(story, commands[0], random.Random(1))
    table = told(table, news(story, Audience.DEVICE, table.sequence))
    assert [command.seat for command in Device(NAMES).told(table).commands] == [SOUTH]


def test_the_two_at_the_table_can_be_told_apart() -> None:
    assert names_of("Ada", " Ben  the  Second ").south == "Ben the Second"
    assert list(names_of("", "")) == ["North", "South"]
    assert len(set(names_of("ada", "Ada"))) == 2
    long = names_of("x" * 99, "X" * 99)
    assert len(set(long)) == 2
    assert all(len(name) <= NAME_MAX for name in long)
    _, table = in_a_turn()
    shown = Device(NAMES).told(table).shown
    assert shown is not None
    assert (shown.players.north.name, shown.players.south.name) == ("Ada", "Ben")
