"""The faults, one after the other. Each strikes, holds for a while, is healed, and is described by what it did."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import asyncpg

from tests.chaos.cable import run
from tests.chaos.rig import CLOCKS, FAR_GAME, MATCHMAKERS, NAMESPACE_VARIABLE, Rig
from tests.proxy import Way

DELAY_SECONDS: Final = 0.3
_LOSS: Final = ("tc", "qdisc", "add", "dev", "lo", "root", "netem", "loss", "5%", "delay", "5ms")
_NO_LOSS: Final = ("tc", "qdisc", "del", "dev", "lo", "root")


@dataclass(frozen=True)
class Injection:
    """One fault."""

    kind: str
    target: str
    """Names of processes or links; `busy` in it stands for the game process with most matches, `idle` for the other,
    `leader` for the matchmaking process that leads."""
    seconds: float
    strike: Callable[[Rig, str], Awaitable[None]]
    heal: Callable[[Rig, str], Awaitable[None]]
    skip: str = ""
    """Why it cannot be done on this machine."""

    async def resolve(self, made: Rig) -> str:
        """The target's name now."""
        busy = await busiest(made)
        names = {"busy": busy, "idle": made.other(busy), "leader": made.leader()}
        names["standby"] = made.other(names["leader"])
        return "-".join(names.get(word, word) for word in self.target.split("-"))


async def busiest(made: Rig) -> str:
    """The game process that plays most matches."""
    connection = await asyncpg.connect(made.postgres.url)
    try:
        owner = await connection.fetchval(
            """
            select engine_id from match_owner where released_at is null
            group by engine_id order by count(*) desc, engine_id limit 1
            """
        )
    finally:
        await connection.close()
    return owner or "game"


# Processes.


async def _kill(made: Rig, name: str) -> None:
    made.kill(name)
    if name in MATCHMAKERS:
        await made.leading(made.other(name))


async def _kill_standby(made: Rig, name: str) -> None:
    made.kill(name)


async def _restart(made: Rig, name: str) -> None:
    await made.restart(name)


async def _kill_clock(made: Rig, name: str) -> None:
    await _judged_by(made, name)
    made.kill(name)


async def _judged_by(made: Rig, name: str) -> None:
    """Has all game processes attach to this clock first."""
    made.prefer_clock(name)
    for link in ("game-clock", "game-1-clock"):
        made.links[link].cut()
    await asyncio.sleep(1.5)


async def _stop(made: Rig, name: str) -> None:
    if name in CLOCKS:
        await _judged_by(made, name)
    made.stack.processes[name].signal(signal.SIGSTOP)


async def _continue(made: Rig, name: str) -> None:
    made.stack.processes[name].signal(signal.SIGCONT)


async def _leave(made: Rig, name: str) -> None:
    made.stack.processes[name].signal(signal.SIGTERM)


async def _come_back(made: Rig, name: str) -> None:
    await made.stack.processes[name].ended()
    await made.restart(name)


# PostgreSQL.


async def _kill_postgres(made: Rig, _: str) -> None:
    made.kill_postgres()


async def _start_postgres(made: Rig, _: str) -> None:
    await made.start_postgres()
    await _somebody_leads(made)


async def _stop_postgres(made: Rig, _: str) -> None:
    made.stop_postgres(signal.SIGSTOP)


async def _continue_postgres(made: Rig, _: str) -> None:
    made.stop_postgres(signal.SIGCONT)
    await _somebody_leads(made)


async def _somebody_leads(made: Rig) -> None:
    """Sends everybody to the matchmaking process that leads now: it may be the other one."""
    await asyncio.sleep(1.5)
    made.prefer_matchmaking(made.leader())
    for link in ("client-matchmaking", "game-matchmaking", "game-1-matchmaking"):
        made.links[link].cut()


# Links.


async def _delay(made: Rig, link: str) -> None:
    for way in Way:
        made.links[link].delay(way, DELAY_SECONDS)


async def _cut(made: Rig, link: str) -> None:
    made.links[link].refusing = True
    made.links[link].cut()


async def _black_hole(made: Rig, link: str) -> None:
    made.links[link].swallow(Way.UP, Way.DOWN)


async def _half_open(made: Rig, link: str) -> None:
    made.links[link].swallow(Way.DOWN)


async def _heal(made: Rig, link: str) -> None:
    made.links[link].heal()
    if link.endswith("-postgres") and link.startswith("matchmaking"):
        await _somebody_leads(made)


FAULTS: Final = {"delay": _delay, "cut": _cut, "black hole": _black_hole, "half-open": _half_open}


# The whole network, in a namespace of its own.


