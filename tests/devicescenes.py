"""Scripted positions of a shared device, of a record and of the start menu, for pictures of the screens."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

from client.handover import Device, Stage, names_of
from client.hotseat import options
from client.match import News
from client.positions import read
from client.terminal.menu import Menu, draw_menu
from client.terminal.reading import Reader, draw_reader
from client.terminal.sharedtable import SharedTable, draw_shared, heard
from services.game.story import Audience
from tests.client.recorded import HEADER, a_match
from tests.client.tables import carry_out, new_story, news, told

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from client.terminal.canvas import Canvas
    from client.terminal.theme import Theme
    from services.game.story import Story

_SEED = 12
_TURNS = 22


def match_and_table(turns: int = _TURNS) -> tuple[Story, SharedTable]:
    """A shared device that must be handed over after so many turns of a random match."""
    rng = random.Random(_SEED)
    match = new_story(same_device=True)
    table = told(None, news(match, Audience.DEVICE, 0))
    shared = SharedTable(Device(names_of("Ada", "Ben"))).told(table, ())
    played = 0
    while played < turns or shared.device.stage is not Stage.HAND_OVER:
        device = shared.device
        shown, holder = device.shown, device.holder
        assert shown is not None
        if device.stage is Stage.TURN and holder is not None:
            commands = [rng.choice(options(shown, holder))[1]]
            played += 1
        else:
            pressing = shared.press("enter")
            shared, commands = pressing.after, list(pressing.commands)
        for command in commands:
            assert carry_out(match, command, rng) is None
        message = news(match, Audience.DEVICE, table.sequence)
        table = told(table, message)
        lines = heard(shared.device, News(table, tuple(message.events), snapshot=False))
        shared = shared.told(table, lines)
    return match, shared


def reader() -> Reader:
    """In the second round of a recorded match, where its layout is longest."""
    match = a_match(1)
    header = json.loads(match.lines[0]) | HEADER | {"names": {"north": "Nora", "south": "Sol"}}
    study = read("\n".join((json.dumps(header), *match.lines[1:])).encode())
    longest = max(range(len(study.positions)), key=lambda at: len(study.positions[at].table.placements))
    return Reader(study).at(longest)


def scenes() -> Mapping[str, Callable[[int, int, Theme], Canvas]]:
    """Each screen by its name."""
    (_, shared), record = match_and_table(), reader()
    return {
        "hand-over": lambda width, height, theme: draw_shared(shared, width, height, 0.0, theme),
        "record": lambda width, height, theme: draw_reader(record, width, height, theme),
        "menu": lambda width, height, theme: draw_menu(Menu(), width, height, theme),
    }
