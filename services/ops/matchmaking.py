"""Pause pools, drain them, open them again, and tell those who wait what is going on."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Final

import typer
from google.protobuf.timestamp_pb2 import Timestamp
from rich.markup import escape
from rich.table import Table

from services.ops.acts import reason_of
from services.ops.database import time_of
from services.ops.leader import Address, ask
from services.ops.tables import console, table
from spectacularbid.internal.operations.v1 import operations_service_pb2 as pb
from spectacularbid.matchmaking.v1 import matchmaking_service_pb2 as matchmaking_pb

_POOLS: Final = {"rated": matchmaking_pb.POOL_RATED, "casual": matchmaking_pb.POOL_CASUAL}
_NAMES: Final[dict[int, str]] = {number: name for name, number in _POOLS.items()}
_MODES: Final[dict[int, str]] = {
    pb.POOL_MODE_OPEN: "open",
    pb.POOL_MODE_PAUSED: "paused",
    pb.POOL_MODE_DRAINING: "draining",
}

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)

PoolOption = Annotated[list[str] | None, typer.Option("--pool", help="rated or casual; both without it.")]
Until = Annotated[str, typer.Option(help="ISO time with its zone at which it ends by itself.")]
Reason = Annotated[str, typer.Option(help="Why; it is kept.")]


@app.command("status")
def status(
    address: Address, orders: Annotated[int, typer.Option(min=0, max=1000, help="Last orders shown.")] = 10
) -> None:
    """Show what each pool does, what is announced, and who ordered what lately."""
    answer = ask(
        address, lambda service, options: service.GetPools(pb.GetPoolsRequest(orders=orders), **options)
    )
    _show(answer.pools)
    if answer.orders:
        console().print(_orders(answer.orders))


@app.command("pause")
def pause(address: Address, reason: Reason, pool: PoolOption = None, until: Until = "") -> None:
    """Take seeks, but pair nobody. Those who wait keep their places, and the time counts."""
    _set(address, pool, pb.POOL_MODE_PAUSED, reason_of(reason), until)


@app.command("drain")
def drain(address: Address, reason: Reason, pool: PoolOption = None, until: Until = "") -> None:
    """Take no seeks and end the open ones. Matches that are made are placed; live ones go on."""
    _set(address, pool, pb.POOL_MODE_DRAINING, reason_of(reason), until)


@app.command("resume")
def resume(address: Address, reason: Reason, pool: PoolOption = None) -> None:
    """Take seeks and pair them again."""
    _set(address, pool, pb.POOL_MODE_OPEN, reason_of(reason), "")


@app.command("announce")
def announce(
    address: Address,
    reason: Reason,
    text: Annotated[str, typer.Argument(help="What those who wait are shown; none takes it back.")] = "",
    pool: PoolOption = None,
    until: Until = "",
) -> None:
    """Show a text to those who wait."""
    request = pb.AnnounceRequest(
        pools=_numbers(pool), text=text, until=_stamp(until), reason=reason_of(reason)
    )
    _show(ask(address, lambda service, options: service.Announce(request, **options)).pools)


def _set(address: str, pool: list[str] | None, mode: pb.PoolMode.ValueType, reason: str, until: str) -> None:
    request = pb.SetPoolModeRequest(pools=_numbers(pool), mode=mode, reason=reason, until=_stamp(until))
    _show(ask(address, lambda service, options: service.SetPoolMode(request, **options)).pools)


def _numbers(pools: list[str] | None) -> list[matchmaking_pb.Pool.ValueType]:
    for pool in pools or ():
        if pool not in _POOLS:
            raise typer.BadParameter(f"{pool!r} is no pool", param_hint="--pool")
    return [_POOLS[pool] for pool in pools or ()]


def _stamp(text: str) -> Timestamp | None:
    until = time_of(text, "--until")
    if until is None:
        return None
    stamp = Timestamp()
    stamp.FromDatetime(until)
    return stamp


def _show(states: Iterable[pb.PoolState]) -> None:
    shown = table("pool", "mode", "by", "until", "reason", "waiting", "announcement", "by", "until")
    for state in states:
        mode, said = state.mode_order, state.announcement
        shown.add_row(
            _NAMES.get(state.pool, "?"),
            _MODES.get(state.mode, "?"),
            mode.author,
            _until(mode),
            escape(mode.reason),
            str(state.players_waiting),
            escape(said.announcement),
            said.author,
            _until(said),
        )
    console().print(shown)


def _orders(orders: Iterable[pb.PoolOrder]) -> Table:
    shown = table("order", "at", "pool", "action", "by", "until", "reason", "announcement")
    for order in orders:
        shown.add_row(
            str(order.order_no),
            _time(order.ordered_at.ToDatetime(UTC)),
            _NAMES.get(order.pool, "?"),
            order.action,
            order.author,
            _until(order),
            escape(order.reason),
            escape(order.announcement),
        )
    return shown


def _until(order: pb.PoolOrder) -> str:
    return _time(order.until.ToDatetime(UTC)) if order.HasField("until") else ""


def _time(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S")
