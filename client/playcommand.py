"""`play` and `watch`: on drawn screens before a terminal, in plain text elsewhere."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from client.bots.account import HEADER, Account, seats, verdict
from client.commandline import GAME, SERVER, Game, Name, Server, State, with_client
from client.errors import CallError
from client.hotseat import sit_down
from client.look import Ascii, AutoDraw, AutoPass, Colours, Plain, SettingsFile, drawn, settings
from client.printable import printable
from client.session import CASUAL, RATED, MatchHandle
from client.words import Pauses

if TYPE_CHECKING:
    from client.session import Client
    from spectacularbid.matchmaking.v1.matchmaking_service_pb2 import Waiting

console = Console(highlight=False, soft_wrap=True)


def play(
    *,
    casual: Annotated[
        bool, typer.Option("--casual", help="Seek in the casual pool: nothing is rated.")
    ] = False,
    bot: Annotated[
        str, typer.Option(help="Play this house bot instead, unrated: easy, greedy or strong.")
    ] = "",
    plain: Plain = False,
    colours: Colours = None,
    ascii: Ascii = None,  # noqa: A002  the name of the flag
    auto_pass: AutoPass = None,
    auto_draw: AutoDraw = None,
    settings_file: SettingsFile = None,
    server: Server = SERVER,
    game: Game = GAME,
    name: Name = "",
    state: State = None,
) -> None:
    """Wait for an opponent and play a rated match; --casual for one that is not rated, --bot for a house bot.

    Who has a match that goes on comes back to that one.
    """
    screens = drawn(plain=plain)
    look = settings(settings_file, colours=colours, ascii=ascii, auto_pass=auto_pass, auto_draw=auto_draw)

    async def work(client: Client) -> None:
        if screens:
            from client.terminal.app import seek_app, table_app

            if bot:
                screen = table_app(client, await _challenge(client, bot), look)
            else:
                who = (await client.profile()).name
                screen = seek_app(client, who, look, rated=not casual)
            say(await screen.run_async() or "")
        elif bot:
            await sit_down(client, await _challenge(client, bot), console)
        else:
            await _seek(client, rated=not casual)

    with_client(work, server, game, name, state)


def seek(server: Server = SERVER, game: Game = GAME, name: Name = "", state: State = None) -> None:
    """Wait for an opponent and play a rated match in plain text: the same as `play --plain`."""

    async def work(client: Client) -> None:
        await _seek(client, rated=True)

    with_client(work, server, game, name, state)


def watch(
    match_id: str,
    *,
    plain: Plain = False,
    colours: Colours = None,
    ascii: Ascii = None,  # noqa: A002  the name of the flag
    settings_file: SettingsFile = None,
    server: Server = SERVER,
    game: Game = GAME,
    name: Name = "",
    state: State = None,
) -> None:
    """Follow a match at its table; in plain text one line a round. With a seat in it, you play on."""
    screens = drawn(plain=plain)
    look = settings(settings_file, colours=colours, ascii=ascii)

    async def work(client: Client) -> None:
        if screens:
            from client.terminal.app import table_app

            say(await table_app(client, match_id, look).run_async() or "")
            return
        account, pauses = Account(), Pauses()
        async with client.play(match_id) as match:
            async for news in match:
                if news.snapshot:
                    console.print(f"{seats(news.table)}\n{HEADER}", markup=False)
                for line in (*pauses.lines(news), *account.lines(news)):
                    console.print(line, markup=False)
        console.print(verdict(match.table), markup=False)

    with_client(work, server, game, name, state)


def say(text: str) -> None:
    """The last sentence of the screens, once they are gone. An error ends the program as one."""
    if text.startswith("error: "):
        sys.stderr.write(f"{text}\n")
        raise typer.Exit(1)
    if text:
        console.print(text, markup=False)


async def _challenge(client: Client, bot: str) -> MatchHandle:
    """A new match against a house bot, or the one that goes on."""
    try:
        return await client.challenge(house_bot=bot)
    except CallError as error:
        if error.reason != "PLAYER_BUSY" or (live := await client.live_match()) is None:
            raise
        return live


async def _seek(client: Client, *, rated: bool) -> None:
    with console.status("waiting for an opponent (Ctrl-C cancels)") as status:
        pool = RATED if rated else CASUAL
        try:
            handle = await client.seek(pool, waiting=lambda facts: status.update(_waiting_line(facts)))
        except CallError as error:
            if error.reason != "PLAYER_BUSY" or (live := await client.live_match()) is None:
                raise
            handle = live
    await sit_down(client, handle, console)


def _waiting_line(facts: Waiting) -> str:
    line = f"waiting for an opponent for {facts.waited_ms // 1000} s, {facts.players_waiting} in the queue"
    if facts.HasField("estimate"):
        half, most = (round(each / 1000) for each in (facts.estimate.median_ms, facts.estimate.most_ms))
        line += f"; of the last {facts.estimate.basis} half waited {half} s or less, nine of ten {most} s"
    if facts.paused:
        line += "; the pool is paused, nobody is paired"
    if facts.announcement:
        line += f"; {escape(printable(facts.announcement))}"
    if facts.house_bots:
        line += f"; or play a house bot, unrated: --bot {', '.join(facts.house_bots)}"
    return f"{line} (Ctrl-C cancels)"
