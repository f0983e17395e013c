"""`python -m services.game`: one game process."""

from __future__ import annotations

import asyncio
import time

from services.common import logs
from services.common.collector import Collector
from services.common.host import DRAIN_GRACES, Host, run_service
from services.common.questions import Questions
from services.common.settings import load
from services.game.clock_client import ClockLink
from services.game.course import Courses
from services.game.custody import Custody
from services.game.declarations import Declarations
from services.game.drain import Drain
from services.game.gaps import Gaps
from services.game.handover import Handover
from services.game.incarnation import Incarnation
from services.game.livetime import LiveTime, new_event_loop
from services.game.massloss import MassLoss
from services.game.metrics import GameMetrics
from services.game.ownership import Lease
from services.game.pauses import Pauses
from services.game.placement_client import PlacementLink
from services.game.rooms import Rooms
from services.game.rpc import MatchServicer
from services.game.settings import GameSettings
from services.game.shell import Shell
from services.storage.journal import Journal
from services.storage.processorders import Standing
from services.wire.clock_messages import Policy
from spectacularbid.match.v1 import match_service_pb2_grpc

SERVICE = "spectacularbid.match.v1.MatchService"


HURRY_SHARE = 0.5
"""Of the drain grace, for handing matches over one after another."""


async def serve(settings: GameSettings, livetime: LiveTime) -> None:
    """Runs the process until a stop signal."""
    async with Host.open("game", settings) as host:
        server = await host.public_server()
        address = settings.public_address or host.public_address or settings.listen
        incarnation = Incarnation(settings.engine_id, livetime.incarnation, address)
        secret = settings.internal_secret.get_secret_value()
        metrics = GameMetrics(host.registry)
        lease = Lease(host.pool, incarnation, settings.lease_seconds, metrics.lease)
        journal = Journal(host.pool, settings.engine_id, metrics.commits)
        clock = ClockLink(
            settings.clock_address,
            secret,
            settings.engine_id,
            livetime.incarnation,
            livetime,
            lease_ok=lambda: lease.proves,
            connect=host.connect,
            metrics=metrics.link,
        )
        policy = Policy()
        questions = Questions(host.pool, settings.database_pool_size)
        mass_loss = MassLoss(livetime, time.monotonic)
        gaps = Gaps(livetime, incarnation, policy.version)
        clock.on_regained, journal.on_stalled = gaps.clock_lost, gaps.commit_stalled
        journal.on_mended = gaps.log_lost
        shell = Shell(incarnation, journal, clock, livetime, gaps, lease, policy, metrics.matches)
        journal.coming = shell.holds.__len__
        courses = Courses(metrics.commands, host.tracer)
        async with asyncio.TaskGroup() as room_tasks, asyncio.TaskGroup() as tasks:
            rooms = Rooms(
                host.pool,
                shell,
                room_tasks,
                settings.linger_seconds,
                capacity=settings.capacity,
                created_max=max(1, int(settings.capacity * settings.created_share)),
            )
            host.database.on_changed = rooms.continuity.doubt
            placement = PlacementLink(
                settings.matchmaking_address,
                secret,
                incarnation,
                settings.capacity,
                rooms,
                lambda: lease.fresh and clock.attached and rooms.in_service and not host.stopping.is_set(),
                connect=host.connect,
                tracer=host.tracer,
            )
            host.register(
                server,
                match_service_pb2_grpc.add_MatchServiceServicer_to_server,
                MatchServicer(
                    rooms, host.pool, questions, livetime, mass_loss, settings, incarnation, courses
                ),
                SERVICE,
            )
            host.add_readiness("lease", lambda: lease.fresh)
            host.add_readiness("clock", lambda: clock.attached)
            custody = Custody(
                lease,
                rooms,
                lambda: clock.attached and not rooms.draining and not host.stopping.is_set(),
                settings.capacity,
            )
            host.add_readiness("custody", lambda: custody.begun)
            drain = Drain(
                host.pool, rooms, settings.engine_id, metrics.matches.draining, on_change=lease.say_standing
            )
            host.add_readiness("in_service", lambda: rooms.in_service)
            handover = Handover(host.pool, rooms, settings.engine_id, lambda: drain.ordered)

            def standing() -> Standing:
                if host.stopping.is_set():
                    return "leaving"
                if drain.ordered:
                    return "drained"
                return "ready" if custody.ready else "unready"

            lease.capacity, lease.standing = settings.capacity, standing

            async def leave() -> None:
                # Before anything is offered: it must go somewhere, however full the others are.
                await lease.say_standing()
                # Twice the grace in all: some of it for one match after another, the rest for what is left then.
                await handover.hurry(settings.drain_grace_seconds * HURRY_SHARE)
                await rooms.hand_over(settings.drain_grace_seconds * (DRAIN_GRACES - HURRY_SHARE) / 2)
                await lease.end()

            host.on_drain(leave)
            owned = [
                tasks.create_task(coroutine, name=name)
                for coroutine, name in (
                    (journal.run(), "journal"),
                    (clock.run(), "clock link"),
                    (placement.run(), "placement link"),
                    (lease.run(), "lease"),
                    (gaps.run(host.pool), "gaps"),
                    (mass_loss.run(), "mass loss"),
                    (Pauses(livetime, rooms).run(), "pauses"),
                    (_leave_when_lost(lease, host), "lost lease"),
                    # Beside the server, not before it: where a match goes on, time runs, and players must be heard.
                    (custody.run(), "custody"),
                    (custody.listen(host.pool), "offers"),
                    (drain.run(), "drain"),
                    (handover.run(), "handover"),
                    (Declarations(host.pool, rooms, settings.engine_id).run(), "declarations"),
                    (rooms.continuity.run(), "continuity"),
                )
            ]
            async with Collector().working():
                await host.run()
            for task in owned:
                task.cancel()


async def _leave_when_lost(lease: Lease, host: Host) -> None:
    await lease.lost.wait()
    host.stopping.set()


def main() -> None:
    """Starts a game process from the environment."""
    livetime = LiveTime()

    async def run() -> None:
        settings = load(GameSettings)
        logs.configure(settings.log_level)
        await serve(settings, livetime)

    run_service(run, loop_factory=lambda: new_event_loop(livetime))


if __name__ == "__main__":
    main()
