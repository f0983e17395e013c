"""Everything that goes wrong with time, live: what clocks say, and what is stored."""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import asyncpg
import grpc
import typer

from services.common.channels import Connect
from services.common.settings import PREFIX, split_address
from services.ops.database import UNREADABLE
from services.ops.reach import connect_as_configured
from services.storage.incidents import Incident
from services.storage.newsfeed import VoidMatch, stored_since
from services.storage.pool import TRANSIENT, Connection
from services.storage.sessions import session_settings
from services.wire import clock_news
from services.wire.clock import MalformedClockMessageError
from services.wire.clock_messages import Mismatch, Timeout, Void
from services.wire.clock_news import (
    HEARTBEAT_SECONDS,
    Happened,
    IncidentMatch,
    IncidentTold,
    News,
    SessionLost,
)
from spectacularbid.internal.clock.v1 import clock_service_pb2 as pb
from spectacularbid.internal.clock.v1.clock_service_pb2_grpc import ClockServiceStub

SECRET_VARIABLE: Final = f"{PREFIX}INTERNAL_SECRET"
SILENCE_SECONDS: Final = 3 * HEARTBEAT_SECONDS
LOOK_SECONDS: Final = 1.0
"""How often the database is asked."""
RETRY_SECONDS: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
REMEMBERED: Final = 10_000
"""What was shown lately, so that what a clock said is not shown again when it is stored."""

CHANNEL_OPTIONS: Final[list[tuple[str, Any]]] = [
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.ping_timeout_ms", 5_000),
    ("grpc.use_local_subchannel_pool", 1),
]


