"""Metrics that every service has, on an injected registry."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import grpc
import prometheus_client
from google.protobuf.descriptor_pool import Default
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from services.common.counting import Counts, Spreads
from services.common.limits import Limit
from services.storage.pool import MeteredPool

# `_created` series double the page and tell nothing that Prometheus needs.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]

LATENCY_BUCKETS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
DURATION_BUCKETS: Final = (*LATENCY_BUCKETS, 60.0, 600.0, 3600.0)
"""Of whole calls: a stream lasts as long as its match."""
TICK_SECONDS: Final = 0.05
"""How often the loop is asked whether it is late: whatever stands still for so long is always seen. It wakes a process
that has nothing else to do, which costs some 300 us each time, most of it cold caches."""
STALL_SECONDS_MIN: Final = 0.01
STALL_BUCKETS: Final = (0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0)

_TYPES: Final = {
    (False, False): "unary",
    (True, False): "client_stream",
    (False, True): "server_stream",
    (True, True): "bidi_stream",
}


class CallMetrics:
    """The series of one method, looked up once: what is counted with every message must cost nothing."""

    def __init__(
        self, every: RpcMetrics, path: str, *, client_streaming: bool, server_streaming: bool
    ) -> None:
        service, method = path[1:].split("/")
        labels = (_TYPES[client_streaming, server_streaming], service, method)
        self.started = every.started.labels(*labels)
        self.seconds = every.seconds.labels(*labels)
        self.received = every.received.labels(*labels)
        self.sent = every.sent.labels(*labels)
        self.handled = {code: every.handled.labels(*labels, code.name) for code in grpc.StatusCode}
        self.streams: Gauge | None = None
        self.slow: Counter | None = None
        if client_streaming or server_streaming:
            self.streams = every.streams.labels(service, method)
        if server_streaming:
            self.slow = every.slow.labels(service, method)


class RpcMetrics:
    """The standard grpc_server_* series, and what they do not tell of streams."""

    def __init__(self, registry: CollectorRegistry) -> None:
        standard, ours = ["grpc_type", "grpc_service", "grpc_method"], ["grpc_service", "grpc_method"]
        self.started = Counts("grpc_server_started_total", "Calls started.", standard, registry)
        self.handled = Counts(
            "grpc_server_handled_total", "Calls completed.", [*standard, "grpc_code"], registry
        )
        self.seconds = Spreads(
            "grpc_server_handling_seconds",
            "Duration of calls; of a stream, from its beginning to its end.",
            standard,
            DURATION_BUCKETS,
            registry,
        )
        self.received = Counts("grpc_server_msg_received_total", "Messages received.", standard, registry)
        self.sent = Counts("grpc_server_msg_sent_total", "Messages sent.", standard, registry)
        self.streams = Gauge("spectacular_bid_streams", "Streams open now.", ours, registry=registry)
        self.slow = Counter(
            "spectacular_bid_slow_consumers_total",
            "Streams whose reader did not keep up.",
            ours,
            registry=registry,
        )
        self._calls: dict[str, CallMetrics] = {}

    def of(self, path: str, *, client_streaming: bool, server_streaming: bool) -> CallMetrics:
        """The series of a method, by its path `/service/method`."""
        known = self._calls.get(path)
        if known is None:
            known = CallMetrics(
                self, path, client_streaming=client_streaming, server_streaming=server_streaming
            )
            self._calls[path] = known
        return known

    def prepare(self, service: str) -> None:
        """Creates the series of all methods of a service at zero. Its generated module must have been imported."""
        for method in Default().FindServiceByName(service).methods:
            self.of(
                f"/{service}/{method.name}",
                client_streaming=method.client_streaming,
                server_streaming=method.server_streaming,
            )


class LimitMetrics:
    """What was refused because somebody asked for too much."""

    def __init__(self, registry: CollectorRegistry) -> None:
        refused = Counter(
            "spectacular_bid_limit_refusals_total",
            "Calls and streams refused or ended by a limit.",
            ["limit"],
            registry=registry,
        )
        self._by_limit = {limit: refused.labels(limit.value) for limit in Limit}

    def count(self, limit: Limit) -> None:
        """One more."""
        self._by_limit[limit].inc()


def name_process(registry: CollectorRegistry, service: str, process: str) -> None:
    """Says on the page which process shows it: where several have one address, only it knows."""
    info = Gauge(
        "spectacular_bid_process_info",
        "Always 1: which process this is.",
        ["service", "process"],
        registry=registry,
    )
    info.labels(service, process).set(1)


class ReadinessMetrics:
    """Whether a process is ready, what for, and of which release it is."""

    def __init__(self, registry: CollectorRegistry, version: str) -> None:
        self.ready = Gauge("spectacular_bid_ready", "1 while this process is ready.", registry=registry)
        self._conditions = Gauge(
            "spectacular_bid_readiness_condition",
            "1 while a condition of readiness holds, as it was last looked at.",
            ["condition"],
            registry=registry,
        )
        build = Gauge("spectacular_bid_build_info", "Always 1.", ["version"], registry=registry)
        build.labels(version).set(1)

    def add(self, condition: str) -> None:
        """There is such a condition; it does not hold so far."""
        self._conditions.labels(condition)

    def look(self, conditions: Mapping[str, bool]) -> None:
        """What holds now."""
        for condition, holds in conditions.items():
            self._conditions.labels(condition).set(holds)


class PoolMetrics:
    """The connections to the database, and how long one is waited for."""

    def __init__(self, registry: CollectorRegistry, pool: MeteredPool) -> None:
        connections = Gauge(
            "spectacular_bid_database_pool_connections",
            "Open connections to the database.",
            ["state"],
            registry=registry,
        )
        connections.labels("idle").set_function(pool.get_idle_size)
        connections.labels("busy").set_function(lambda: pool.get_size() - pool.get_idle_size())
        waits = Histogram(
            "spectacular_bid_database_pool_wait_seconds",
            "From asking the pool for a connection to having one.",
            buckets=LATENCY_BUCKETS,
            registry=registry,
        )
        pool.on_acquired = waits.observe


class LoopMetrics:
    """Stretches in which the event loop did not run: nobody was heard, and nothing was sent."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._stalls = Histogram(
            "spectacular_bid_loop_stall_seconds",
            "How late a timer of the event loop went off, from 10 ms on.",
            buckets=STALL_BUCKETS,
            registry=registry,
        )

    async def run(self) -> None:
        """Watches the loop it runs on, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + TICK_SECONDS
            await asyncio.sleep(TICK_SECONDS)
            late = loop.time() - due
            if late >= STALL_SECONDS_MIN:
                self._stalls.observe(late)


class CertificateMetrics:
    """When certificates expire."""

    def __init__(self, registry: CollectorRegistry) -> None:
        expiry = Gauge(
            "spectacular_bid_certificate_expiry_timestamp_seconds",
            "When the certificate of a port expires, in seconds since 1970; 0 without TLS.",
            ["port"],
            registry=registry,
        )
        self.public = expiry.labels("public")
        self.internal = expiry.labels("internal")
