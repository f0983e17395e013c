"""A person at the real client in a terminal: whole matches against a house bot, by the keys alone."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from client import Client, Identity, identities
from client.bots.house import House
from client.bots.levels import LEVELS
from client.bots.sitting import Thinker
from engine.deal import Deal
from engine.event import RoundDealt, TileDrawn
from engine.outcome import Cause
from engine.seats import NORTH
from engine.tiles import DOUBLE_SIX, Tile
from services.common.auth import house_bot_id
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import table_pb2
from tests.proxy import Proxy, Way
from tests.pseudoterminal import Terminal, in_a_terminal
from tests.seats import new_id, scripted
from tests.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="session")

_SEED: Final = 11
_BOT: Final = "greedy"
_HAND_ROW: Final = re.compile(r"^ *(?:\[\d\|\d\] ?)+$")
_TILE: Final = re.compile(r"\[(\d)\|(\d)\]")
_ROUND: Final = re.compile(r"  round (\d+)  ")


@pytest_asyncio.fixture(loop_scope="session")
async def bot(shared: Stack) -> AsyncIterator[None]:
    """A house bot that plays whoever asks."""
    token = shared.token(house_bot_id(_BOT), bot=True)
    async with (
        Client(shared.address("matchmaking"), token, game_address=shared.address("game")) as client,
        Thinker() as thinker,
    ):
        running = asyncio.create_task(House(client, LEVELS[_BOT], thinker, lambda _: None).run())
        yield
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def seated(shared: Stack, folder: Path, server: str = "", game: str = "") -> tuple[str, list[str]]:
    """A player with a small match against the bot that begins with an auction, and how the client is called."""
    (player,) = await shared.players(1)
    rng = random.Random(_SEED)
    created = await shared.matches().CreateMatch(
        pb.CreateMatchRequest(
            request_id=new_id(),
            house_bot=_BOT,
            deals=scripted(*(Deal.from_shuffle(rng.sample(DOUBLE_SIX, 28)) for _ in range(4))),
            balances=table_pb2.Balances(north=45, south=255),
            jockey=table_pb2.SEAT_SOUTH,
        ),
        metadata=player.metadata,
    )
    state = folder / "identities.json"
    address = server or shared.address("matchmaking")
    identities.write(state, address, Identity(player.player_id, player.player_id, player.token, 2**40))
    game = game or shared.address("game")
    return created.match_id, ["--server", address, "--game", game, "--state", str(state)]


@dataclass
class Sight:
    """What the screens have shown: the tiles of the own hand, by round."""

    tiles: dict[int, set[Tile]] = field(default_factory=dict)
    screens: int = 0

    def look(self, text: str) -> None:
        """One screen."""
        self.screens += 1
        found = _ROUND.search(text.split("\n", 1)[0])
        if found is None:
            return
        for row in text.split("\n"):
            if _HAND_ROW.match(row):
                pairs = _TILE.findall(row)
                shown = {Tile.of(int(low), int(high)) for low, high in pairs}
                self.tiles.setdefault(int(found[1]), set()).update(shown)


def question(text: str) -> str:
    """The rows that ask; empty while nothing is asked."""
    rows = [row for row in text.split("\n") if row.startswith(("▶ ", "You won", "You lost"))]
    return "\n".join(row for row in rows if not row.startswith(("▶ North", "▶ South")))


def state_of(text: str) -> tuple[str, ...]:
    """What changes with every answer: the question, the buttons below it, the count and the boneyard, the chosen tile."""
    rows = text.split("\n")
    return (question(text), *rows[2:3], *rows[17:21])


def answer(text: str) -> str:
    """The key that answers, one step at a time."""
    asked = question(text)
    if "fits nowhere" in asked:
        return "right"
    if "choose an end" in asked:
        return "tab"
    if "Auction" in asked and "you pay" not in text:
        return "right" if "Bid " in text and "Accept" not in text else "a" if "Accept" in text else "d"
    return "enter"


def unfitting(text: str) -> str:
    """The number of a tile that is not marked as one that can be placed; empty when there is none."""
    rows = text.split("\n")
    numbers = next((rows[y + 1] for y, row in enumerate(rows[:-1]) if _HAND_ROW.match(row)), "")
    return next(iter(re.findall(r"(\d)(?!\*)(?:\s|$)", numbers)), "")


async def be_refused(terminal: Terminal) -> None:
    """Try to place a tile that fits nowhere: the service says why, by which rule, and nothing has changed."""
    before = terminal.text.split("\n")
    terminal.press(unfitting(terminal.text))
    await terminal.shows("fits nowhere")
    terminal.press("enter")
    text = await terminal.shows("Refused: the tile does not show the value of that end (rule 3.1).")
    after = text.split("\n")
    assert (after[1][:60], after[2:17]) == (before[1][:60], before[2:17])


async def play_on(terminal: Terminal) -> str:
    """Answer every question to the end of the match, one of them wrongly at first; the last screen."""
    refused = False
    while True:
        text = await terminal.until(lambda text: question(text) != "")
        if "You won" in text or "You lost" in text:
            assert refused, "no hand had a tile that did not fit"
            return text
        if not refused and "choose a tile, then" in text and unfitting(text):
            refused = True
            await be_refused(terminal)
        before = state_of(text)
        terminal.press(answer(text))
        await terminal.until(lambda text: state_of(text) != before)  # noqa: B023


async def test_a_whole_match_against_a_house_bot_by_keys_alone(
    shared: Stack, bot: None, tmp_path: Path
) -> None:
    """Start, an auction, a refused tile with its reason, help, draws, the end: on 80 columns by 24 rows."""
    match_id, options = await seated(shared, tmp_path)
    sight = Sight()
    async with in_a_terminal("client", "play", *options) as terminal:
        terminal.looks.append(sight.look)
        await terminal.shows("Press Enter to start")
        terminal.press("?")
        await terminal.shows("This page stops no clock")
        terminal.press("x")
        await terminal.shows("Press Enter to start")
        terminal.press("enter")
        await terminal.shows("Auction. You are the challenger")
        terminal.press("right", "right", "enter")  # 20: five more than the least
        await terminal.until(lambda text: "choose any tile" in text or "or raise" in text)
        last = await play_on(terminal)
        terminal.press("q")
        assert await terminal.exit_status() == 0
    outcome = await shared.outcome(match_id)
    assert outcome is not None
    assert outcome["cause"] == Cause.BALANCE
    assert ("You won" in last) == (outcome["winner"] == NORTH)
    own: dict[int, set[Tile]] = {}
    number = 0
    for event in await shared.events(match_id):
        match event:
            case RoundDealt():
                number = event.round_no
                own[number] = set(event.deal.hand(NORTH))
            case TileDrawn(seat, tile) if seat is NORTH and tile is not None:
                own[number].add(tile)
    assert sight.tiles == own
    assert sight.screens > 20


def way_to(shared: Stack, name: str) -> Proxy:
    """A way to a process that can be cut."""
    host, port = shared.address(name).split(":")
    return Proxy(host, int(port))


async def test_a_lost_connection_is_said_and_comes_back_by_itself(
    shared: Stack, bot: None, tmp_path: Path
) -> None:
    """What the clocks show meanwhile is marked as unknown; what is pressed meanwhile arrives."""
    async with way_to(shared, "game") as game, way_to(shared, "matchmaking") as matchmaking:
        match_id, options = await seated(shared, tmp_path, matchmaking.address, game.address)
        async with in_a_terminal("client", "watch", match_id, *options) as terminal:
            await terminal.shows("Press Enter to start")
            for proxy in (matchmaking, game):
                proxy.hold(*Way)
                proxy.cut()
            await terminal.shows("Connection lost")
            assert terminal.text.count("bank ?") == 2
            terminal.press("enter")
            await terminal.shows("your move waits")
            for proxy in (matchmaking, game):
                proxy.release(*Way)
            await terminal.shows("Auction. You are the challenger")
            assert "Connection lost" not in terminal.text
            terminal.press("R")
            await terminal.shows("Resign?")
            terminal.press("y")
            await terminal.shows("You lost: you have resigned.")
