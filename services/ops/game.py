"""Take game processes out of service without voiding a match, and put them back."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from datetime import UTC
from typing import Annotated, Final

import typer
from rich.markup import escape
from rich.table import Table

from services.ops.acts import reason_of
from services.ops.leader import Address, ask
from services.ops.tables import console, table
from spectacularbid.internal.operations.v1 import operations_service_pb2 as pb

LOOK_SECONDS: Final = 1.0
_STANDINGS: Final[dict[int, str]] = {
    pb.GAME_STANDING_READY: "ready",
    pb.GAME_STANDING_UNREADY: "unready",
    pb.GAME_STANDING_DRAINED: "drained",
    pb.GAME_STANDING_LEAVING: "leaving",
    pb.GAME_STANDING_GONE: "gone",
}

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)

EngineId = Annotated[str, typer.Argument(help="The stable name of the game process, as `list` shows it.")]


@app.command("list")
def list_games(
    address: Address,
    orders: Annotated[int, typer.Option(min=0, max=1000, help="Last orders shown.")] = 10,
    everything: Annotated[  # noqa: FBT002 - an option
        bool, typer.Option("--all", help="Those that are gone and own nothing, too.")
    ] = False,
) -> None:
    """Show the game processes, what they play, and who ordered what lately."""
    answer = _get(address, orders)
    show(game for game in answer.games if everything or _matters(game))
    if answer.orders:
        console().print(_orders(answer.orders))


@app.command("drain")
def drain(
    address: Address,
    engine_id: EngineId,
    reason: Annotated[str, typer.Option(help="Why; it is kept.")],
    force: Annotated[  # noqa: FBT002 - an option
        bool,
        typer.Option("--force", help="Even if the others have no room: its matches stay until they have."),
    ] = False,
    wait: Annotated[  # noqa: FBT002 - an option
        bool, typer.Option("--wait", help="Until it has no matches any more.")
    ] = False,
) -> None:
    """Place nothing there any more, and hand its matches to others. It stays so, over restarts, until `resume`."""
    request = pb.DrainGameRequest(engine_id=engine_id, reason=reason_of(reason), force=force)
    show([ask(address, lambda service, options: service.DrainGame(request, **options)).game])
    if wait:
        _wait(address, engine_id)


@app.command("resume")
def resume(
    address: Address,
    engine_id: EngineId,
    reason: Annotated[str, typer.Option(help="Why; it is kept.")],
) -> None:
    """Let it take matches again."""
    request = pb.ResumeGameRequest(engine_id=engine_id, reason=reason_of(reason))
    show([ask(address, lambda service, options: service.ResumeGame(request, **options)).game])


def _get(address: str, orders: int = 0) -> pb.GetGamesResponse:
    return ask(
        address, lambda service, options: service.GetGames(pb.GetGamesRequest(orders=orders), **options)
    )


def _wait(address: str, engine_id: str) -> None:
    left = -1
    while left:
        (game,) = (game for game in _get(address).games if game.engine_id == engine_id)
        if game.order.action != "drain":
            sys.stderr.write(f"{engine_id} is not drained any more: {game.order.author} has put it back\n")
            raise typer.Exit(1)
        if game.live_matches != left:
            left = game.live_matches
            console().print(f"{left} matches left on {engine_id}", markup=False)
        if left:
            time.sleep(LOOK_SECONDS)


def _matters(game: pb.Game) -> bool:
    drained = game.order.action == "drain"
    return game.standing != pb.GAME_STANDING_GONE or game.registered or game.live_matches > 0 or drained


def show(games: Iterable[pb.Game]) -> None:
    """Prints game processes, one a line."""
    shown = table(
        "game process", "address", "standing", "new matches", "matches", "capacity", "drained by", "reason"
    )
    for game in games:
        drained = game.order.action == "drain"
        shown.add_row(
            escape(game.engine_id),
            escape(game.address),
            _STANDINGS.get(game.standing, "?"),
            "yes" if game.accepting else "no" if game.registered else "not registered",
            str(game.live_matches),
            str(game.capacity),
            escape(game.order.author) if drained else "",
            escape(game.order.reason) if drained else "",
        )
    console().print(shown)


def _orders(orders: Iterable[pb.GameOrder]) -> Table:
    shown = table("order", "at", "game process", "action", "by", "reason")
    for order in orders:
        shown.add_row(
            str(order.order_no),
            order.ordered_at.ToDatetime(UTC).strftime("%Y-%m-%d %H:%M:%S"),
            escape(order.engine_id),
            order.action,
            escape(order.author),
            escape(order.reason),
        )
    return shown
