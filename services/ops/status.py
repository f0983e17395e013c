"""The outage view: every process and everything that is stored about the whole, at a glance."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import asyncpg
import typer
from rich.console import Console
from rich.live import Live

from services.common.settings import PREFIX
from services.local.places import Places
from services.ops.database import WIDTH
from services.ops.outage import Judgement, Look, judge
from services.ops.pages import Reader, Target, target_of
from services.ops.statusview import as_json, picture
from services.storage.overview import Overview, look
from services.storage.pool import TRANSIENT
from services.storage.sessions import session_settings

TARGETS_VARIABLE: Final = f"{PREFIX}METRICS_TARGETS"
DATABASE_VARIABLE: Final = f"{PREFIX}DATABASE_URL"
DATABASE_SECONDS: Final = 4.0
"""How long the database may take to answer before it is shown as away."""


def status(
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            help="host:port of /metrics; may be repeated. A name that stands for several addresses is several "
            f"processes; ROLE=host:port says what should be there. Default: {TARGETS_VARIABLE}, with commas between.",
        ),
    ] = None,
    database_url: Annotated[
        str, typer.Option("--database-url", envvar=DATABASE_VARIABLE, help="PostgreSQL; empty: not asked.")
    ] = "",
    folder: Annotated[
        Path, typer.Option(help="Of a local stack, which is looked at when nothing else is said.")
    ] = Path(".local"),
    *,
    watch: Annotated[bool, typer.Option("--watch", help="Look again and again, until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(min=0.2, max=3600, help="Seconds between looks of --watch.")] = 2.0,
    json_: Annotated[bool, typer.Option("--json", help="JSON, one object a look.")] = False,
) -> None:
    """Show every process, who leads, leases, clocks, live matches, incidents, voids and ratings.

    Exit status 0: all is well. 1: something is wrong; the first lines say what. 2: nothing can be reached.
    """
    targets, url = _where(metrics, database_url, folder)
    if not targets and not url:
        raise typer.BadParameter(
            f"say where to look: --metrics or {TARGETS_VARIABLE}, --database-url or {DATABASE_VARIABLE};"
            f" no local stack serves in {folder}",
            param_hint="--metrics",
        )
    with Reader() as reader:
        if watch:
            with suppress(KeyboardInterrupt):
                asyncio.run(_watch(reader, targets, url, every, as_text=json_))
            return
        seen = asyncio.run(look_around(reader, targets, url))
    judgement = judge(seen)
    if json_:
        typer.echo(json.dumps(as_json(seen, judgement), indent=2, ensure_ascii=False))
    else:
        Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False).print(picture(seen, judgement))
    raise typer.Exit(judgement.verdict.value)


async def look_around(reader: Reader, targets: list[Target], url: str) -> Look:
    """One look at everything, in about the time the slowest part needs; what does not answer is shown as that."""
    processes, (overview, problem) = await asyncio.gather(reader.read(targets), _ask(url))
    return Look(datetime.now(UTC), tuple(processes), overview, problem)


async def _watch(reader: Reader, targets: list[Target], url: str, every: float, *, as_text: bool) -> None:
    async def once() -> tuple[Look, Judgement]:
        seen = await look_around(reader, targets, url)
        return seen, judge(seen)

    if as_text:
        while True:
            began = time.monotonic()
            typer.echo(json.dumps(as_json(*await once()), ensure_ascii=False))
            await asyncio.sleep(max(0.0, began + every - time.monotonic()))
    console = Console(highlight=False)
    with Live(console=console, auto_refresh=False, screen=console.is_terminal) as live:
        while True:
            began = time.monotonic()
            live.update(picture(*await once()), refresh=True)
            await asyncio.sleep(max(0.0, began + every - time.monotonic()))


async def _ask(url: str) -> tuple[Overview | None, str]:
    """What the database says, or why it says nothing."""
    if not url:
        return None, ""
    connection = None
    try:
        async with asyncio.timeout(DATABASE_SECONDS):
            settings = session_settings("reader", "ops status")
            connection = await asyncpg.connect(url, timeout=DATABASE_SECONDS, server_settings=settings)
            return await look(connection), ""
    except (*TRANSIENT, asyncpg.PostgresError, ValueError) as error:
        words = str(error).strip().splitlines()
        return None, "does not answer" if isinstance(error, TimeoutError) else (words or ["?"])[0]
    finally:
        if connection is not None:
            # A server that hangs would keep us waiting for its goodbye.
            connection.terminate()


def _where(metrics: list[str] | None, url: str, folder: Path) -> tuple[list[Target], str]:
    """Where to look: as said, as the environment says, or where a local stack serves."""
    said = metrics or [part for part in os.environ.get(TARGETS_VARIABLE, "").split(",") if part.strip()]
    if not said and not url:
        said, url = _local(folder)
    try:
        return [target_of(text) for text in said], url
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--metrics") from None


def _local(folder: Path) -> tuple[list[str], str]:
    """What a local stack has written down; nothing where none serves."""
    try:
        found = json.loads(Places(folder).serving.read_text("utf-8"))
        return [str(target) for target in found["metrics"]], str(found["database_url"])
    except (OSError, ValueError, KeyError, TypeError):
        return [], ""
