"""What must hold of the processes, their logs and the database when everybody has gone home."""

from __future__ import annotations

import asyncio
import json
import re
import time
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from services.clock.explanation import explain
from services.storage import consistency, ladderaudit
from services.storage.evidence import get_time_facts
from services.storage.pool import Connection
from services.storage.script import start_of
from tests.stack import Stack

SECONDS_MAX: Final = 60.0
"""How long streams and matches may take to be gone: far more than they need."""
GAUGES: Final = re.compile(
    r"^(spectacular_bid_(?:streams|live_matches|players_waiting)(?:\{[^}]*\})?) ([0-9.e+]+)$",
    re.M,
)
"""What must be as it was before."""
ALARMING: Final = frozenset({"call_failed", "room_held", "room_not_voided", "log_lost", "fenced"})
"""What no client may cause a process to log."""
_IN_WORDS: Final = re.compile(rb"[0-6]\|[0-6]")


@dataclass
class Before:
    """A stack before anybody came."""

    made: Stack
    gauges: dict[str, float]
    logged: dict[str, int]
    broken: set[str]
    """What the check of the database finds already: others may have left something on purpose."""

    @classmethod
    async def of(cls, made: Stack) -> Before:
        """As it is now."""
        logged = {name: process.log_path.stat().st_size for name, process in made.processes.items()}
        return cls(made, await gauges(made), logged, set(await _broken(await made.database())))

    async def faults(self, salts: Iterable[bytes], match_ids: Iterable[str]) -> list[str]:
        """Everything that is not as it was, or wrong in itself. These matches are explained from their stamps."""
        found = [
            f"{name} ended with {process.exit_status()}"
            for name, process in self.made.processes.items()
            if process.exit_status() is not None
        ]
        if found:
            return found
        found += await self._left_over()
        found += self._logs([salt.hex().encode() for salt in salts])
        connection = await self.made.database()
        found += [fault for fault in await _broken(connection) if fault not in self.broken]
        for match_id in match_ids:
            found += await _unexplained(connection, match_id)
        return found

    async def _left_over(self) -> list[str]:
        give_up = time.monotonic() + SECONDS_MAX
        while True:
            now = await gauges(self.made)
            more = [name for name, value in now.items() if value > self.gauges.get(name, 0.0)]
            if not more:
                return []
            if time.monotonic() > give_up:
                return [f"{name} is {now[name]}, and was {self.gauges.get(name, 0.0)}" for name in more]
            await asyncio.sleep(0.05)

    def _logs(self, secrets: list[bytes]) -> list[str]:
        found = []
        for name, process in self.made.processes.items():
            with process.log_path.open("rb") as file:
                file.seek(self.logged.get(name, 0))
                said = file.read()
            found += [f"{name} logged the salt {secret!r}" for secret in secrets if secret in said]
            found += [f"{name} logged a tile in words: {tile!r}" for tile in set(_IN_WORDS.findall(said))]
            found += [f"{name} logged: {fault}" for line in said.splitlines() if (fault := _alarming(line))]
        return found


def _alarming(line: bytes) -> str:
    """A log line that should not be; empty for one that may."""
    try:
        logged = json.loads(line)
    except ValueError:
        return f"no JSON: {line[:200]!r}"
    alarming = logged.get("event") in ALARMING or logged.get("level") in ("error", "critical")
    return json.dumps(logged)[-1500:] if alarming or "exception" in logged else ""


async def _broken(connection: Connection) -> list[str]:
    """What does not hold between the tables, and what the ladder should be."""
    # One snapshot: matches of others may end meanwhile.
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        broken = await consistency.broken_rules(connection)
        audit = await ladderaudit.compare(connection)
    found = [f"not so: {each.rule}: {each.first}" for each in broken]
    return found + [f"the ladder differs: {difference}" for difference in audit.differences]


async def _unexplained(connection: Connection, match_id: str) -> list[str]:
    """What of a match's time and end does not follow from its stored stamps."""
    facts = await get_time_facts(connection, match_id)
    assert facts is not None
    start = start_of(facts.script, facts.bank_ns, facts.delay_ns, same_device=facts.same_device)
    return [f"match {match_id}: {fault}" for fault in explain(facts, start).faults]


async def gauges(made: Stack) -> dict[str, float]:
    """What is open and waiting in all processes together."""
    found: dict[str, float] = {}
    for name in made.processes:
        address = await made.metrics_address(name)
        page = await asyncio.to_thread(_page, f"http://{address}/metrics")
        for series, value in GAUGES.findall(page):
            # Streams between our own processes stay.
            if ".internal." not in series:
                # All phases of matches together: those of others go on meanwhile.
                what = f"{name} {series.partition('{')[0] if 'phase=' in series else series}"
                found[what] = found.get(what, 0.0) + float(value)
    return found


def _page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - our own
        text: str = answer.read().decode()
    return text
