"""A page of metrics that is read while the service changes what it shows."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, generate_latest


@contextmanager
def _restless_threads() -> Iterator[None]:
    """Threads take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)


def read_while(change: Callable[[], None], registry: CollectorRegistry, *, times: int) -> list[BaseException]:
    """Reads the page so many times, on a thread of its own as in a process, while `change` goes on; what went wrong."""
    errors: list[BaseException] = []
    done = threading.Event()

    def read() -> None:
        try:
            for _ in range(times):
                generate_latest(registry)
        except BaseException as error:  # noqa: BLE001 - it is the test's, not this thread's
            errors.append(error)
        finally:
            done.set()

    with _restless_threads():
        thread = threading.Thread(target=read)
        thread.start()
        while not done.is_set():
            change()
        thread.join()
    return errors
