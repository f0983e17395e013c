"""The whole stack on this machine, with one command."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from services.common.auth import HOUSE_BOTS, PLAYER_ID
from services.common.settings import PREFIX
from services.local.display import Display
from services.local.places import FolderLock, InUseError, Places, issuer_and_audience
from services.local.postgres import PostgresError
from services.local.stack import BrokenError, Stack, StoppedError
from services.storage.migrate import MigrationError

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)

Folder = Annotated[Path, typer.Option(help="Where data, keys and logs are kept.")]


@app.command("run")
def run(
    folder: Folder = Path(".local"),
    *,
    match: Annotated[bool, typer.Option(help="Have two bots play a rated match first.")] = True,
    canary: Annotated[
        bool, typer.Option(help="Have the canary play a short unrated match every minute.")
    ] = True,
) -> None:
    """Start the stack, let two bots play a rated match, and serve until Ctrl-C."""
    raise typer.Exit(asyncio.run(_stack(folder, match=match, serve=True, canary=canary)))


@app.command("demo")
def demo(folder: Folder = Path(".local")) -> None:
    """Start the stack, let two bots play a rated match, and stop."""
    raise typer.Exit(asyncio.run(_stack(folder, match=True, serve=False)))


@app.command("operator")
def operator(
    name: Annotated[str, typer.Argument(help="Who acts, as it is kept with each act.")] = "operator",
    folder: Folder = Path(".local"),
) -> None:
    """Print what makes a shell that of an operator of the stack that runs here: eval "$(... operator)"."""
    places = Places(folder)
    if not PLAYER_ID.match(name):
        raise typer.BadParameter("1 to 64 lower-case letters, digits or -", param_hint="NAME")
    try:
        address = json.loads(places.serving.read_text("utf-8"))["operations"]
        token = places.operator_token(name, *(issuer_and_audience()))
    except (OSError, ValueError, KeyError):
        Display().fault(f"error: no stack serves on {folder}: start one with `make run`")
        raise typer.Exit(1) from None
    sys.stdout.write(f"export {PREFIX}MATCHMAKING_ADDRESS={address}\n")
    sys.stdout.write(f"export {PREFIX}OPERATOR_TOKEN={token}\n")


async def _stack(folder: Path, *, match: bool, serve: bool, canary: bool = False) -> int:
    display = Display()
    places = Places(folder)
    try:
        with FolderLock(folder):
            places.prepare()
            display.title(f"Spectacular Bid on this machine; data, keys and logs in {folder}")
            stack = Stack(places, display)
            return await _session(stack, display, match=match, serve=serve, canary=canary)
    except (BrokenError, InUseError, MigrationError, PostgresError, OSError) as problem:
        display.fault(f"error: {problem}")
        return 1
    except StoppedError:
        display.say("Stopped.")
        return 130


async def _session(stack: Stack, display: Display, *, match: bool, serve: bool, canary: bool) -> int:
    async with stack:
        display.say()
        if match and (status := await stack.run_match()) != 0:
            display.fault(
                f"error: the bots' match has failed (exit status {status}); logs in {stack.places.logs}"
            )
            return 1
        display.say()
        if not serve:
            display.say("That was the demonstration. `make run` plays one and keeps serving.")
            return 0
        if canary:
            await stack.start_canary()
        _where_to_look(stack, display)
        await stack.serve()
        display.say()
    display.say("Stopped; nothing is left running.")
    return 0


def _where_to_look(stack: Stack, display: Display) -> None:
    python = _shown(Path(sys.executable))
    server = stack.client_options(game=False, always=False)
    both = stack.client_options(always=False)
    display.title("Serving until Ctrl-C. From another terminal:")
    display.pointer("leaderboard", " ".join([python, "-m", "client", "ladder", *server]))
    play = [python, "-m", "client", "play", "--bot", "greedy", *both]
    others = [name for name in HOUSE_BOTS if name != "greedy"]
    display.pointer("play a house bot", f"{' '.join(play)}  # or {', '.join(others)}")
    display.pointer("seek a rated match", " ".join([python, "-m", "client", "play", *both]))
    folder = stack.places.folder
    elsewhere = "" if folder == Path(".local") else f" --folder {shlex.quote(str(folder))}"
    display.pointer("how it is", f"{python} -m services.ops status --watch{elsewhere}")
    for name in ("matchmaking", "game", "clock"):
        display.pointer(f"metrics, {name}", f"http://{stack.address(f'{name} metrics')}/metrics")
    display.pointer("act as an operator", f'eval "$({python} -m services.local operator{elsewhere})"')
    display.pointer("", f"{python} -m services.ops --help")
    display.pointer("logs", f"{stack.places.logs}/")


def _shown(python: Path) -> str:
    """The interpreter as one would type it here."""
    try:
        return str(python.relative_to(Path.cwd()))
    except ValueError:
        return str(python)


if __name__ == "__main__":
    app()
