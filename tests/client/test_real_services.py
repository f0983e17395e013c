"""The client and its bots against the real services: whole matches, a house bot, a service that is killed and returns."""

from __future__ import annotations

import asyncio
import stat
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from client import CallError, Client, Identity, News, TableState, Transport, identities
from client.bots import greedy
from client.bots.exhibition import exhibition
from client.bots.house import House
from client.bots.levels import LEVELS
from client.bots.player import play
from client.bots.sitting import Thinker
from client.table import Player
from engine.command import Command
from engine.event import RoundDealt, TurnTimed
from engine.outcome import Cause
from engine.recordlines import read_record
from engine.seats import BySeat
from engine.verify import problems
from services.common.auth import house_bot_id
from tests.knownmatches import LONG, SHORT, deal_all
from tests.stack import Stack, stack, time_control

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def services(
    new_database: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Stack]:
    """One stack for all tests; no two of them use the same name."""
    async with stack(tmp_path_factory.mktemp("services"), await asyncio.to_thread(new_database)) as made:
        await deal_all(await made.database(), SHORT)
        yield made


@dataclass(frozen=True)
class Exhibition:
    """The only rated match of the stack."""

    one: Client
    ladder_before: str
    """As the command line shows it."""
    lines: list[str]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rated(services: Stack) -> Exhibition:
    """Played by the first test that asks for it."""
    one, other = await guest(services, "Amber"), await guest(services, "Basil")
    _, ladder, _ = await run_client(services, "ladder")
    lines: list[str] = []
    assert await exhibition(one, other, lines.append)
    return Exhibition(one, ladder, lines)


@dataclass(frozen=True)
class Pair:
    """Two players with an unrated match."""

    north: Client
    south: Client
    match_id: str


async def pair(services: Stack, **wanted: Any) -> Pair:
    players = BySeat(*await services.players(2))
    match_id = await services.create(players, **wanted)
    return Pair(await services.client(players.north), await services.client(players.south), match_id)


async def guest(services: Stack, name: str) -> Client:
    client = await Client.guest(services.address("matchmaking"), name, game_address=services.address("game"))
    return await services.exits.enter_async_context(client)


def checked(record: str) -> list[str]:
    return list(problems(read_record(record.encode())))


class Listener:
    """Everything one seat was told."""

    def __init__(self) -> None:
        self.sequences: list[int] = []
        self.snapshots = 0
        self._news = asyncio.Event()

    def __call__(self, news: News) -> None:
        self.snapshots += news.snapshot
        if news.snapshot:
            self.sequences = list(range(1, news.table.sequence + 1))
        self.sequences += [event.sequence for event in news.events]
        self._news.set()

    async def reached(self, sequence: int) -> None:
        """Wait until that many events have been told."""
        while len(self.sequences) < sequence:
            self._news.clear()
            await self._news.wait()


async def play_both(made: Pair, hear: Listener, transport: Transport = Transport.PLAY) -> TableState:
    """Two greedy bots, north on the given transport, south on Watch."""
    async with asyncio.TaskGroup() as group:
        group.create_task(play(made.south.play(made.match_id, transport=Transport.WATCH), greedy.choose))
        north = group.create_task(
            play(made.north.play(made.match_id, transport=transport), greedy.choose, hear)
        )
    return north.result()


async def test_two_bots_find_each_other_play_and_are_rated(rated: Exhibition) -> None:
    one = rated.one
    assert sum(" -> " in line for line in rated.lines) == 2
    standings = await one.leaderboard()
    assert [standing.rank for standing in standings] == [1, 2]
    assert {standing.player.name for standing in standings} == {"Amber", "Basil"}
    (finished,) = await one.history()
    assert checked(await one.record(finished.match_id)) == []


@pytest.mark.parametrize("transport", list(Transport))
async def test_a_whole_match_is_told_without_gap_and_the_last_table_is_the_true_one(
    services: Stack, transport: Transport
) -> None:
    made = await pair(services, **SHORT.wanted())
    hear = Listener()
    table = await play_both(made, hear, transport)
    assert hear.sequences == list(range(1, table.sequence + 1))
    true = await made.north.get_match(made.match_id)
    assert table.outcome is not None
    assert (table.outcome, table.balances, table.hand) == (true.outcome, true.balances, true.hand)


