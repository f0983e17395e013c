"""Processes as their /metrics pages show them, found by address or by a name that stands for several."""

from __future__ import annotations

import asyncio
import http.client
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from services.common.settings import split_address

PATIENCE_SECONDS: Final = 2.0
"""A process that stands still takes connections and does not answer: so long it is waited for."""
AT_ONCE: Final = 32
"""Pages that are read at a time."""
PAGE_BYTES_MAX: Final = 8 * 1024 * 1024
ROLES: Final = ("matchmaking", "game", "clock", "canary")
# What only the pages of one kind of process have.
_SIGNS: Final = {
    "matchmaking": "spectacular_bid_leading",
    "game": "spectacular_bid_lease_age_seconds",
    "clock": "spectacular_bid_clock_sessions",
    "canary": "spectacular_bid_canary_runs_total",
}


@dataclass(frozen=True, slots=True)
class Target:
    """Where one or more processes show their metrics."""

    host: str
    port: int
    role: str = ""
    """What answers there, as far as the operator says; empty: it will say so itself."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def target_of(text: str) -> Target:
    """`host:port`, or `ROLE=host:port`. Raises ValueError."""
    role, equals, address = text.strip().rpartition("=")
    if equals and role not in ROLES:
        raise ValueError(f"{role!r} is no role: {', '.join(ROLES)}")
    return Target(*split_address(address), role)


@dataclass(frozen=True, slots=True)
class Page:
    """The samples of one page by name: labels and value of each."""

    samples: Mapping[str, Sequence[tuple[Mapping[str, str], float]]]

    @staticmethod
    def of(text: str) -> Page:
        """Raises ValueError when it is no page of metrics."""
        samples: dict[str, list[tuple[Mapping[str, str], float]]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                samples.setdefault(sample.name, []).append((sample.labels, sample.value))
        return Page(samples)

    def value(self, name: str, default: float = 0.0) -> float:
        """The sum of a series over its labels; `default` where there is none."""
        found = self.samples.get(name)
        return default if found is None else sum(value for _, value in found)

    def by(self, name: str, label: str) -> dict[str, float]:
        """The values of a series by one of its labels."""
        found: dict[str, float] = {}
        for labels, value in self.samples.get(name, ()):
            key = labels.get(label, "")
            found[key] = found.get(key, 0.0) + value
        return found

    def label(self, name: str, label: str) -> str:
        """The label of the only sample of a series; empty where there is none."""
        found = self.samples.get(name, ())
        return found[0][0].get(label, "") if found else ""

    @property
    def process(self) -> str:
        """What the process calls itself; empty when it does not say."""
        return self.label("spectacular_bid_process_info", "process")

    @property
    def role(self) -> str:
        """What kind of process shows this page; empty when it is none of ours."""
        return next((role for role, sign in _SIGNS.items() if sign in self.samples), "")


@dataclass(frozen=True, slots=True)
class Seen:
    """One process, or one that should be there."""

    target: Target
    """As it was asked for."""
    address: str
    """host:port that was asked; of the target where its name stands for nothing."""
    page: Page | None
    problem: str = ""
    """Why there is no page."""
    told: str = ""
    """What it called itself when it answered last, or what the network calls it; empty where neither is known."""

    @property
    def role(self) -> str:
        """What it is, as it says itself; else as the operator says."""
        return (self.page.role if self.page else "") or self.target.role

    @property
    def name(self) -> str:
        """What it calls itself; else what the network calls it, or its address."""
        return (self.page.process if self.page else "") or self.told or self.address

    @property
    def called(self) -> str:
        """What it is, what it is called, and where: for a sentence."""
        where = "" if self.name == self.address else f" ({self.address})"
        return f"{self.role or 'process'} {self.name}{where}"


@dataclass
class Reader:
    """Reads pages, several at a time. A context manager."""

    patience_seconds: float = PATIENCE_SECONDS
    resolve: Callable[[Target], list[tuple[str, str]]] = field(default_factory=lambda: addresses_of)
    """The addresses behind a target, each with the name that the network has for it."""
    _names: dict[str, str] = field(default_factory=dict)
    """What processes called themselves, by address: of one that is gone, it is not forgotten who it was."""
    _threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(AT_ONCE, thread_name_prefix="pages")
    )

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def read(self, targets: Iterable[Target]) -> list[Seen]:
        """Every process behind these targets, in their order; none is left out because it does not answer."""
        found = await asyncio.gather(*(self._behind(target) for target in targets))
        return [seen for behind in found for seen in behind]

    async def _behind(self, target: Target) -> list[Seen]:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self.patience_seconds):
                answers = await loop.run_in_executor(self._threads, self.resolve, target)
        except (OSError, TimeoutError) as error:
            return [Seen(target, str(target), None, f"its name stands for no address: {_in_words(error)}")]
        return list(await asyncio.gather(*(self._one(target, *answer) for answer in answers)))

    async def _one(self, target: Target, host: str, told: str) -> Seen:
        address = str(Target(host, target.port))
        loop = asyncio.get_running_loop()
        try:
            # The socket has a limit for each of its waits, this one is for all of them.
            async with asyncio.timeout(2 * self.patience_seconds):
                text = await loop.run_in_executor(
                    self._threads, _fetch, host, target.port, self.patience_seconds
                )
            page = Page.of(text)
        except (OSError, TimeoutError, ValueError, http.client.HTTPException) as error:
            return Seen(target, address, None, _in_words(error), self._names.get(address, told))
        if page.process:
            self._names[address] = page.process
        return Seen(target, address, page, told=told)


def addresses_of(target: Target) -> list[tuple[str, str]]:
    """The addresses a name stands for, each with the name that the network has for it; a literal address has none."""
    found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    hosts = sorted({str(each[4][0]) for each in found})
    return [(host, _told(host) if len(hosts) > 1 else "") for host in hosts]


def _told(host: str) -> str:
    """Behind a headless service, the names of addresses begin with the names of the processes."""
    try:
        return socket.gethostbyaddr(host)[0].partition(".")[0]
    except OSError:
        return ""


def _fetch(host: str, port: int, patience_seconds: float) -> str:
    connection = http.client.HTTPConnection(host, port, timeout=patience_seconds)
    try:
        connection.request("GET", "/metrics")
        response = connection.getresponse()
        body = response.read(PAGE_BYTES_MAX + 1)
        if response.status != http.client.OK or len(body) > PAGE_BYTES_MAX:
            raise ValueError(f"answers with status {response.status} and {len(body)} bytes")
        return body.decode()
    finally:
        connection.close()


def _in_words(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "does not answer"
    text = error.strerror if isinstance(error, OSError) else str(error)
    return (text or type(error).__name__).lower() if isinstance(error, OSError) else str(error)
