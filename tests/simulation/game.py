"""A simulated game process and a simulated clock process: the real parts of both, put together as their mains do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Final, cast

from prometheus_client import CollectorRegistry

from engine.clock import SECOND
from engine.command import Command
from services.clock.metrics import ClockMetrics
from services.clock.rpc import ClockRpc
from services.clock.timekeeper import Said, Timekeeper
from services.common.errors import ServiceError
from services.common.patience import Patience
from services.common.tracing import NoTracer
from services.game.answers import Answered
from services.game.asked import Asked
from services.game.clock_client import ClockLink
from services.game.course import Answer, Courses
from services.game.custody import Custody
from services.game.declarations import Declarations
from services.game.gaps import Gaps
from services.game.incarnation import Incarnation
from services.game.livetime import LiveTime
from services.game.massloss import MassLoss, Place
from services.game.metrics import GameMetrics
from services.game.ownership import Lease
from services.game.room import Room
from services.game.rooms import Rooms
from services.game.shell import Shell
from services.game.story import Story
from services.game.streams import Follower, Wake, watch
from services.storage.journal import Journal
from services.wire.clock_messages import Policy
from spectacularbid.match.v1 import match_service_pb2 as pb
from tests.simulation.clockwatch import ClockWatch
from tests.simulation.connections import Pool
from tests.simulation.database import Database
from tests.simulation.process import Kernel, ListeningProcess, Process
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.player import Connection
    from tests.simulation.truth import Truth

LEASE_SECONDS: Final = 8.0
DRAIN_SECONDS: Final = 5.0


@dataclass(frozen=True)
class Parts:
    """The classes that processes are made of. A rule is switched off by giving another one."""

    live_time: type[LiveTime] = LiveTime
    link: type[ClockLink] = ClockLink
    journal: type[Journal] = Journal
    timekeeper: type[Timekeeper] = Timekeeper
    policy: Policy = field(default_factory=Policy)
    pump_ns: int = 0
    """How long the reader of a stream waits between reading a command and stamping it (rule R4: not at all)."""


class WatchedRpc(ClockRpc):
    """What a clock says is seen by the truth, too."""

    saw: Callable[[Said], None]

    def _publish(self, said: Said) -> None:
        self.saw(said)
        super()._publish(said)


class ClockProcess(Process):
    """A clock."""

    def __init__(self, world: World, name: str, parts: Parts, saw: Callable[[str, Said], None]) -> None:
        super().__init__(world, name)
        self.keeper = parts.timekeeper(f"clock-{world.new_id()}", parts.policy, lambda: str(world.new_id()))
        self.watch = ClockWatch(world, self.keeper)
        self.rpc = WatchedRpc(self.keeper, ClockMetrics(CollectorRegistry()))
        self.rpc.saw = lambda said: saw(self.keeper.clock_id, said)

    def drain(self) -> None:
        """SIGTERM: engines are told to attach elsewhere, then it ends."""

        async def drain() -> None:
            await self.rpc.drain()
            self.world.after(0, self.kill)

        self.start(drain)


Told = Callable[[pb.WatchResponse, Story], None]


class GameProcess(ListeningProcess):
    """A game process with its front for players."""

    def __init__(
        self, world: World, engine_id: str, kernel: Kernel, database: Database, truth: Truth, parts: Parts
    ) -> None:
        name = f"{engine_id}.{world.new_id().hex[:4]}"
        super().__init__(world, name, kernel, parts.live_time, name)
        self.engine_id = engine_id
        self.parts = parts
        self._stopping = asyncio.Event()
        self.serving = False
        """Players are heard only once it is known which matches are owned."""
        metrics = GameMetrics(CollectorRegistry())
        self.connections = Pool(self, database)
        self.pool = cast(Any, self.connections)
        incarnation = Incarnation(engine_id, name, engine_id)
        self.courses = Courses(metrics.commands, NoTracer(), self.live.raw)
        self.quiet = Patience(5.0, Wake.late)
        self.lease = Lease(self.pool, incarnation, LEASE_SECONDS, metrics.lease, now=self.loop.time)
        self.journal = parts.journal(self.pool, engine_id, metrics.commits)
        self.clock = parts.link(
            "clock", "", engine_id, name, self.live, lease_ok=lambda: self.lease.proves, metrics=metrics.link
        )
        gaps = Gaps(self.live, incarnation, parts.policy.version)
        for part, hook, noticed in (
            (self.clock, "on_regained", "clock_lost"),
            (self.journal, "on_stalled", "commit_stalled"),
        ):
            setattr(part, hook, getattr(gaps, noticed))
        self.gaps = gaps
        self.shell = Shell(
            incarnation, self.journal, self.clock, self.live, gaps, self.lease, parts.policy, metrics.matches
        )
        self.mass_loss = MassLoss(self.live, self.loop.time)
        self.rooms: Rooms
        self.commands_heard: list[Heard] = []
        self.mark_at_end: int | None = None
        self.on_failure: Callable[[], None] = lambda: None
        """Its supervisor is told that it ended by itself."""
        self.truth = truth
        self.watch = truth.watch(self)

    async def main(self) -> None:
        """As services.game.__main__."""
        try:
            async with asyncio.TaskGroup() as room_tasks, asyncio.TaskGroup() as tasks:
                self.rooms = Rooms(self.pool, self.shell, room_tasks, 60.0)
                custody = Custody(
                    self.lease,
                    self.rooms,
                    lambda: self.clock.attached and not self.rooms.draining and not self._stopping.is_set(),
                )
                owned = [
                    tasks.create_task(coroutine)
                    for coroutine in (
                        self.journal.run(),
                        self.clock.run(),
                        self.lease.run(),
                        self.gaps.run(self.pool),
                        self.mass_loss.run(),
                    )
                ]
                owned.append(tasks.create_task(self._end_when_lost()))
                await custody.begin()
                self.serving = True
                owned.append(tasks.create_task(custody.run()))
                declared = Declarations(self.pool, self.rooms, self.engine_id)
                owned.append(tasks.create_task(declared.run()))
                owned += [tasks.create_task(duty) for duty in self.duties()]
                await self._stopping.wait()
                await self.leave()
                await self.lease.end()
                for task in owned:
                    task.cancel()
        except Exception as error:  # noqa: BLE001 - the process ends, as a real one would
            self.world.note(f"{self.name} fails: {error!r}")
            self.world.count("process failed")
            self.on_failure()
        self.world.after(0, self.kill)

    async def leave(self) -> None:
        """Everything is left at once."""
        await self.rooms.hand_over(DRAIN_SECONDS)

    def duties(self) -> list[Coroutine[Any, Any, None]]:
        """What else runs while it serves."""
        return []

    async def _end_when_lost(self) -> None:
        await self.lease.lost.wait()
        self._stopping.set()

    def _wait(self) -> None:
        super()._wait()
        self.watch.waits()

    def holds(self) -> None:
        """Players are gone, it says."""
        self.watch.holds()

    def killed(self) -> None:
        """How long it listened is known, and the database hears that its connections are gone."""
        self.mark_at_end = self.true_mark
        self.connections.hang_up()

    def terminate(self) -> None:
        """SIGTERM."""
        self.reach(self._stopping.set)

    def place(self, match_id: str) -> None:
        """Matchmaking has put a new match here. A process that is not ready finds it in the database."""
        if self.serving:
            self.loop.create_task(self.rooms.open(match_id, 1))

    # The front: what services.game.rpc does for a Play stream.

    def serve(self, connection: Connection) -> None:
        """A stream of a player begins."""
        connection.task = self.loop.create_task(self._serve(connection))

    async def _serve(self, connection: Connection) -> None:
        if not self.serving:
            connection.end()
            return
        try:
            source = await self.rooms.find(connection.match_id)
            connection.source = source
            story = source.story if isinstance(source, Room) else source
            follower = Follower(source, story.audience_of(connection.player_id), connection.resume_after)
            await self._follow(connection, follower, story)
        except ServiceError as error:
            self.world.note(f"{self.name} refuses a stream: {error}")
        connection.end()

    async def _follow(self, connection: Connection, follower: Follower, story: Story) -> None:
        """As services.game.rpc: streams of seats of live matches are counted, and those that break are losses.

        No match of a world is rated, since those have two minutes: those that are not played on one device count here.
        """
        counts = follower.plays and not story.row.same_device
        place = Place(follower.match_id, connection.player_id, connection.player_id)
        if counts:
            self.mass_loss.opened(place)
        try:
            async with contextlib.aclosing(watch(follower, self.quiet)) as news:
                async for encoded in news:
                    connection.tell(pb.WatchResponse.FromString(encoded), story)
        finally:
            if counts:
                self.mass_loss.ended(place, broken=not follower.finished, running=follower.running)

    def hear(self, connection: Connection, heard: Heard) -> None:
        """A command has been read."""
        for step in list(self.truth.on_read):
            step()
        if self.parts.pump_ns:
            self.loop.call_later(self.parts.pump_ns / SECOND, lambda: self._ask(connection, heard))
        else:
            self._ask(connection, heard)

    def _ask(self, connection: Connection, heard: Heard) -> None:
        stamp = self.live.heard()
        source = connection.source
        if isinstance(source, Room):
            self.watch.take_place(source)
        course = self.courses.begin(
            stamp, match_id="", player_id="", request_id=heard.request_id, decision_id=0, kind=""
        )

        def answered(answer: Answer) -> None:
            # As on a stream, which is woken by it.
            self.loop.call_soon(connection.answer, heard, answer)

        asked = Asked(
            heard.command, heard.request_id, heard.payload, heard.decision_id, stamp, answered, course
        )
        try:
            if isinstance(source, Room) and (source.held or not source.closed):
                source.ask(asked)
                heard.fence = source.fence
            else:
                story = source.story if isinstance(source, Room) else source
                known = None
                if story is not None:
                    known = story.answers.get(story.asked_as(heard.command.seat, heard.request_id))
                if known is not None:
                    asked.settle(known)
        except ServiceError as error:
            connection.answer(heard, error)


@dataclass
class Heard:
    """A command as it reached a process, and what is true about that."""

    match_id: str
    command: Command
    request_id: str
    payload: bytes
    decision_id: int
    legal: bool
    """Whether the player had reason to think so."""
    timed: bool = True
    """Whether a clock judges it."""
    reached_at: int = 0
    true_mark: int = 0
    stalls: int = 0
    fence: int | None = None
    """The room that took it."""


def bad_kernel(world: World, dice: Random) -> Kernel:
    """A kernel clock that starts anywhere and is a little wrong, as all are."""
    return Kernel(world, dice, dice.randrange(-100, 100))


__all__ = ["Answered", "ClockProcess", "GameProcess", "Heard", "Parts", "bad_kernel"]
