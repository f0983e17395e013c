"""Two people at the real client in one terminal: a whole match, every screen and every message looked at (rules 6.5, 7.4)."""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from client import Identity, identities
from engine.deal import Deal
from engine.event import Revealed
from engine.outcome import Cause
from engine.seats import SEATS, BySeat, Seat
from engine.tiles import DOUBLE_SIX, Tile, TileSet, tile_set, tiles_of
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import table_pb2
from tests.faultyfront import Front, front_door
from tests.hidden import tiles_in
from tests.pseudoterminal import Terminal, in_a_terminal
from tests.seats import new_id, scripted
from tests.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="session")

NAMES: Final = BySeat("Ada", "Ben")
BALANCES: Final = BySeat(30, 270)
"""With the deals below it takes two rounds, an auction among them, draws, and ends on points."""
_SEED: Final = 59
_OVER: Final = "Ben (south) wins"
_HAND_ROW: Final = re.compile(r"^ *(?:Your tiles: )?(?:\[\d\|\d\] ?)+$")
_TILE: Final = re.compile(r"\[(\d)\|(\d)\]")


def deals() -> list[Deal]:
    rng = random.Random(_SEED)
    return [Deal.from_shuffle(rng.sample(DOUBLE_SIX, 28)) for _ in range(4)]


def tiles_on(rows: Sequence[str]) -> TileSet:
    return tile_set(Tile.of(int(low), int(high)) for row in rows for low, high in _TILE.findall(row))


@dataclass
class Witness:
    """Sees every message on its way to the device, and every screen, and knows who has pressed Reveal."""

    front: Front
    names: BySeat[str] = NAMES
    looking: Seat | None = None
    """Who has pressed Reveal in this program, until the device is to be handed over again."""
    turn: Seat | None = None
    """Who has pressed Reveal in this turn, in whatever program."""
    news: list[pb.WatchResponse] = field(default_factory=list)
    laid: TileSet = 0
    """Every tile that was laid in this match."""
    hands: dict[Seat, TileSet] = field(default_factory=lambda: dict.fromkeys(SEATS, 0))
    """Every tile that each seat was shown in this round."""
    methods: set[str] = field(default_factory=set)
    leaks: list[str] = field(default_factory=list)
    """Hidden tiles in messages; they fail the next look at the screen."""
    screens: int = 0
    hands_seen: int = 0
    reveals: int = 0

    def message(self, method: str, raw: bytes) -> Sequence[bytes]:
        """One message: it may hold no tile that is not laid, but those of the seat that looks."""
        name = method.rpartition("/")[2]
        self.methods.add(name)
        if name == "ListMyMatches":
            page = pb.ListMyMatchesResponse.FromString(raw)
            for match in page.matches:
                match.address = self.front.address
            return [page.SerializeToString()]
        if name == "Play":
            news = pb.PlayResponse.FromString(raw).news
            self.news.append(news)
            for event in news.events:
                if event.HasField("hand_dealt"):
                    self.hands = dict.fromkeys(SEATS, 0)
                if event.HasField("tile_placed"):
                    self.laid |= tiles_in(event.tile_placed.placement)
                self._hand(tiles_in(event))
            self._hand(tiles_in(news.snapshot) | tiles_in(news.prompt))
        return [raw]

    def _hand(self, tiles: TileSet) -> None:
        hidden = tiles & ~self.laid
        if self.turn is not None:
            self.hands[self.turn] |= tiles
        elif hidden:
            self.leaks.append(f"{tiles_of(hidden)} came before anybody pressed Reveal")

    def screen(self, text: str) -> None:
        """One screen: a hand stands on it only while its owner looks."""
        self.screens += 1
        assert not self.leaks
        rows = text.splitlines()
        hand = tiles_on([row for row in rows if _HAND_ROW.match(row)])
        own = 0 if self.looking is None else self.hands[self.looking]
        assert not hand & ~own, f"{tiles_of(hand & ~own)} on the screen while {self.looking} looks:\n{text}"
        others = tiles_on(rows) & ~(self.laid | own)
        assert not others, f"{tiles_of(others)} on the screen while {self.looking} looks:\n{text}"
        self.hands_seen += bool(hand)

    def handed_over(self) -> None:
        """The screen asks for the other player: nobody may look."""
        self.looking = self.turn = None

    def revealed(self, text: str) -> None:
        """Reveal is about to be pressed by whoever the screen asks for."""
        asked = [
            seat
            for seat in SEATS
            if f"{self.names[seat].upper()}" in text and "THE DEVICE TO" in text.upper()
        ]
        (seat,) = asked
        self.reveals += self.turn is None
        self.looking = self.turn = seat


@pytest_asyncio.fixture(loop_scope="session")
async def witness(shared: Stack) -> AsyncIterator[Witness]:
    async with front_door(shared.address("matchmaking"), shared.address("game")) as front:
        made = Witness(front)
        front.fault = made.message
        yield made


async def table_for(shared: Stack, witness: Witness, folder: Path) -> tuple[str, list[str]]:
    """A small match of a new player on one device, and how the client is called to go on with it."""
    (player,) = await shared.players(1)
    created = await shared.matches().CreateMatch(
        pb.CreateMatchRequest(
            request_id=new_id(),
            same_device=True,
            deals=scripted(*deals()),
            balances=table_pb2.Balances(north=BALANCES.north, south=BALANCES.south),
        ),
        metadata=player.metadata,
    )
    state = folder / "identities.json"
    identity = Identity(player.player_id, player.player_id, player.token, 2**40)
    identities.write(state, witness.front.address, identity)
    address = witness.front.address
    command = ["client", "table", "--north", NAMES.north, "--south", NAMES.south, "--state", str(state)]
    return created.match_id, [*command, "--server", address, "--game", address]


