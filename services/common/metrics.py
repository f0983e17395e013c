"""Metrics that every service has, on an injected registry."""

from __future__ import annotations

import threading
from wsgiref.simple_server import WSGIServer

import grpc
import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from services.common.settings import split_address

# `_created` series double the page and tell nothing that Prometheus needs.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]

LATENCY_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


class RpcMetrics:
    """The conventional grpc_server_* series."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.started = Counter(
            "grpc_server_started_total", "Calls started.", ["grpc_method"], registry=registry
        )
        self.handled = Counter(
            "grpc_server_handled_total", "Calls completed.", ["grpc_method", "grpc_code"], registry=registry
        )
        self.seconds = Histogram(
            "grpc_server_handling_seconds",
            "Duration of unary calls.",
            ["grpc_method"],
            buckets=LATENCY_BUCKETS,
            registry=registry,
        )
        self.streams = Gauge("grpc_server_streams", "Streams open now.", ["grpc_method"], registry=registry)

    def prepare(self, methods: list[str]) -> None:
        """Creates the series of known methods at zero."""
        for method in methods:
            self.started.labels(method)
            self.seconds.labels(method)
            self.streams.labels(method)
            for code in grpc.StatusCode:
                self.handled.labels(method, code.name)


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


class MetricsPage:
    """/metrics on its own thread and port."""

    def __init__(self, listen: str, registry: CollectorRegistry) -> None:
        host, port = split_address(listen)
        self._server: WSGIServer
        self._thread: threading.Thread
        self._server, self._thread = start_http_server(port, addr=host, registry=registry)
        self.address = f"{host}:{self._server.server_port}"

    def close(self) -> None:
        """Stops serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)
