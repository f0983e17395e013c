"""How a process that is taken out of service hands its matches over: not faster than others can follow, none of them lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import asyncpg
import pytest

from services.common.errors import ServiceError
from services.game import handover
from services.game.custody import Custody
from services.game.drain import Drain
from services.game.handover import MOVING_MAX, Handover
from services.game.room import Room
from services.game.rooms import Rooms
from services.storage import ownership, processorders
from services.storage.pool import Pool
from services.storage.processorders import Action, Standing
from tests.services.game.test_rooms import orphans, shell


@dataclass
class Two:
    """A process with matches before their start, which wait for no clock, and another one."""

    pool: Pool
    old: Rooms
    new: Rooms
    match_ids: list[str]
    wanted: bool = True

    async def says(
        self, standing: Standing, engine_id: str = "new", seconds: float = 60, room: int = 100
    ) -> None:
        """What a process says of itself."""
        await ownership.begin_lease(
            self.pool, engine_id, engine_id, f"{engine_id}:1", seconds, capacity=room, standing=standing
        )

    async def owned(self, engine_id: str) -> int:
        count: int = await self.pool.fetchval(
            "select count(*) from match_owner where engine_id = $1 and handed_over_at is null", engine_id
        )
        return count


@asynccontextmanager
async def two(database_url: str, matches: int) -> AsyncIterator[Two]:
    async with (
        asyncpg.create_pool(database_url, min_size=1, max_size=4) as pool,
        asyncio.TaskGroup() as tasks,
    ):
        match_ids = await orphans(pool, matches)
        await pool.execute("update match_owner set engine_id = 'old'")
        old, new = (Rooms(pool, shell(pool, name), tasks, 0) for name in ("old", "new"))
        made = Two(pool, old, new, match_ids)
        await made.says("drained", "old")
        assert await made.old.take_up_own(0) == matches
        yield made
        for rooms in (made.old, made.new):
            await rooms.suspend()


async def stepped(mover: Handover, made: Two) -> None:
    """One look, and what rooms do about it."""
    await mover.step()
    await asyncio.gather(
        *(task for room in made.old.live() if room.departure.begun and (task := made.old.task_of(room)))
    )
    await mover.step()


async def test_no_more_than_others_have_room_for_and_few_at_a_time(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What does not fit stays and goes on; the players of the others are told where."""
    monkeypatch.setattr(handover, "PER_SECOND", 1e6)
    monkeypatch.setattr(handover, "ROOM_SECONDS", 0.0)
    async with two(database_url, 40) as made:
        await made.says("ready", room=30)
        mover = Handover(made.pool, made.old, "old", lambda: made.wanted)
        began = asyncio.get_running_loop().time()
        rooms = {room.story.row.match_id: room for room in made.old.live()}
        for moved in (MOVING_MAX, 30, 30):
            await stepped(mover, made)
            assert await made.owned("old") == 40 - moved
            while await made.new.take_up_orphans(30 - len(made.new.live())):
                pass
            await mover.step()
            assert (len(made.new.live()), len(made.old.live())) == (moved, 40 - moved)
        told = [room for room in rooms.values() if room.closed]
        assert len(told) == 30
        assert {room.departure.successor for room in told} == {"new:1"}
        lasted = asyncio.get_running_loop().time() - began
        pause = made.new._shell.metrics.handoff_pause
        assert sum(bucket.get() for bucket in pause._buckets) == 30
        assert 0 < pause._sum.get() < 30 * lasted
        assert not any(room.departure.begun for room in made.old.live())
        # More room, but nobody wants it any more.
        await made.says("ready", room=100)
        made.wanted = False
        await stepped(mover, made)
        assert await made.owned("old") == 10
        # Nor is the end of a turn the moment to leave.
        assert {room.departure.may_begin for room in made.old.live()} == {None}


