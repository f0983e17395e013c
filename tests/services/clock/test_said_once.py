"""What both ends know is not said: a deadline that counts as it was asked, a commit that the next Open implies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from engine.clock import SECOND
from services.game.clock_client import RIDE_SECONDS, ClockLink
from services.game.livetime import LiveTime
from services.wire import clock as wire
from services.wire import clock_messages as m
from tests.services.clock.engines import SECONDS_MAX, Room, new_link, run_live, with_link
from tests.services.clock.test_link import Unwatched, new_rpc, serving


class Overheard(Unwatched):
    """A clock, and everything that is said on its stream except pings and their answers."""

    def __init__(self) -> None:
        self._rpc = new_rpc()
        self.heard: list[m.EngineMessage] = []
        self.together: list[list[m.EngineMessage]] = []
        """The same by what travelled together."""
        self.told: list[m.ClockMessage] = []
        self._news = asyncio.Event()

    async def Govern(self, request_iterator: Any, context: Any) -> AsyncIterator[Any]:
        async def requests() -> AsyncIterator[Any]:
            async for request in request_iterator:
                heard: list[m.EngineMessage] = [
                    one for one in wire.request_from_pb(request) if not isinstance(one, m.Pong)
                ]
                self.heard += heard
                self.together.append(heard)
                yield request
                self._news.set()

        async for response in self._rpc.Govern(requests(), context):
            self.told += [one for one in wire.response_from_pb(response) if not isinstance(one, m.Ping)]
            yield response

    async def hears(self, kind: type[m.EngineMessage]) -> None:
        """Until something of this kind has been said and read."""
        async with asyncio.timeout(SECONDS_MAX):
            while not any(isinstance(message, kind) for message in self.heard):
                self._news.clear()
                await self._news.wait()

    async def hears_together(self, *kinds: type[m.EngineMessage]) -> None:
        """Until these have come in one message."""
        async with asyncio.timeout(SECONDS_MAX):
            while list(kinds) not in [[type(one) for one in heard] for heard in self.together]:
                self._news.clear()
                await self._news.wait()


def overheard(play: Callable[[ClockLink, Room, Overheard], Any], *, reckons: bool = True) -> Overheard:
    """What is said while an engine plays one match."""

    async def main(live: LiveTime) -> Overheard:
        clock = Overheard()
        async with serving(clock) as address:
            link = new_link(address, live, reckons=reckons)
            await with_link(link, lambda: play(link, Room(link, live), clock))
        return clock

    return run_live(main)


def kinds(messages: list[Any]) -> list[type[Any]]:
    return [type(message) for message in messages]


async def two_turns(link: ClockLink, room: Room, clock: Overheard) -> None:
    """The second opens as soon as the first is committed, and nothing follows the second."""
    first = room.open()
    room.arrive(first.key)
    verdict = await room.hears(m.Verdict)
    link.applied(first.key, "c1", 1)
    second = room.open(2, bank_ms=verdict.bank_after_ns // 1_000_000)
    room.arrive(second.key, "c2")
    await room.hears(m.Verdict)
    link.applied(second.key, "c2", 2)
    await clock.hears(m.Applied)


def test_a_move_is_two_messages_to_the_clock_and_one_from_it() -> None:
    said = overheard(two_turns)
    assert kinds(said.heard) == [m.Hello, m.Open, m.Arrival, m.Open, m.Arrival, m.Applied]
    assert kinds(said.told) == [m.Welcome, m.Verdict, m.Verdict]


def test_an_engine_of_an_earlier_release_is_told_of_every_deadline() -> None:
    said = overheard(two_turns, reckons=False)
    assert kinds(said.told) == [m.Welcome, m.Armed, m.Verdict, m.Armed, m.Verdict]


def test_a_commit_is_told_when_another_match_goes_on() -> None:
    """What follows must be of the same match and owner."""

    async def play(link: ClockLink, room: Room, clock: Overheard) -> None:
        first = room.open()
        room.arrive(first.key)
        await room.hears(m.Verdict)
        link.applied(first.key, "c1", 1)
        Room(link, room.live, "m2").open()
        await clock.hears(m.Applied)

    assert kinds(overheard(play).heard) == [m.Hello, m.Open, m.Arrival, m.Applied, m.Open]


def test_a_deadline_that_is_not_the_one_asked_for_is_told() -> None:
    """A resume is a question: the answer is said even when it grants nothing."""

    async def play(_link: ClockLink, room: Room, _clock: Overheard) -> None:
        room.open(cause=m.OpenCause.RESUME, delay_ms=60_000, outage_hint_ns=0)
        assert (await room.hears(m.Armed)).credited_ns == 0
        other = Room(room.link, room.live, "m2")
        other.open(cause=m.OpenCause.RESUME, delay_ms=60_000, outage_hint_ns=SECOND)
        assert (await other.hears(m.Armed)).credited_ns == SECOND

    overheard(play)


Put = tuple[float, Callable[[], None]]


def put_off(link: ClockLink) -> list[Put]:
    """What the link does later, which is when the test says so."""
    later: list[Put] = []
    link.later = lambda seconds, call: later.append((seconds, call))
    return later


def test_what_nobody_waits_for_travels_with_what_somebody_waits_for() -> None:
    """An Open alone, and then a command at another table: one message."""

    async def play(link: ClockLink, room: Room, clock: Overheard) -> None:
        later, other = put_off(link), Room(link, room.live, "m2")
        room.arrive(room.open().key)
        await room.hears(m.Verdict)
        later.pop()[1]()  # in vain: it has gone with the command
        other.open()
        assert [seconds for seconds, _ in later] == [RIDE_SECONDS]
        clock.together.clear()
        room.arrive(m.Key("m1", 1, 1))  # again, as after a lost answer
        await clock.hears_together(m.Open, m.Arrival)

    overheard(play)


def test_what_finds_no_company_goes_alone_and_says_the_mark_of_then() -> None:
    """Else a deadline would be looked at later by as much as its Open had waited."""

    async def play(link: ClockLink, room: Room, clock: Overheard) -> None:
        later = put_off(link)
        opened = [room.open(), Room(link, room.live, "m2").open()]
        ((seconds, go),) = later
        assert seconds == RIDE_SECONDS
        while room.live.mark() == opened[1].mark_ns:  # noqa: ASYNC110 - a test watches
            await asyncio.sleep(0.001)
        mark = room.live.mark()
        go()
        await clock.hears_together(m.Open, m.Open)
        said = [one for one in clock.heard if isinstance(one, m.Open)]
        assert [one.again(one.cause, 0) for one in said] == [one.again(one.cause, 0) for one in opened]
        assert all(one.mark_ns >= mark for one in said)

    overheard(play)