class Screen:
    """One line for each thing that happened, in the order in which it is heard, each once."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._shown: OrderedDict[Hashable, None] = OrderedDict()

    def line(self, at: datetime, source: str, words: str, *, key: Hashable = None) -> None:
        """Shows it, unless something with this key was shown lately."""
        if key is not None:
            if key in self._shown:
                return
            self._shown[key] = None
            if len(self._shown) > REMEMBERED:
                self._shown.popitem(last=False)
        self._show(f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}  {source}  {words}")

    def remark(self, source: str, words: str) -> None:
        """Something about the watching itself."""
        self.line(datetime.now(UTC), source, f"({words})")

    def news(self, source: str, news: News) -> None:
        """What a clock said."""
        about = f" [{news.engine_id}]" if news.engine_id else ""
        self.line(news.at, source, in_words(news.happened) + about, key=_key(news.happened))

    def incident(self, incident: Incident) -> None:
        """What is stored of an incident; one that lasted is shown again at its end."""
        open_ = incident.ended_at is None
        about = f" [{incident.engine_id}]" if incident.engine_id else ""
        ended = incident.ended_at
        lasted = (
            "lasts"
            if ended is None
            else f"lasted {(ended - incident.began_at).total_seconds():.3f} s until"
            f" {ended.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
        )
        self.line(
            datetime.now(UTC),
            "database",
            f"incident {incident.kind} {incident.incident_id}: {incident.reason};"
            f" noticed by {incident.noticed_by}, {lasted}{about}",
            key=("incident", incident.incident_id, open_),
        )

    def void(self, void: VoidMatch) -> None:
        """What is stored of a match without a winner."""
        summary = f": {void.summary}" if void.summary else ""
        self.line(
            void.ended_at,
            "database",
            f"void {void.match_id}: {void.reason}{summary}",
            key=("void", void.match_id, void.reason),
        )


def in_words(happened: Happened) -> str:
    """One line without a time."""
    match happened:
        case Timeout(key, seat, deadline_ns, proof, proof_ns):
            late = (proof_ns - deadline_ns) / 1_000_000
            return f"timeout {key.match_id}: {seat}, turn {key.decision_no}, proven by {proof} {late:.3f} ms after"
        case Void(match_id, _, reason, _, summary):
            return f"void {match_id}: {reason}: {summary}"
        case Mismatch(key, field, expected, got):
            return f"mismatch {key.match_id}: {field} is {got}, should be {expected}; a bug"
        case SessionLost(_, _, reason):
            return f"session lost: {reason}"
        case IncidentTold(incident_id, kind, _, _, _, _, lasted_ns, reason):
            return f"incident {kind} {incident_id}: {reason}; lasted {lasted_ns / 1e9:.3f} s"
        case IncidentMatch(incident_id, match_id):
            return f"void {match_id} because of incident {incident_id}"


def _key(happened: Happened) -> Hashable:
    match happened:
        case Void(match_id, _, reason):
            return "void", match_id, reason
        case IncidentTold(incident_id):
            return "incident", incident_id, False
        case Timeout(key):
            # Said again to each session and each owner that asks.
            return "timeout", key.match_id, key.decision_no
        case _:
            return None


async def follow_clock(address: str, secret: str, connect: Connect, screen: Screen) -> None:
    """Shows what a clock says, attaching again and again. Until cancelled."""
    failures, told = 0, False
    while True:
        heard, why = False, ""
        try:
            async with connect(address, CHANNEL_OPTIONS) as channel:
                metadata = (("authorization", f"Bearer {secret}"),)
                call = ClockServiceStub(channel).Watch(pb.WatchRequest(), metadata=metadata)
                while True:
                    async with asyncio.timeout(SILENCE_SECONDS):
                        response = await call.read()
                    if not isinstance(response, pb.WatchResponse):
                        why = str(await call.details() or "the clock leaves")
                        break
                    bulletin = clock_news.bulletin_from_pb(response)
                    if not heard:
                        heard, failures, told = True, 0, False
                        screen.remark(
                            address,
                            f"{bulletin.clock_id}: game processes {bulletin.engines}, matches {bulletin.matches}",
                        )
                    for news in bulletin.news:
                        screen.news(address, news)
        except grpc.aio.AioRpcError as error:
            why = str(error.details() or error.code().name)
            if error.code() is grpc.StatusCode.UNAUTHENTICATED:
                screen.remark(address, why)
                raise typer.Exit(1) from None
        except TimeoutError:
            why = "silent"
        except MalformedClockMessageError as error:
            why = f"speaks nonsense: {error}"
        if not told:
            # Once, not with every attempt.
            screen.remark(address, f"not followed: {why}; tried again")
            told = True
        await asyncio.sleep(RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)])
        failures += 1


async def follow_database(url: str, screen: Screen) -> None:
    """Shows what is stored, and goes on exactly where it was after the database was away. Until cancelled.

    Ends the command with status 2 when waiting would not help: no such address, database, role or table.
    """
    snapshot: str | None = None
    failures = 0
    while True:
        connection: Connection | None = None
        try:
            settings = session_settings("reader", "ops watch")
            connection = await asyncpg.connect(url, timeout=10, command_timeout=30, server_settings=settings)
            while True:
                stored = await stored_since(connection, snapshot)
                if snapshot is None or failures:
                    screen.remark("database", "followed")
                snapshot, failures = stored.snapshot, 0
                for incident in stored.incidents:
                    screen.incident(incident)
                for void in stored.voids:
                    screen.void(void)
                await asyncio.sleep(LOOK_SECONDS)
        except (*TRANSIENT, asyncpg.PostgresError) as error:
            why = str(error).partition("\n")[0] or type(error).__name__
            passing = isinstance(error, TRANSIENT) and not isinstance(error, asyncpg.ClientConfigurationError)
            # One that was followed comes back, whatever it says meanwhile.
            hopeless = snapshot is None and not passing
            if hopeless or not failures:
                screen.remark("database", f"not followed: {why}" + ("" if hopeless else "; tried again"))
            if hopeless:
                raise typer.Exit(UNREADABLE) from None
        finally:
            if connection is not None:
                connection.terminate()
        await asyncio.sleep(RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)])
        failures += 1


def watch(
    clock: Annotated[
        list[str] | None, typer.Option(help="host:port of a clock's internal address; may be repeated.")
    ] = None,
    database_url: Annotated[
        str,
        typer.Option(
            "--database-url", envvar=f"{PREFIX}DATABASE_URL", help="PostgreSQL; empty: not followed."
        ),
    ] = "",
) -> None:
    """Show what goes wrong with time as it happens, until Ctrl-C: timeouts, voids, lost sessions, incidents.

    Clocks want SPECTACULAR_BID_INTERNAL_SECRET in the environment.
    """
    clocks = clock or []
    for address in clocks:
        try:
            split_address(address)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--clock") from None
    secret = os.environ.get(SECRET_VARIABLE, "")
    if clocks and not secret:
        raise typer.BadParameter(f"{SECRET_VARIABLE} is not set", param_hint="--clock")
    if not clocks and not database_url:
        raise typer.BadParameter("say what to follow: --clock, --database-url, or both")
    screen = Screen(typer.echo)
    connect = connect_as_configured()

    async def follow() -> None:
        async with asyncio.TaskGroup() as tasks:
            for address in clocks:
                tasks.create_task(follow_clock(address, secret, connect, screen))
            if database_url:
                tasks.create_task(follow_database(database_url, screen))

    with suppress(KeyboardInterrupt):
        try:
            asyncio.run(follow())
        except* typer.Exit as group:
            raise group.exceptions[0] from None
