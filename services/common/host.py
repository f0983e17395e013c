"""The process around a service: servers, health, metrics, the database, signals, and an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

import asyncpg
import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from prometheus_client import CollectorRegistry
from prometheus_client.process_collector import ProcessCollector

from services.common import logs, tls, tracing
from services.common.admission import Admission
from services.common.channels import Connect, Options, plain
from services.common.files import keep_looking
from services.common.gates import Gate, OpenGate, OperatorGate, PlayerGate, SecretGate
from services.common.guard import MESSAGE_BYTES_MAX, METADATA_BYTES_MAX, Guard
from services.common.hardening import leave_no_core
from services.common.limits import Limits
from services.common.metrics import (
    CertificateMetrics,
    LimitMetrics,
    LoopMetrics,
    PoolMetrics,
    ReadinessMetrics,
    RpcMetrics,
    name_process,
)
from services.common.metricspage import MetricsPage
from services.common.redaction import clean
from services.common.rights import Rights
from services.common.settings import CommonSettings, Environment, SettingsError, variable
from services.storage.migrate import SchemaError, wait_for_schema
from services.storage.pool import TRANSIENT, DatabaseUnavailableError, MeteredPool, open_pool
from services.storage.server import Server, takes_writes

READY = "ready"
"""Health service name of readiness; the empty name is liveness."""

READINESS_PERIOD_SECONDS = 1.0
READINESS_TIMEOUT_SECONDS = 2.0
DRAIN_GRACES = 2
"""How often the drain grace is waited for at most until a process has taken its leave: a game process waits for its
matches, and for others to take them up."""
DRAIN_SECONDS_MORE = 3.0
"""For what else it has to say, and to store."""
LAST_TRACES_SECONDS = 2.0
"""How long a leaving process tries to send the traces it still has."""
LEAVE_SECONDS_MAX = 5.0
"""How long a process that has stopped may take to close what it has open, before it is gone anyway."""
CALL_GRACES = 2
"""How often the drain grace is waited for at most until calls under way have ended: by themselves, and once they are cut."""


def drain_seconds_max(settings: CommonSettings) -> float:
    """How long a process may take from SIGTERM to its end: whoever kills it must wait longer."""
    graces = DRAIN_GRACES + CALL_GRACES
    more = DRAIN_SECONDS_MORE + LAST_TRACES_SECONDS + LEAVE_SECONDS_MAX
    return graces * settings.drain_grace_seconds + more


SERVER_OPTIONS: list[tuple[str, Any]] = [
    # Beyond this the library refuses by itself, without a reason; the guard refuses sooner, and says why.
    ("grpc.max_metadata_size", 2 * METADATA_BYTES_MAX),
    ("grpc.absolute_max_metadata_size", 2 * METADATA_BYTES_MAX),
    ("grpc.so_reuseport", 0),
    # Clients may ping on quiet streams too, every 10 s and more often: strikes are off, so nobody gets too_many_pings.
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_ping_strikes", 0),
    # Calls that the library has taken and we have not looked at yet. Beyond these it drops some at random, anybody's, as
    # CANCELLED without a word: by default from 1000 on.
    ("grpc.server.max_pending_requests", 20_000),
    ("grpc.server.max_pending_requests_hard_limit", 40_000),
    # Who connects and says nothing.
    ("grpc.server_handshake_timeout_ms", 10_000),
]
PUBLIC_OPTIONS: list[tuple[str, Any]] = [
    # A connection without a call; the next call opens another.
    ("grpc.max_connection_idle_ms", 10 * 60 * 1000),
    # New calls go to a new connection then; those under way, and readers that do not read, have so long again.
    ("grpc.max_connection_age_ms", 60 * 60 * 1000),
    ("grpc.max_connection_age_grace_ms", 60 * 60 * 1000),
    ("grpc.max_allowed_incoming_connections", 10_000),
]
INTERNAL_MESSAGE_BYTES_MAX = 16 * 1024 * 1024


class Host:
    """One service process."""

    def __init__(self, name: str, settings: CommonSettings, pool: MeteredPool) -> None:
        self.name = name
        self.settings = settings
        self.pool = pool
        self.log = logs.get_logger()
        self.registry = CollectorRegistry()
        self.stopping = asyncio.Event()
        """Set by SIGTERM or SIGINT: finish and leave."""
        self.database_ready = False
        self.database = Server()
        """Which server the database is."""
        self._certificates = tls.public(settings)
        internal = self._internal_certificates = tls.internal(settings)
        self.connect: Connect = plain if internal is None else internal.connect
        """Opens a channel to an internal port of another process."""
        expiry = CertificateMetrics(self.registry)
        for certificates, gauge in ((self._certificates, expiry.public), (internal, expiry.internal)):
            if certificates is not None:
                gauge.set_function(certificates.expiry_seconds)
        self._admission = Admission(settings, pool)
        self.public_address: str | None = None
        self.internal_address: str | None = None
        self._rpc_metrics = RpcMetrics(self.registry)
        self._limit_metrics = LimitMetrics(self.registry)
        self._public: grpc.aio.Server | None = None
        self._servers: list[tuple[grpc.aio.Server, Guard, list[str]]] = []
        self._health = health.aio.HealthServicer()
        self._readiness: dict[str, Callable[[], bool]] = {}
        self._drains: list[Callable[[], Awaitable[None]]] = []
        self._asking: asyncio.Task[bool] | None = None
        version = importlib.metadata.version("spectacular-bid")
        try:
            self.tracer = tracing.open_tracer(settings.tracing_endpoint, name)
        except tracing.TracingUnavailableError as error:
            raise SettingsError(f"{variable('tracing_endpoint')}: {error}") from None
        self._readiness_metrics = ReadinessMetrics(self.registry, version)
        name_process(self.registry, name, settings.process_name)
        self._loop_metrics = LoopMetrics(self.registry)
        PoolMetrics(self.registry, pool)
        ProcessCollector(registry=self.registry)
        self._rights = Rights(name, strict=settings.env is Environment.PRODUCTION)
        self.add_readiness("database", lambda: self.database_ready)
        self.add_readiness("rights", lambda: self._rights.sufficient)

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, name: str, settings: CommonSettings) -> AsyncIterator[Host]:
        """A host whose database can be reached and has the schema this release needs.

        Raises DatabaseUnavailableError or SchemaError when that is not so within `schema_wait_seconds`.
        """
        logs.get_logger().info("settings", service=name, **settings.redacted())
        url = settings.database_url.get_secret_value()
        began = time.monotonic()
        server = Server()
        pool = await open_pool(
            url,
            name=name,
            size=settings.database_pool_size,
            wait_seconds=settings.schema_wait_seconds,
            on_connect=server.met,
        )
        try:
            left = settings.schema_wait_seconds - (time.monotonic() - began)
            await wait_for_schema(pool, max(1.0, left))
            host = cls(name, settings, pool)
            host.database = server
            yield host
        finally:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(pool.close(), 5)
            pool.terminate()

    async def public_server(self, open_methods: frozenset[str] = frozenset()) -> grpc.aio.Server:
        """The server for players on `listen`: tokens are checked, except for `open_methods`."""
        settings = self.settings
        gate = PlayerGate(self._admission.verify(), open_methods)
        guard = self._guard(gate)
        # Some more than we take: what is too large by little is refused with a reason.
        options = [*PUBLIC_OPTIONS, ("grpc.max_receive_message_length", 4 * MESSAGE_BYTES_MAX)]
        server, address = self._server(guard, settings.listen, options, self._certificates)
        self._servers.append((server, guard, [health.SERVICE_NAME]))
        self.public_address = address
        self._public = server
        return server

    async def internal_server(self, operators: str | None = None) -> grpc.aio.Server:
        """The server for the other services on `internal_listen`; calls under the path `operators` are for operators'
        tokens."""
        settings = self.settings
        gate: Gate = SecretGate(settings.internal_secret.get_secret_value())
        if operators is not None:
            gate = OperatorGate(gate, self._admission.verify(), operators)
        # Whether a service is there is for keepalives to say: one that stood still is waited for.
        guard = self._guard(gate, bytes_max=INTERNAL_MESSAGE_BYTES_MAX, write_seconds=None)
        options = [("grpc.max_receive_message_length", INTERNAL_MESSAGE_BYTES_MAX)]
        server, address = self._server(guard, settings.internal_listen, options, self._internal_certificates)
        self._servers.append((server, guard, [health.SERVICE_NAME]))
        self.internal_address = address
        return server

    def _guard(self, gate: Gate, **more: Any) -> Guard:
        limits = Limits(self.settings.limit_policy)
        return Guard(
            gate,
            self._rpc_metrics,
            limits,
            self._limit_metrics,
            tracer=self.tracer,
            tenures=self._admission.tenures,
            **more,
        )

    def _server(
        self, guard: Guard, listen: str, more: Options, certificates: tls.Certificates | None
    ) -> tuple[grpc.aio.Server, str]:
        settings = self.settings
        timeout_ms = int(settings.keepalive_timeout_seconds * 1000)
        options = [
            *SERVER_OPTIONS,
            *more,
            # Calls that wait for their refusal count, taken back or not: beyond, the library refuses without us.
            ("grpc.max_concurrent_streams", settings.connection_calls),
            ("grpc.keepalive_time_ms", int(settings.keepalive_seconds * 1000)),
            ("grpc.keepalive_timeout_ms", timeout_ms),
            # Without it a ping is given a minute, whatever the keepalive timeout says.
            ("grpc.http2.ping_timeout_ms", timeout_ms),
        ]
        server = grpc.aio.server(interceptors=[guard], options=options)
        address = self._bind(server, listen, certificates)
        return server, address

    def _bind(self, server: grpc.aio.Server, listen: str, certificates: tls.Certificates | None) -> str:
        try:
            if certificates is None:
                port = server.add_insecure_port(listen)
            else:
                port = server.add_secure_port(listen, certificates.server_credentials())
        except RuntimeError as error:
            raise SettingsError(f"cannot listen on {listen}: {error}") from None
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        return f"{listen.rpartition(':')[0]}:{port}"

    def register(
        self,
        server: grpc.aio.Server,
        add: Callable[[Any, grpc.aio.Server], None],
        servicer: Any,
        service_name: str,
    ) -> None:
        """Adds a servicer, and all metrics of its methods at zero."""
        add(servicer, server)
        for known, _, names in self._servers:
            if known is server:
                names.append(service_name)
        self._rpc_metrics.prepare(service_name)

    def add_readiness(self, name: str, check: Callable[[], bool]) -> None:
        """A condition without which this process is not ready."""
        self._readiness[name] = check
        self._readiness_metrics.add(name)

    def on_drain(self, callback: Callable[[], Awaitable[None]]) -> None:
        """Called in order after a stop signal, while the servers still answer."""
        self._drains.append(callback)

    def stop_on_signals(self) -> None:
        """SIGTERM and SIGINT set `stopping`."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stopping.set)

    async def run(self) -> None:
        """Serves until a stop signal, then drains and stops."""
        self.stop_on_signals()
        page = MetricsPage(self.settings.metrics_listen, self.registry)
        await self._health.set("", health_pb2.HealthCheckResponse.SERVING)
        await self._health.set(READY, health_pb2.HealthCheckResponse.NOT_SERVING)
        watcher = asyncio.create_task(self._watch_readiness(), name="readiness")
        files = asyncio.create_task(self._watch_files(), name="files")
        await self._admission.look()
        admission = asyncio.create_task(self._admission.keep_looking(), name="admission")
        stalls = asyncio.create_task(self._loop_metrics.run(), name="stalls of the loop")
        # For what asks without a certificate: nothing but health is answered there, so it may be plain.
        health_server, health_address = self._server(
            self._guard(OpenGate()), self.settings.health_listen, PUBLIC_OPTIONS, None
        )
        try:
            await health_server.start()
            for server, _, names in self._servers:
                if self._reflects(server):
                    reflection.enable_server_reflection([*names, reflection.SERVICE_NAME], server)
                await server.start()
            self.log.info(
                "listening",
                service=self.name,
                public=self.public_address,
                internal=self.internal_address,
                metrics=page.address,
                health=health_address,
            )
            stopped = asyncio.create_task(self.stopping.wait(), name="stopped")
            await asyncio.wait({stopped, watcher, admission}, return_when=asyncio.FIRST_COMPLETED)
            if not stopped.done():
                # They end by a bug alone. Rather no process than one that says for ever what was true once.
                stopped.cancel()
                for ended in (task for task in (watcher, admission) if task.done()):
                    ended.result()
            self.log.info("draining", service=self.name)
            watcher.cancel()
            await self._set_ready(ready=False)
            await self._drain()
        finally:
            watcher.cancel()
            if self._asking is not None:
                self._asking.cancel()
            files.cancel()
            await self._stop_servers()
            admission.cancel()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.to_thread(self.tracer.close), LAST_TRACES_SECONDS)
            await health_server.stop(None)
            stalls.cancel()
            page.close()
            self.log.info("stopped", service=self.name)
        # Of a connection that a cancelled task leaves in the middle of a query, asyncpg awaits the answer, for half a
        # minute and more when the database hangs. Nothing that is still to come is worth that.
        asyncio.get_running_loop().call_later(LEAVE_SECONDS_MAX, _leave)

    def _reflects(self, server: grpc.aio.Server) -> bool:
        asked = self.settings.reflection
        if self.settings.env is Environment.PRODUCTION:
            return asked is True and server is self._public
        return asked is not False

    async def _drain(self) -> None:
        # Not a timeout around them: it would wait for whatever ignores being cancelled, as a query does whose database hangs.
        async def drain_all() -> None:
            for drain in self._drains:
                await drain()

        drains = asyncio.create_task(drain_all(), name="drain")
        seconds = DRAIN_GRACES * self.settings.drain_grace_seconds + DRAIN_SECONDS_MORE
        done, _ = await asyncio.wait({drains}, timeout=seconds)
        if not done:
            drains.cancel()
            self.log.warning("drain_cut_short", service=self.name, seconds=seconds)
            return
        drains.result()

    async def _stop_servers(self) -> None:
        grace = self.settings.drain_grace_seconds
        for _, guard, _ in self._servers:
            guard.close()
        await asyncio.gather(*(server.stop(grace) for server, _, _ in self._servers))
        left = [task for _, guard, _ in self._servers for task in guard.running]
        if left:
            await asyncio.wait(left, timeout=grace)

    async def _watch_readiness(self) -> None:
        was: set[str] | None = None
        while True:
            self.database_ready = await self._database_answers()
            holds = {name: check() for name, check in self._readiness.items()}
            self._readiness_metrics.look(holds)
            missing = {name for name, held in holds.items() if not held}
            if missing != was:
                self.log.info("readiness", service=self.name, ready=not missing, missing=sorted(missing))
                was = missing
            await self._set_ready(ready=not missing)
            # Until ready, look often: others wait for it.
            await asyncio.sleep(0.1 if missing else READINESS_PERIOD_SECONDS)

    async def _watch_files(self) -> None:
        read = (self._certificates, self._internal_certificates, self._admission.verifier)
        await keep_looking([files for files in read if files is not None])

    async def _set_ready(self, *, ready: bool) -> None:
        status = health_pb2.HealthCheckResponse
        await self._health.set(READY, status.SERVING if ready else status.NOT_SERVING)
        self._readiness_metrics.ready.set(ready)

    async def _database_answers(self) -> bool:
        # A query that is cancelled waits for its answer all the same, in asyncpg, and this must not hang with the database:
        # one that is late is left alone, and no other is asked meanwhile.
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask_database(), name="asking the database")
        await asyncio.wait({self._asking}, timeout=READINESS_TIMEOUT_SECONDS)
        return self._asking.done() and self._asking.result()

    async def _ask_database(self) -> bool:
        try:
            answers = await takes_writes(self.pool)
            await self._rights.look(self.pool)
            return answers
        except (*TRANSIENT, asyncpg.PostgresError):
            return False


def run_service(
    main: Callable[[], Coroutine[Any, Any, None]],
    *,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> None:
    """Runs a service's main coroutine and ends the process; faults of the surroundings end it with one clear line and
    status 1."""
    leave_no_core()
    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(main())
            _leave()
    except* (SettingsError, DatabaseUnavailableError, SchemaError) as group:
        for error in group.exceptions:
            sys.stderr.write(f"cannot start: {clean(str(error))}\n")
        raise SystemExit(1) from None


def _leave() -> None:
    """Ends the process. All that must be closed is.

    Taking the interpreter apart, object by object, would take seconds on a busy machine, and a thread that a library has
    left behind would keep the process from ending at all: nobody may wait for either.
    """
    with contextlib.suppress(OSError):
        logs.flush()
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(0)
