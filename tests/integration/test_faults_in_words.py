"""What players see of a fault of ours: real processes, the command line client, a game process that stands still."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from engine.seats import NORTH, SOUTH
from tests.engine.tables import play
from tests.integration.operators import WHY, ops
from tests.integration.timing import FORCED
from tests.processes import SECONDS_MAX
from tests.seats import Table, eventually, scripted
from tests.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="session")

PAUSED_SECONDS = 2.0


class Terminal:
    """A person at `python -m client`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.seen = ""

    async def shows(self, pattern: str) -> re.Match[str]:
        """Reads on until the text has this in it."""
        assert self.process.stdout is not None
        async with asyncio.timeout(SECONDS_MAX):
            while not (found := re.search(pattern, self.seen)):
                more = await self.process.stdout.read(4096)
                assert more, f"ended without {pattern!r}:\n{self.seen}"
                self.seen += more.decode()
        return found

    def types(self, text: str) -> None:
        """One line."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{text}\n".encode())

    async def ends(self) -> int:
        """The exit status."""
        async with asyncio.timeout(SECONDS_MAX):
            return await self.process.wait()


@asynccontextmanager
async def terminal(made: Stack, state: Path, *arguments: str) -> AsyncIterator[Terminal]:
    """A command of the client, as the person whose identity is kept in `state`."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-u", "-m", "client", *arguments, "--state", str(state)),
        *("--server", made.address("matchmaking"), "--game", made.address("game")),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "COLUMNS": "200"},
    )
    try:
        yield Terminal(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def stand_still(made: Stack) -> None:
    """The game process is stopped for two seconds."""
    game = made.processes["game"]
    game.signal(signal.SIGSTOP)
    # The length of the pause is what is tested.
    await asyncio.sleep(PAUSED_SECONDS)
    game.signal(signal.SIGCONT)


def seconds(found: re.Match[str]) -> float:
    """How long a pause is said to have been."""
    return float(found.group(1))


async def test_a_spectator_reads_of_a_pause_and_of_the_reason_of_a_void(own: Stack, tmp_path: Path) -> None:
    """The events say how long, and the client says it in words; nothing of it is on anybody's clock."""
    table = await Table.create(own, deals=scripted(FORCED))
    state = tmp_path / "spectator"
    async with terminal(own, state, "watch", table.match_id) as screen:
        await screen.shows("north is ")
        watching = await table.events(SOUTH)
        await watching.until(lambda message: message.HasField("snapshot"))
        await stand_still(own)
        paused = await screen.shows(r"The service paused for ([\d.]+) s\. Nobody's clock ran meanwhile\.")
        assert PAUSED_SECONDS - 0.1 <= seconds(paused) < SECONDS_MAX
        await table.do(play(NORTH, "6|6"))
        heard = await watching.until(
            lambda message: any(event.HasField("turn_timed") for event in message.events)
        )
        (timed,) = [event.turn_timed for event in heard.events if event.HasField("turn_timed")]
        assert timed.credited_ms >= (PAUSED_SECONDS - 0.1) * 1000
        assert timed.charge_ms == 0
        await ops(own, "incident", "declare", "--effect", "void", *WHY, "--match", table.match_id)
        await screen.shows("The match is void: the operators declared an incident. Nobody wins")
        assert await screen.ends() == 0
        assert len(re.findall("The service paused", screen.seen)) == 1


THEIRS = """
    select l.match_id::text from live_seat l join player p on p.player_id = l.player_id
    join match m on m.match_id = l.match_id
    where p.name = 'ada' and m.mode = 'rated'
"""
"""The match of the two: others on the same stack may still be live."""


async def test_players_read_of_a_pause_and_find_the_void_in_their_history(own: Stack, tmp_path: Path) -> None:
    """Two people who were matched, from their terminals."""
    states = [tmp_path / name for name in ("ada", "bob")]
    async with (
        terminal(own, states[0], "seek", "--name", "ada") as ada,
        terminal(own, states[1], "seek", "--name", "bob") as bob,
    ):

        async def running() -> bool:
            live = await own.pool.fetchval(THEIRS)
            return live is not None and (await own.state(live)).to_act is not None

        await eventually(running)
        match_id = await own.pool.fetchval(THEIRS)
        # A clock runs when somebody is asked, and not yet when the deal is stored.
        asked = [asyncio.create_task(screen.shows(r"number \(r resigns\): ")) for screen in (ada, bob)]
        _, other = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        for each in other:
            each.cancel()
        await stand_still(own)
        for screen in (ada, bob):
            assert seconds(await screen.shows(r"The service paused for ([\d.]+) s\.")) >= PAUSED_SECONDS - 0.1
        await ops(own, "incident", "declare", "--effect", "void", *WHY, "--match", match_id)
        # Whoever is asked has to finish typing first.
        for screen in (ada, bob):
            screen.types("1")
            await screen.shows("The match is void: the operators declared an incident. Nobody wins")
            assert await screen.ends() == 0
    for state in states:
        async with terminal(own, state, "history", "--ids") as screen:
            await screen.shows(rf"void \(operator\) .* {match_id}")
            assert await screen.ends() == 0
    finished = await own.pool.fetchrow(
        "select cause, detail from match_outcome where match_id = $1", match_id
    )
    assert finished is not None
    assert tuple(finished) == ("void", "operator")
