"""/metrics over HTTP, on threads of its own: a bounded number, none of which waits long for whoever asks."""

from __future__ import annotations

import socket
import threading
from socketserver import ThreadingMixIn
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app

from services.common.settings import split_address

REQUEST_SECONDS: Final = 5.0
"""Whoever asks has so long to say what for, and to take the page."""
AT_ONCE_MAX: Final = 16
"""Requests at once; beyond them connections are closed unread, which a scraper counts as a page that is not there."""


class _Handler(WSGIRequestHandler):
    timeout = REQUEST_SECONDS

    def handle(self) -> None:
        # Half a request, or a page that is not taken: that is over, and nobody's fault.
        try:
            super().handle()
        except OSError:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Who reads the page is no event."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, *args: Any) -> None:
        self._turns = threading.BoundedSemaphore(AT_ONCE_MAX)
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._turns.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._turns.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing on standard error: what a process writes is JSON."""


class _Server6(_Server):
    address_family = socket.AF_INET6


class MetricsPage:
    """/metrics on its own port."""

    def __init__(self, listen: str, registry: CollectorRegistry) -> None:
        host, port = split_address(listen)
        kind = _Server6 if ":" in host else _Server
        self._server = make_server(host, port, make_wsgi_app(registry), kind, _Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()
        self.address = f"{host}:{self._server.server_port}"

    def close(self) -> None:
        """Stops serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)
