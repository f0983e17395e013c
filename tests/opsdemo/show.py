"""The demonstration for operators: four things break under load, and what status, alerts and ratings said about it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import asyncpg
from prometheus_client import CollectorRegistry

from services.canary.metrics import CanaryMetrics
from services.canary.visit import Place, Visit
from services.ops.outage import Judgement, Look
from services.ops.pages import Target
from services.storage import ladderaudit
from tests.chaos.campaign import figures
from tests.chaos.checks import Findings, check
from tests.chaos.injections import Injection, everything
from tests.chaos.players import Book, Load, Pace
from tests.chaos.rig import GAMES, SERVICES, Rig, rig
from tests.chaos.scenarios import Waits
from tests.monitoring import rules
from tests.monitoring.prometheus import Prometheus, prometheus
from tests.opsdemo.onlooker import Heard, Onlooker
from tests.opsdemo.rated import Rated
from tests.processes import free_port
from tests.proxy import Proxy
from tests.stack import HOST

FACTOR: Final = 400.0
"""Windows of alerts are so much shorter than in production: an hour is nine seconds."""
SCRAPE_SECONDS: Final = 0.5
LEAST_SECONDS: Final = 3 * SCRAPE_SECONDS
QUIET_SECONDS_MAX: Final = 30.0
CALM_SECONDS: Final = 10.0
GO_ON_SECONDS_MAX: Final = 45.0
WELL_SECONDS_MAX: Final = 60.0
FINISH_SECONDS_MAX: Final = 240.0

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Break:
    """One thing that breaks."""

    title: str
    injection: Injection
    said: str
    """Words that the outage view must have said."""
    alerts: frozenset[str]
    """Of these at least one must have fired."""


def breaks() -> list[Break]:
    """The four."""

    def injection(kind: str, target: str, seconds: float) -> Injection:
        found = next(each for each in everything() if (each.kind, each.target) == (kind, target))
        return replace(found, seconds=seconds)

    return [
        Break(
            "the clock is killed",
            injection("SIGKILL", "clock", 8.0),
            "clock",
            frozenset({"TargetDown"}),
        ),
        Break(
            "a game process stands still for 3 s",
            injection("SIGSTOP", "busy", 3.0),
            "does not answer",
            frozenset({"TargetDown", "LoopStalls", "CommandLatencyBudget", "CreditShare"}),
        ),
        Break(
            "PostgreSQL is killed and started again",
            injection("SIGKILL", "postgres", 6.0),
            "the database",
            frozenset({"NoneReady", "ProcessNotReady", "CommandErrorBudget", "CommandLatencyBudget"}),
        ),
        Break(
            "the leader of matchmaking is killed",
            injection("SIGKILL", "leader", 8.0),
            "matchmaking",
            frozenset({"TargetDown", "NoLeader", "LeaderChurn"}),
        ),
    ]


@dataclass
class Seen:
    """What one of them did."""

    what: Break
    target: str
    heard: Heard
    went_on: int
    matches: int
    pause: float
    """The longest time without an acknowledged command in any match. Seconds."""
    credited: float
    voids: int
    forfeits: int
    decisions: Counter[str]
    """Rating decisions that were made meanwhile, by reason."""
    well_after: float | None
    """Seconds from the end of the fault until the outage view said that all is well."""
    quiet_after: float | None
    """Seconds from there until no alert fired that had not fired before."""


@dataclass
class Shown:
    """The whole."""

    seen: list[Seen] = field(default_factory=list)
    findings: Findings = field(default_factory=Findings)
    book: Book = field(default_factory=Book)
    decisions: Counter[str] = field(default_factory=Counter)
    undecided: int = 0
    ladder: list[str] = field(default_factory=list)
    """Where the stored ladder is not what follows from outcomes."""
    canary: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    picture: tuple[Look, Judgement] | None = None
    """The outage view at the height of an outage."""

    @property
    def wrong_forfeits(self) -> int:
        """Matches that were lost on time. No player of the demonstration is ever late, so each is one too many."""
        return self.findings.outcomes["time"]

    @property
    def ok(self) -> bool:
        """Whether everything held."""
        return not (self.faults or self.findings.faults or self.ladder or self.undecided)


async def show(program: str, folder: Path, tables: int, seekers: int, tell: Tell) -> Shown:
    """Everything from the beginning to the end. `program` is the path of Prometheus."""
    done = Shown()
    ports = {name: free_port() for name in (*SERVICES, "canary")}
    settings = {name: {"METRICS_LISTEN": f"{HOST}:{port}"} for name, port in ports.items()}
    tell("PostgreSQL, 2 clocks, 2 game processes, 2 of matchmaking, a canary and Prometheus begin …")
    async with (
        rig(folder, proxied=False, settings=settings) as made,
        _canary(made),
        _alerts(program, folder, ports) as watcher,
    ):
        targets = [Target(HOST, port, _role(name)) for name, port in ports.items()]
        onlooker = Onlooker(targets, made.postgres.url, lambda: _firing(watcher))
        looking = asyncio.create_task(onlooker.run())
        load, rated = Load(made, Pace(think=0.6, delay=1.0, resigns=0.01), done.book), Rated(made)
        load.games = GAMES
        try:
            await load.begin(tables)
            await rated.begin(seekers)
            tell(f"{tables} matches are played, and {seekers} players seek rated ones")
            if await onlooker.until(lambda one: one.is_well, WELL_SECONDS_MAX) is None:
                done.faults.append(f"not well before anything broke: {onlooker.judgement}")
            tell("status: all is well")
            await onlooker.until(lambda one: not one.alerts, QUIET_SECONDS_MAX)
            for what in breaks():
                await asyncio.sleep(CALM_SECONDS)
                load.check()
                done.seen.append(await _break(made, load, onlooker, what, done, tell))
            tell("the matches are played to their end …")
            await asyncio.gather(load.finish(FINISH_SECONDS_MAX), rated.finish(FINISH_SECONDS_MAX))
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
            await asyncio.gather(load.cancel(), rated.cancel())
        await made.stack.processes["canary"].terminate()
        await _tidy(made)
        played = [line["event"] for line in made.stack.processes["canary"].events()]
        done.canary.update(event for event in played if event in ("canary_played", "canary_failed"))
        await _conclude(made, done, tell)
    return done


async def _tidy(made: Rig) -> None:
    """A canary that was stopped in the middle of a match leaves it to the next one: this is that."""
    place = Place(made.matchmaking_address, made.stack.address(GAMES[0]), None, GO_ON_SECONDS_MAX)
    await Visit(place, made.stack.canary_tokens(), CanaryMetrics(CollectorRegistry())).run()


async def _conclude(made: Rig, done: Shown, tell: Tell) -> None:
    """What the ladder says, and whether every figure follows from what is stored."""
    connection = await asyncpg.connect(made.postgres.url, timeout=30)
    try:
        give_up = time.monotonic() + 30
        while done.undecided != 0 or not done.decisions:
            done.decisions, done.undecided = await _decisions(connection)
            if time.monotonic() > give_up:
                break
            await asyncio.sleep(0.2)
        done.ladder = [str(each) for each in (await ladderaudit.check(connection)).differences]
    finally:
        await connection.close()
    tell("every forfeit, void, charge and credit is worked out again from what is stored …")
    done.findings = await check(made.postgres.url, done.book)


async def _break(made: Rig, load: Load, onlooker: Onlooker, what: Break, done: Shown, tell: Tell) -> Seen:
    injection = what.injection
    target = await injection.resolve(made)
    before, decided = await figures(made), await _decided(made)
    waits, heard = Waits(load), onlooker.from_now()
    tell(f"{what.title.upper()} ({target})")
    if heard.before:
        # Their windows are seconds here: a busy machine is enough.
        tell(f"  alerts that fire already: {', '.join(sorted(heard.before))}")
    await injection.strike(made, target)
    await asyncio.sleep(injection.seconds)
    if done.picture is None and onlooker.look is not None and onlooker.judgement is not None:
        done.picture = onlooker.look, onlooker.judgement
    await injection.heal(made, target)
    healed = time.monotonic()
    tell(f"  it is healed after {healed - heard.since:.1f} s")
    await waits.all_go_on(GO_ON_SECONDS_MAX, after=healed)
    well = await onlooker.until(lambda one: one.is_well, WELL_SECONDS_MAX)
    well_after = None if well is None else time.monotonic() - healed
    # Alerts look back: what happened is in their windows for a while.
    quiet = await onlooker.until(lambda one: one.alerts <= heard.before, QUIET_SECONDS_MAX)
    quiet_after = None if quiet is None else time.monotonic() - healed
    after = await figures(made)
    seen = Seen(
        what,
        target,
        heard,
        len(waits.seconds),
        len(waits.live),
        waits.pause(),
        after[0] - before[0],
        after[1] - before[1],
        after[2] - before[2],
        await _decided(made) - decided,
        well_after,
        quiet_after,
    )
    _judge(seen, done)
    for line in lines(seen):
        tell(f"  {line}")
    return seen


def _judge(seen: Seen, done: Shown) -> None:
    """What an operator must have been told."""
    title = seen.what.title
    if not any(seen.what.said in problem for problem in seen.heard.problems):
        done.faults.append(f"{title}: status did not say so")
    if not seen.what.alerts & {*seen.heard.alerts, *seen.heard.before}:
        done.faults.append(f"{title}: none of {sorted(seen.what.alerts)} fired")
    if seen.went_on < seen.matches:
        done.faults.append(f"{title}: {seen.matches - seen.went_on} matches never went on")
    if seen.well_after is None:
        done.faults.append(f"{title}: not well again")


def lines(seen: Seen) -> list[str]:
    """In words."""
    heard = seen.heard
    found = [f"status after {after:.1f} s: {problem}" for problem, after in _soonest(heard.problems)]
    found += [f"alert after {after:.1f} s: {alert}" for alert, after in _soonest(heard.alerts)]
    found.append(
        f"players: {seen.went_on} of {seen.matches} matches went on, longest pause {seen.pause:.1f} s,"
        f" credited {seen.credited:.1f} s, {seen.voids} void, {seen.forfeits} forfeits"
    )
    decided = ", ".join(f"{reason} {count}" for reason, count in sorted(seen.decisions.items())) or "none"
    found.append(f"rating decisions meanwhile: {decided}")
    found.append(
        f"after the end of it: status well again {_after(seen.well_after)}, alerts quiet {_after(seen.quiet_after)}"
    )
    return found


def _after(seconds: float | None) -> str:
    return "not in time" if seconds is None else f"after {seconds:.1f} s"


def _soonest(said: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(said.items(), key=lambda item: item[1])[:6]


async def _decided(made: Rig) -> Counter[str]:
    connection = await asyncpg.connect(made.postgres.url, timeout=30)
    try:
        return (await _decisions(connection))[0]
    finally:
        await connection.close()


async def _decisions(connection: asyncpg.Connection) -> tuple[Counter[str], int]:
    """Rating decisions by reason, and how many finished matches have none."""
    rows = await connection.fetch("select reason, count(*) as count from rating_decision group by reason")
    undecided = await connection.fetchval(
        """
        select count(*) from match_outcome o
        where not exists (select from rating_decision d where d.match_id = o.match_id)
        """
    )
    return Counter({row["reason"]: row["count"] for row in rows}), undecided


def _role(name: str) -> str:
    return name.partition("-")[0]


@asynccontextmanager
async def _canary(made: Rig) -> AsyncIterator[None]:
    """It comes in as behind one front door: what does not take connections is passed over."""
    ports = made.stack.ports
    async with Proxy(HOST, ports["game"]) as front:
        front.aim(*((HOST, ports[name]) for name in GAMES))
        made.stack.extra.setdefault("canary", {}).update(
            CANARY_SERVER=made.matchmaking_address,
            CANARY_GAME=front.address,
            CANARY_PERIOD_SECONDS="2",
            CANARY_STEP_SECONDS="3",
        )
        await made.stack.launch("canary")
        yield


@asynccontextmanager
async def _alerts(program: str, folder: Path, ports: Mapping[str, int]) -> AsyncIterator[Prometheus]:
    """A real Prometheus with the alerts of production, in a hurry."""
    targets: dict[str, dict[str, str]] = {}
    for name, port in ports.items():
        targets.setdefault(_role(name), {})[name] = f"{HOST}:{port}"
    spec = rules.scaled(rules.load(), FACTOR, least_seconds=LEAST_SECONDS)
    async with prometheus(
        program, folder / "prometheus", targets, spec=spec, interval_seconds=SCRAPE_SECONDS
    ) as made:
        yield made


async def _firing(made: Prometheus) -> set[str]:
    return {alert.name for alert in await made.alerts(state="firing")}
