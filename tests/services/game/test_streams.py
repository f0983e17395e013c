"""Play streams, without the network: what a client that never reads can make us keep."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from engine.view import View
from services.common.auth import Identity
from services.common.errors import ServiceError
from services.common.limits import Limits, Policy, set_visit
from services.common.patience import Patience
from services.common.tracing import NoTracer
from services.game.course import Courses
from services.game.livetime import LiveTime
from services.game.metrics import CommandMetrics
from services.game.rpc import MatchServicer
from services.game.story import Audience, Story
from services.game.streams import ANSWERS_MAX, Conversation, Follower, Wake
from services.wire.tables import Left
from spectacularbid.match.v1 import match_service_pb2 as pb
from tests.services.game.test_story import match_row, rulings


async def test_a_client_that_never_reads_is_not_listened_to_for_ever() -> None:
    """Nothing grows without limit: when too many answers wait, the stream ends with LIMIT_REACHED instead of taking more."""
    story = Story(match_row())
    conversation = Conversation(Follower(story, Audience.SPECTATOR, 0), Patience(1.0, Wake.late))
    courses = Courses(CommandMetrics(CollectorRegistry()), NoTracer())
    settings = SimpleNamespace(heartbeat_seconds=1.0)
    servicer = MatchServicer(
        *cast(Any, (None, None, None, LiveTime(), SimpleNamespace(), settings, None, courses))
    )
    read = 0

    async def flood() -> AsyncIterator[pb.PlayRequest]:
        nonlocal read
        for number in itertools.count():
            read = number
            yield pb.PlayRequest(submit=pb.SubmitRequest(request_id=f"r{number}"))

    set_visit(Limits(Policy(addresses=False)).visit("", "unix:", ()))
    identity = Identity("somebody", "Somebody", bot=False, roles=frozenset())
    with pytest.raises(ServiceError) as ended:
        async with asyncio.timeout(30):
            await servicer._pump(flood(), story, conversation, identity)
    assert ended.value.reason == "LIMIT_REACHED"
    assert read == ANSWERS_MAX


async def test_news_that_comes_in_the_moment_of_a_heartbeat_is_told_in_its_place() -> None:
    """A heartbeat that named an event which the stream had not told would look like a loss."""
    wake = Wake(Patience(0.0, Wake.late))
    waiting = asyncio.create_task(wake.wait())
    await asyncio.sleep(0)
    wake.late()
    wake.set()  # behind the timeout, before whoever waits goes on
    assert await waiting
    wake.clear()
    assert not await wake.wait()


class Looked(Story):
    """Counts how often its table is looked at, and what may be done: of these a snapshot and a prompt are made."""

    looks = questions = 0

    def view(self, audience: Audience) -> View:
        self.looks += 1
        return super().view(audience)

    def choices(self, audience: Audience) -> bytes:
        self.questions += 1
        return super().choices(audience)


async def test_however_many_watch_a_match_each_question_is_made_for_them_once() -> None:
    """Only what the clocks show is made for each: it is later for whoever is told later."""
    story, rng = Looked(match_row()), random.Random(7)
    readers = [Follower(story, Audience.SPECTATOR, 0) for _ in range(50)]
    first = {reader.take() for reader in readers}
    assert (len(first), story.looks, story.questions) == (1, 1, 1)
    asked = 0
    for ruling in rulings(story.state, rng, 20):
        story.tell(ruling, 0)
        assert story.questions <= 1
        asked, story.questions = asked + story.questions, 0
        sequence = story.sequence - len(ruling)
        late = [Follower(story, Audience.SPECTATOR, sequence).take() for _ in readers] if sequence else []
        assert len(set(late)) == (1 if sequence else 0)
    clock = [story.prompt(Audience.SPECTATOR, Left(left_ns)) for left_ns in (7_000_000, 5_000_000)]
    one, other = (pb.WatchResponse.FromString(told).prompt for told in clock)
    assert (one.clock.remaining_ms, other.clock.remaining_ms) == (7, 5)
    one.ClearField("clock")
    other.ClearField("clock")
    assert one == other
    assert story.questions == 1
    assert asked > 10
    assert story.looks == 1