async def test_matches_are_left_at_the_pace_of_the_others(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many may be on their way: the first at once, the next a while later."""
    monkeypatch.setattr(handover, "PER_SECOND", 0.001)
    async with two(database_url, 3) as made:
        await made.says("ready")
        mover = Handover(made.pool, made.old, "old", lambda: True)
        for _ in range(3):
            await stepped(mover, made)
            assert await made.owned("old") == 2


async def test_what_nobody_takes_up_goes_on_where_it_was(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is not offered again at once: each time is credit, of which there is not much."""
    monkeypatch.setattr(handover, "TAKEN_UP_SECONDS", 0.0)
    async with two(database_url, 1) as made:
        await made.says("ready")
        mover = Handover(made.pool, made.old, "old", lambda: True)
        (before,) = made.old.live()
        await stepped(mover, made)
        (room,) = made.old.live()
        assert room is not before
        assert (room.fence, before.closed, before.departure.successor) == (3, True, "127.0.0.1:1")
        assert room._resumed is not None
        assert room._resumed.incident.kind == "handoff"
        await stepped(mover, made)
        assert made.old.live() == [room]
        assert not room.departure.begun
        assert await made.owned("old") == 1


async def test_streams_hear_of_who_took_up_a_match_just_before_it_was_to_be_taken_back(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 113 of the simulation: who asked in a stream of before was told to try again, for ever."""
    monkeypatch.setattr(handover, "TAKEN_UP_SECONDS", 0.0)
    async with two(database_url, 1) as made:
        await made.says("ready")
        mover = Handover(made.pool, made.old, "old", lambda: True)
        (room,) = made.old.live()
        take_back = made.old.take_back

        async def taken_up_first(overdue: Sequence[Room]) -> None:
            assert await made.new.take_up_orphans() == 1
            await take_back(overdue)

        monkeypatch.setattr(made.old, "take_back", taken_up_first)
        await stepped(mover, made)
        await mover.step()
        assert (room.closed, room.departure.successor) == (True, "new:1")
        assert made.old.live() == []


@pytest.mark.parametrize(
    ("standing", "seconds", "taken"), [("drained", 60.0, 0), ("leaving", 60.0, 2), ("drained", -1.0, 2)]
)
async def test_a_full_process_takes_up_only_what_nobody_else_plays(
    database_url: str, standing: Standing, seconds: float, taken: int
) -> None:
    """A process that goes on keeps its matches; one that ends, or is dead, cannot."""
    async with two(database_url, 2) as made:
        await ownership.hand_over(made.pool, "old", [(match_id, 2, 0) for match_id in made.match_ids])
        await made.says(standing, "old", seconds)
        assert await made.new.take_up_orphans(0) == taken


async def test_a_drained_process_takes_up_what_nobody_else_would_play(database_url: str) -> None:
    """Matches of one that died: while another is ready they are not its business."""
    async with two(database_url, 2) as made:
        await made.says("drained", "old", -1.0)
        surroundings = made.new._shell
        custody = Custody(surroundings.lease, made.new, lambda: True)
        await custody.begin()
        made.new.in_service = False
        await made.says("ready", "third")
        await custody._look()
        assert len(made.new) == 0
        await made.says("unready", "third")
        await custody._look()
        assert len(made.new) == 2


async def test_a_drain_is_obeyed_and_ended(database_url: str) -> None:
    """Until it is known what is ordered, nothing begins here."""
    async with two(database_url, 1) as made:
        told: list[bool] = []

        async def change() -> None:
            told.append(drain.ordered)

        gauge = made.old._shell.metrics.draining
        drain = Drain(made.pool, made.old, "old", gauge, change)
        actions: tuple[Action | None, ...] = (None, "drain", "resume")
        for action in actions:
            assert made.old.takes_new is (action == "drain")
            if action is not None:
                await processorders.put_order(made.pool, "old", action, "ada", "kernel")
            await drain.look()
            assert made.old.takes_new is (action != "drain")
            assert gauge._value.get() == (action == "drain")
        assert told == [True, False]


async def test_an_offer_is_heard_at_once(database_url: str) -> None:
    """By whoever listens, on a connection that may be lost."""
    async with two(database_url, 1) as made:
        heard = asyncio.Event()
        listening = asyncio.create_task(ownership.hear_offers(made.pool, heard.set))
        try:
            await heard.wait()  # it listens, and looks what was before
            heard.clear()
            await ownership.hand_over(made.pool, "old", [(made.match_ids[0], 2, 0)])
            async with asyncio.timeout(30):
                await heard.wait()
                await made.pool.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity where query ilike 'listen%'"
                )
                await listening
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)


async def test_a_command_for_a_match_that_is_being_left_is_to_be_sent_again(database_url: str) -> None:
    async with two(database_url, 1) as made:
        (room,) = made.old.live()
        room.leave()
        with pytest.raises(ServiceError) as refused:
            room.ask(None)  # type: ignore[arg-type]
        assert refused.value.reason == "TRY_AGAIN"
        assert isinstance(await made.old.find(made.match_ids[0]), Room)


async def test_a_match_is_offered_when_it_is_left_and_not_when_somebody_looks(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its players wait: the end of their turn is noticed at once."""
    monkeypatch.setattr(handover, "LOOK_SECONDS", 3600.0)
    monkeypatch.setattr(Room, "turn_ns", 0)
    async with two(database_url, 1) as made:
        await made.says("ready")
        mover = Handover(made.pool, made.old, "old", lambda: True)
        await mover.step()
        handing = asyncio.create_task(mover.run())
        try:
            await asyncio.sleep(0)  # it rests
            (room,) = made.old.live()
            assert room.departure.begins_between_turns()
            room.leave()
            async with asyncio.timeout(30):
                while await made.owned("old"):
                    assert not handing.done()
        finally:
            handing.cancel()
            await asyncio.gather(handing, return_exceptions=True)


async def test_a_process_that_ends_moves_its_matches_one_after_another(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To others that are ready, however full they are; without them there is nothing to wait for."""
    monkeypatch.setattr(handover, "MOVING_MAX", 4)
    monkeypatch.setattr(handover, "PER_SECOND", 1e6)
    async with two(database_url, 20) as made:
        mover = Handover(made.pool, made.old, "old", lambda: False)
        most = 0

        async def take_up() -> None:
            nonlocal most
            while len(made.new.live()) < 20:
                offered = await made.pool.fetchval("select count(handed_over_at) from match_owner")
                most = max(most, offered, await made.new.take_up_orphans(0))

        await made.says("leaving", "old")
        await mover.hurry(3600)
        assert len(made.old.live()) == 20
        assert not made.old.takes_new
        await made.says("ready", room=0)
        others = [asyncio.create_task(work) for work in (mover.run(), take_up())]
        try:
            await mover.hurry(60)
            # All are given away by now; the last of them may still be opening.
            await others[1]
        finally:
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
        assert made.old.live() == []
        assert len(made.new.live()) == 20
        assert 0 < most <= 4
