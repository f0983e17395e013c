"""Whether a stack, or a proxy in front of one, keeps the promises of the API: looked at from outside."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import grpc
import typer

from client.conformance import report
from client.conformance.bench import Bench
from client.conformance.catalogue import chosen
from client.conformance.check import Result, run_checks
from client.errors import UnreachableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from client.conformance.check import Check

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help=__doc__)


@app.command()
def conformance(
    *,
    server: Annotated[
        str,
        typer.Option(
            envvar="SPECTACULAR_BID_SERVER",
            help="host:port of matchmaking, ladder and guests; or of the front door.",
        ),
    ] = "127.0.0.1:7600",
    game: Annotated[
        str,
        typer.Option(
            envvar="SPECTACULAR_BID_GAME",
            help="host:port of a game process; by default the server, or what a match of two guests says.",
        ),
    ] = "",
    only: Annotated[
        list[str] | None, typer.Option(help="The name of a check, or a topic; may be given several times.")
    ] = None,
    tls: Annotated[bool, typer.Option("--tls", help="Connect with TLS.")] = False,
    authority: Annotated[
        Path | None,
        typer.Option(help="With --tls: file of the certificates to trust; by default the system's."),
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="Say what the checks look at, and end.")] = False,
) -> None:
    """Run the checks and print one line each: passed, failed or skipped, with the reason.

    Exit status 0 when nothing failed, 1 when something did, 2 when nobody answers. Makes guests and matches of its own and leaves a few guests on the ladder: point it
    at a stack where nobody plays. Without the test configuration, what needs it is skipped.
    """
    try:
        checks = chosen(only or [])
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(2) from None
    if show:
        print("\n".join(report.promises(checks)))
        return
    credentials = None
    if tls:
        credentials = grpc.ssl_channel_credentials(authority.read_bytes() if authority else None)
    try:
        results = asyncio.run(_run(checks, server, game or None, credentials))
    except UnreachableError as error:
        print(f"error: nobody answers at {server}: {error}", file=sys.stderr)
        raise typer.Exit(2) from None
    print("\n".join(report.lines(results)))
    raise typer.Exit(report.status(results))


async def _run(
    checks: Sequence[Check], server: str, game: str | None, credentials: grpc.ChannelCredentials | None
) -> list[Result]:
    done = 0

    def told(result: Result) -> None:
        nonlocal done
        done += 1
        if sys.stderr.isatty():
            end = "\n" if done == len(checks) else ""
            print(
                f"\r{done} of {len(checks)}  {result.check.name:<60.60}", end=end, file=sys.stderr, flush=True
            )

    async with Bench(server, game, credentials) as bench:
        await bench.answers()
        return await run_checks(checks, bench, told)


if __name__ == "__main__":
    app()