def namespace_missing() -> str:
    """Why this machine gives us no network of our own; empty when it does."""
    if os.environ.get(NAMESPACE_VARIABLE):
        return ""
    if not shutil.which("unshare") or not shutil.which("ip"):
        return "unshare or ip is not installed"
    tried = subprocess.run(
        [*namespace_command(), "ip", "link", "set", "lo", "up"], capture_output=True, check=False
    )
    return "" if tried.returncode == 0 else tried.stderr.decode().strip().splitlines()[-1]


def loss_missing() -> str:
    """Why packets cannot be made to vanish here; empty when they can."""
    if not shutil.which("tc"):
        return "tc is not installed"
    add = subprocess.run([*_LOSS, "limit", "1000"], capture_output=True, check=False)
    if add.returncode:
        return add.stderr.decode().strip().splitlines()[-1]
    subprocess.run(_NO_LOSS, check=True)
    return ""


def namespace_command() -> list[str]:
    """What runs a program with a network of its own."""
    return ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]


async def _network_down(_made: Rig, _link: str) -> None:
    await run("ip", "link", "set", "lo", "down")


async def _network_up(made: Rig, _link: str) -> None:
    await run("ip", "link", "set", "lo", "up")
    await _somebody_leads(made)


async def _lossy(_made: Rig, _link: str) -> None:
    await run(*_LOSS)


async def _lossless(made: Rig, _link: str) -> None:
    await run(*_NO_LOSS)
    await _somebody_leads(made)


async def _pull(made: Rig, _name: str) -> None:
    assert made.cable is not None, "in a network of our own"
    await made.cable.pull()


async def _plug(made: Rig, _name: str) -> None:
    assert made.cable is not None, "in a network of our own"
    await made.cable.plug()


def everything() -> list[Injection]:
    """The whole programme."""
    found = [Injection("SIGKILL", name, 1.0, _kill, _restart) for name in ("busy", "idle")]
    # Past its lease: the other one goes on.
    found += [Injection("SIGKILL", "busy", 12.0, _kill, _restart)]
    found += [Injection("SIGKILL", name, 1.0, _kill_clock, _restart) for name in CLOCKS]
    found += [Injection("SIGKILL", "leader", 1.0, _kill, _restart)]
    found += [Injection("SIGKILL", "standby", 1.0, _kill_standby, _restart)]
    found += [Injection("SIGTERM", name, 0.0, _leave, _come_back) for name in ("busy", *CLOCKS)]
    found += [
        Injection("SIGSTOP", name, 2.0, _stop, _continue) for name in ("busy", *CLOCKS, "leader", "standby")
    ]
    # Past its lease: the other one takes over, and a zombie wakes up.
    found += [Injection("SIGSTOP", "busy", 12.0, _stop, _continue)]
    # Past the heartbeats of the players, too: they find the new owner before that.
    found += [Injection("SIGSTOP", "busy", 25.0, _stop, _continue)]
    for link in ("client-busy", "busy-clock", "busy-matchmaking", "client-matchmaking", "busy-postgres"):
        found += [Injection(kind, link, 4.0, strike, _heal) for kind, strike in FAULTS.items()]
    found += [
        Injection("black hole", link, 4.0, _black_hole, _heal)
        for link in ("leader-postgres", "clock-postgres")
    ]
    # Past the lease of its owner.
    found += [Injection("black hole", "busy-postgres", 20.0, _black_hole, _heal)]
    found += [
        Injection("SIGKILL", "postgres", seconds, _kill_postgres, _start_postgres) for seconds in (1.0, 10.0)
    ]
    found += [Injection("SIGSTOP", "postgres", 3.0, _stop_postgres, _continue_postgres)]
    missing = namespace_missing()
    # Only ever tried in a network that is nobody else's.
    shaping = missing or (loss_missing() if os.environ.get(NAMESPACE_VARIABLE) else "no network of its own")
    found += [Injection("network down", "all", 2.0, _network_down, _network_up, skip=missing)]
    # Shorter than its lease, and past it: the other one goes on, and a zombie finds its way back.
    found += [
        Injection("cable pulled", FAR_GAME, seconds, _pull, _plug, skip=missing) for seconds in (4.0, 20.0)
    ]
    found += [Injection("5 % loss", "all", 5.0, _lossy, _lossless, skip=shaping)]
    return found


def short() -> list[Injection]:
    """What fits into a test suite."""
    return [
        Injection("SIGKILL", "busy", 0.0, _kill, _restart),
        Injection("SIGKILL", "clock", 0.0, _kill_clock, _restart),
        Injection("SIGSTOP", "busy", 1.0, _stop, _continue),
        Injection("cut", "client-busy", 0.5, _cut, _heal),
        Injection("half-open", "busy-clock", 1.5, _half_open, _heal),
        Injection("SIGKILL", "postgres", 0.5, _kill_postgres, _start_postgres),
    ]