@asynccontextmanager
async def house_bot(services: Stack, name: str, thinker: Thinker) -> AsyncIterator[list[str]]:
    """A house bot that plays; what it reports."""
    token = services.token(house_bot_id(name), bot=True)
    reports: list[str] = []
    bot = Client(services.address("matchmaking"), token, game_address=services.address("game"))
    async with bot:
        running = asyncio.create_task(House(bot, LEVELS[name], thinker, reports.append).run())
        try:
            yield reports
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


@pytest.mark.long
async def test_house_bots_of_every_level_play_whoever_asks_several_at_once(services: Stack) -> None:
    """Each player one match, a bot any number; unrated, marked as bots, on the delay alone."""
    names = [*LEVELS, "strong"]
    async with AsyncExitStack() as exits:
        thinker = await exits.enter_async_context(Thinker(0.02))
        reports = [await exits.enter_async_context(house_bot(services, name, thinker)) for name in LEVELS]
        guests = [await guest(services, name) for name in ("Abe", "Bo", "Cy", "Di")]
        handles = [await client.challenge(house_bot=name) for client, name in zip(guests, names, strict=True)]
        tables = await asyncio.gather(
            *(
                play(client.play(handle), greedy.choose)
                for client, handle in zip(guests, handles, strict=True)
            )
        )
    assert all(table.outcome is not None and table.outcome.cause is Cause.BALANCE for table in tables)
    bots = [table.players.south for table in tables]
    assert bots == [Player(house_bot_id(name), name, bot=True) for name in names]
    assert [table.banks_ms.south for table in tables] == [120_000] * len(names)
    assert not any(table.rated for table in tables)
    assert not [line for told in reports for line in told if "without thinking" in line]


async def test_a_game_process_that_is_killed_and_returns_costs_no_event_and_no_move(services: Stack) -> None:
    """FC-28 and FC-30 with the real thing: what was committed is told, what was not is asked for again."""
    made = await pair(services, **LONG.wanted())
    hear = Listener()
    playing = asyncio.create_task(play_both(made, hear))
    for events in (40, 120):
        await hear.reached(events)
        services.processes["game"].kill()
        await services.start("game")
    table = await playing
    assert hear.sequences == list(range(1, table.sequence + 1))
    assert table.outcome is not None
    assert table.outcome.cause is Cause.BALANCE
    assert checked(await made.north.record(table.match_id)) == []


async def test_a_silent_player_loses_on_time_and_the_other_is_told(services: Stack) -> None:
    made = await pair(services, time_control=time_control(bank_ms=0, delay_ms=700))

    def only_start(table: TableState) -> Command | None:
        return greedy.choose(table) if table.prompt.legal.start else None

    async with asyncio.TaskGroup() as group:
        group.create_task(play(made.south.play(made.match_id), only_start))
        mine = group.create_task(play(made.north.play(made.match_id), only_start))
    outcome = mine.result().outcome
    assert outcome is not None
    assert outcome.cause is Cause.TIME


async def test_who_one_is_is_kept_and_renewed_when_the_service_has_forgotten(
    services: Stack, tmp_path: Path
) -> None:
    file = tmp_path / "state" / "identities.json"
    server = services.address("matchmaking")
    ids = []
    for _ in range(2):
        async with await identities.connect(file, server, "Ada") as client:
            ids.append((await client.standing()).player.player_id)
    assert ids[0] == ids[1]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    stranger = identities.read(file, server)
    assert stranger is not None
    identities.write(file, server, Identity(stranger.player_id, "Ada", "no token", 1 << 40))
    with pytest.raises(CallError) as taken:
        await identities.connect(file, server, "Ada")
    assert taken.value.reason == "NAME_TAKEN"
    kept = identities.read(file, server)
    assert kept is not None
    async with await identities.connect(file, server, "Bea") as client:
        me = await client.profile()
        assert (me.player_id, me.name, me.registered) == (kept.player_id, "Bea", True)
        assert me.player_id != ids[0]
    async with await identities.connect(file, server, "Cleo") as client:
        assert (await client.standing()).player.name == "Bea", "a name stays"