def question_of(text: str) -> tuple[str, ...]:
    """What a drawn screen asks; a draw changes the boneyard alone."""
    rows = text.splitlines()
    return (*rows[19:21], *re.findall(r"boneyard (\d+)", text))


def drawn_answer(text: str) -> str:
    """The key that answers a drawn screen, one step at a time."""
    question, buttons, *_ = question_of(text)
    if "PASS THE DEVICE" in question:
        return "r"
    if "choose a tile" in question or "choose any tile" in question:
        return "right"
    if "choose an end" in question:
        return "tab"
    if "Auction" in question and "you pay" not in buttons:
        return "a" if "Accept" in buttons else "right" if "Bid" in buttons else "d"
    return "enter"


def page_of(text: str) -> str:
    """A page that asks for a line; empty while it is being drawn."""
    return text if text.rstrip().endswith("\n>") or _OVER in text else ""


def typed_answer(text: str) -> list[str]:
    """The line that answers a page: the smallest tile, or the least bid where one can be made."""
    asks_to_press = ("Pass the device", "Both ready", "The round is over")
    if any(words in text for words in asks_to_press):
        return ["enter"]
    choices = re.findall(r"^ +(\d+)  (.*)$", text, re.MULTILINE)
    tiles = [(tiles_on([words]), number) for number, words in choices if words.startswith("play")]
    if tiles:
        return [min(tiles, key=lambda pair: pair[0])[1], "enter"]
    bids = [number for number, words in choices if words.startswith("bid")]
    accepts = any(words.startswith("accept") for _, words in choices)
    return [bids[0] if bids and not accepts else "1", "enter"]


async def play_on(terminal: Terminal, witness: Witness, *, plain: bool, reveals_max: int = 1000) -> str:
    """Answer every question to the end of the match, or into the turn after so many reveals; the last screen."""
    text = await terminal.until(lambda text: "both ready" in text.lower() or "THE DEVICE TO" in text.upper())
    while _OVER not in text:
        if "THE DEVICE TO" in text.upper():
            witness.revealed(text)
        elif witness.reveals >= reveals_max:
            return text
        asked: object = page_of(text) if plain else question_of(text)
        terminal.press(*(typed_answer(text) if plain else [drawn_answer(text)]))
        if plain:
            text = await terminal.until(lambda text: page_of(text) not in ("", asked))  # noqa: B023
        else:
            text = await terminal.until(lambda text: question_of(text) != asked)  # noqa: B023
        if any(words in text.upper() for words in ("THE DEVICE TO", "ROUND IS OVER", _OVER.upper())):
            witness.handed_over()
    witness.screen(text)
    return text


async def check(shared: Stack, match_id: str, witness: Witness) -> None:
    """The match ended as it was played, and what came to the device was right by the true course of the match."""
    outcome = await shared.outcome(match_id)
    assert outcome is not None
    assert outcome["cause"] == Cause.BALANCE
    assert witness.methods == {"GetProfile", "ListMyMatches", "Play"}
    truth = await shared.truth(match_id)
    assert truth.leaks_on_device(witness.news) == []
    revealed = sum(isinstance(event, Revealed) for event in truth.events)
    assert revealed == witness.reveals > 10
    assert witness.hands_seen >= revealed
    assert witness.screens > 2 * revealed


async def test_a_whole_match_at_one_device_shows_no_hand_out_of_turn(
    shared: Stack, witness: Witness, tmp_path: Path
) -> None:
    """No tile of a hand is on any screen, or in any message, before its owner has pressed Reveal in that very turn; a
    program that ends in the middle of a turn and comes back covers its hand until its owner has pressed again."""
    match_id, command = await table_for(shared, witness, tmp_path)
    async with in_a_terminal(*command) as terminal:
        terminal.looks.append(witness.screen)
        text = await play_on(terminal, witness, plain=False, reveals_max=4)
        assert "You (" in text
        terminal.press("q", "l")
        assert await terminal.exit_status() == 0
        assert "`table` goes on with it" in terminal.text
    witness.looking = None
    async with in_a_terminal(*command) as terminal:
        terminal.looks.append(witness.screen)
        assert "The clock runs already" in await terminal.shows("PASS THE DEVICE")
        await play_on(terminal, witness, plain=False)
        terminal.press("q")
        assert await terminal.exit_status() == 0
        assert "Ben (south) wins: Ada has no points left." in terminal.text
    await check(shared, match_id, witness)
    async with in_a_terminal("client", "record", match_id, *command[-6:]) as terminal:
        text = await terminal.shows("line 1 of")
        assert "sound record" in text
        assert "same device" in text
        terminal.press("q")
        assert await terminal.exit_status() == 0


async def test_the_same_in_plain_text(shared: Stack, witness: Witness, tmp_path: Path) -> None:
    """Pages are wiped before the next one, and neither leaving nor the end leaves a tile behind."""
    match_id, command = await table_for(shared, witness, tmp_path)
    async with in_a_terminal(*command, "--plain") as terminal:
        terminal.looks.append(witness.screen)
        await play_on(terminal, witness, plain=True, reveals_max=4)
        terminal.press("q", "enter")
        left = await terminal.shows("Leave?")
        assert not tiles_on(left.splitlines())
        terminal.press("l", "enter")
        assert await terminal.exit_status() == 0
        assert not tiles_on(terminal.text.splitlines())
    witness.looking = None
    async with in_a_terminal(*command, "--plain") as terminal:
        terminal.looks.append(witness.screen)
        await play_on(terminal, witness, plain=True)
        assert await terminal.exit_status() == 0
        assert not tiles_on(terminal.text.splitlines())
    await check(shared, match_id, witness)
