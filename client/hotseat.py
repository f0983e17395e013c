"""A match in plain text: the table as a few lines, the legal answers as a numbered list."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from client.bots.account import minutes, verdict
from client.bots.greedy import count_after
from client.errors import Refused
from client.words import Pauses
from engine.command import Accept, Bid, Continue, Decline, Draw, Pass, Play, Resign, Start
from engine.seats import NORTH, SOUTH

if TYPE_CHECKING:
    from rich.console import Console

    from client.match import MatchStream, News
    from client.session import Client, MatchHandle
    from client.table import TableState
    from engine.command import Command
    from engine.seats import Seat

Choice = tuple[str, "Command"]

_RAISES_SHOWN = 6


async def sit_down(client: Client, handle: MatchHandle, console: Console) -> None:
    """Play a match to its end with a person who types numbers. What happens is told while they think, too."""
    async with client.play(handle) as match:
        news = asyncio.Event()
        reading = asyncio.create_task(_read(match, console, news))
        answered = 0
        try:
            while not reading.done():
                await news.wait()
                news.clear()
                table = match.table
                if not reading.done() and table.asks_me and table.prompt.decision_id != answered:
                    answered = table.prompt.decision_id
                    if not await _answer(match, table, handle.seat, console):
                        # Asked again at once: nothing has changed that would bring news.
                        answered = 0
                        news.set()
            await reading
        finally:
            reading.cancel()


async def _read(match: MatchStream, console: Console, heard: asyncio.Event) -> None:
    """Tells of everything, to the end of the match; `heard` is set with each news and at the end."""
    pauses = Pauses()
    try:
        async for news in match:
            _tell(news, console, pauses)
            heard.set()
        console.print(verdict(match.table), markup=False)
    finally:
        heard.set()


async def _answer(match: MatchStream, table: TableState, seat: Seat, console: Console) -> bool:
    """Have one question answered; False when what a person typed was refused."""
    choices = options(table, seat)
    typed = len(choices) != 1 or bool(table.prompt.legal.plays)
    if typed:
        console.print("\n".join(picture(table, seat)), markup=False)
        for number, (text, _) in enumerate(choices, 1):
            console.print(f"  {number:>2}  {text}", markup=False)
        command = await _chosen(choices, seat, console)
    else:
        # Nothing to decide: pressing Start and Continue, drawing and passing are done for the player.
        command = choices[0][1]
    if match.table.outcome is not None:
        return True  # it ended while they were thinking
    try:
        await match.submit(command, decision_id=table.prompt.decision_id)
    except Refused as refusal:
        console.print(f"Refused: {refusal.message}", markup=False)
        return not typed
    return True


async def _chosen(choices: list[Choice], seat: Seat, console: Console) -> Command:
    """Ask until the answer is one. The clock runs meanwhile, in the service."""
    while True:
        typed = (await asyncio.to_thread(input, "number (r resigns): ")).strip().lower()
        if typed == "r":
            return Resign(seat)
        if typed.isdigit() and 1 <= int(typed) <= len(choices):
            return choices[int(typed) - 1][1]
        console.print(f"1 to {len(choices)}, please.")


def options(table: TableState, seat: Seat) -> list[Choice]:
    """What the player may do, in words."""
    legal = table.prompt.legal
    choices: list[Choice] = []
    if legal.start:
        choices.append(("start", Start(seat)))
    if legal.continue_round:
        choices.append(("continue", Continue(seat)))
    for tile, end in legal.plays:
        count = count_after(table, tile, end)
        scores = f", scores {count}" if count and count % 5 == 0 else ""
        where = "" if end is None else f" at {end}"
        choices.append((f"play [{tile}]{where}: counts {count}{scores}", Play(seat, tile, end)))
    if legal.draw:
        choices.append(("draw", Draw(seat)))
    if legal.pass_turn:
        choices.append(("pass", Pass(seat)))
    if legal.accept:
        choices.append((f"accept the bid of {table.standing_bid}", Accept(seat)))
    if legal.decline:
        choices.append(("decline", Decline(seat)))
    if legal.bid is not None:
        amounts = range(legal.bid.lowest, legal.bid.highest + 1, legal.bid.step)
        choices += [(f"bid {amount}", Bid(seat, amount)) for amount in amounts[:_RAISES_SHOWN]]
    return choices


def picture(table: TableState, seat: Seat) -> list[str]:
    """The table in a few lines of at most 78 characters."""
    banks, other = table.banks_ms, seat.opponent
    mine = f"you {table.balances[seat]} points, {minutes(banks[seat])}"
    theirs = f"{table.players[other].name} {table.balances[other]}, {minutes(banks[other])}"
    ends = "  ".join(f"{open_end.end} ({open_end.value})" for open_end in table.ends)
    return [
        "",
        f"Round {table.round_no}: {mine}; {theirs}, {table.tiles[other]} tiles; boneyard {table.boneyard}",
        f"Count {table.count}.  Ends: {ends or 'none yet'}",
        "Your tiles: " + " ".join(f"[{tile}]" for tile in table.hand),
    ]


def _tell(news: News, console: Console, pauses: Pauses) -> None:
    """What the other seat did, points, and pauses of the service, as they happen."""
    for line in pauses.lines(news):
        console.print(line, markup=False)
    for event in news.events:
        match event.WhichOneof("kind"):
            case "tile_placed":
                placed = event.tile_placed
                tile = placed.placement.tile
                console.print(
                    f"{_who(placed.seat)} placed [{tile.low}|{tile.high}]: count {placed.count}", markup=False
                )
            case "tile_drawn":
                console.print(f"{_who(event.tile_drawn.seat)} drew a tile")
            case "turn_passed":
                console.print(f"{_who(event.turn_passed.seat)} passed")
            case "bid_made":
                console.print(f"{_who(event.bid_made.seat)} bid {event.bid_made.amount}")
            case "points_moved":
                transfer = event.points_moved.transfer
                console.print(f"{_who(transfer.to)} received {transfer.moved} points")
            case "went_out":
                console.print(f"{_who(event.went_out.seat)} went out")
            case "round_blocked":
                console.print("the round is blocked")
            case _:
                pass


def _who(number: int) -> str:
    return str(NORTH if number == 1 else SOUTH)