async def test_a_seek_hears_about_the_queue_and_can_be_cancelled(services: Stack) -> None:
    client = await guest(services, "Eve")
    waiting = asyncio.Event()
    seeking = asyncio.create_task(client.seek(waiting=lambda facts: waiting.set()))
    await waiting.wait()
    await client.cancel_seek()
    with pytest.raises(CallError) as cancelled:
        await seeking
    assert cancelled.value.reason == "SEEK_CANCELLED"
    with pytest.raises(CallError) as nothing:
        await client.cancel_seek()
    assert nothing.value.reason == "NO_SEEK"


async def run_client(services: Stack, *arguments: str, typed: str = "") -> tuple[int, str, str]:
    """`python -m client` as a user runs it: exit status, what it said, what it complained about."""
    options = ("--server", services.address("matchmaking"), "--game", services.address("game"))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "client"),
        *(*arguments[:1], "--state", str(services.folder / "me.json"), *options, *arguments[1:]),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, complained = await process.communicate(typed.encode())
    assert process.returncode is not None
    return process.returncode, said.decode(), complained.decode()


async def test_the_command_line_shows_the_ladder_a_player_a_match_and_its_record(
    services: Stack, rated: Exhibition
) -> None:
    (finished,) = await rated.one.history()
    events = await services.events(finished.match_id)
    assert finished.rounds == sum(isinstance(event, RoundDealt) for event in events)
    assert finished.turns == max(event.turn for event in events if isinstance(event, TurnTimed))
    assert finished.played_ms > 0
    assert rated.ladder_before == "Nobody has played a rated match yet.\n"
    assert (await run_client(services, "ladder"))[1].splitlines()[1].split()[0] == "1"
    status, said, _ = await run_client(services, "ladder", "--around", "--of", finished.north.player_id)
    assert status == 0
    assert [line.split()[0] for line in said.splitlines()[1:3]].count(">") == 1
    assert "2 ranked in all" in said
    status, said, _ = await run_client(services, "ladder", "--around")
    assert (status, said) == (0, "Without a rated match there is no place on the ladder.\n")
    status, said, _ = await run_client(services, "profile", finished.north.player_id)
    assert status == 0
    assert "Amber" in said
    assert "Basil" in said
    assert max(map(len, said.splitlines())) <= 80
    status, said, _ = await run_client(services, "history", finished.north.player_id, "--ids")
    assert status == 0
    assert finished.match_id in said
    status, said, _ = await run_client(services, "watch", finished.match_id)
    assert status == 0
    assert "wins" in said
    status, record, _ = await run_client(services, "record", finished.match_id)
    assert status == 0
    assert checked(record) == []
    file = services.folder / "match.jsonl"
    assert await run_client(services, "record", finished.match_id, "--out", str(file)) == (0, "", "")
    assert file.read_text("utf-8") == record
    nowhere = str(file / "in-a-file")
    status, said, complained = await run_client(services, "record", finished.match_id, "--out", nowhere)
    assert (status, said, len(complained.splitlines())) == (2, "", 1)
    status, _, complained = await run_client(services, "record", "no match")
    assert status == 1
    assert complained.startswith("error: ")
    assert len(complained.splitlines()) == 1


async def test_a_person_plays_a_house_bot_by_typing_numbers(services: Stack) -> None:
    async with Thinker() as thinker, house_bot(services, "greedy", thinker):
        # Nonsense is asked again; then always the first of the list; at last the match is given up.
        typed = "x\n0\n" + 6 * "1\n" + "r\n"
        status, said, complained = await run_client(
            services, "play", "--bot", "greedy", "--name", "Gus", typed=typed
        )
    assert (status, complained) == (0, "")
    assert "Your tiles: [" in said
    assert "please." in said
    assert "wins: Gus resigned" in said
    (unrated,) = await services.pool.fetch(
        """
        select match_id from match join player p on p.player_id in (north, south)
        where not rated and p.name = 'Gus'
        """
    )
    status, said, complained = await run_client(services, "record", str(unrated["match_id"]))
    assert (status, checked(said), complained) == (0, [], "")
    stranger = ("record", str(unrated["match_id"]), "--state", str(services.folder / "stranger.json"))
    status, said, complained = await run_client(services, *stranger)
    assert (status, said) == (1, "")
    assert (
        complained
        == "error: RECORD_PRIVATE: the match was not rated: only those who played it may have its record\n"
    )
