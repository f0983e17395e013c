"""What a stream says: a cursor over one match's story, not a queue, so a slow reader costs only itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Final

from services.common.errors import ServiceError, malformed
from services.common.patience import Patience
from services.game.answers import Answered
from services.game.course import Answer
from services.game.listeners import Waking
from services.game.room import Room
from services.game.story import Audience, Story
from services.wire import parts
from services.wire.commands import refused_to_pb
from services.wire.tables import Left
from spectacularbid.match.v1 import match_service_pb2 as pb


class Follower:
    """One reader's place in a match."""

    def __init__(self, source: Room | Story, audience: Audience, resume_after: int) -> None:
        """Raises ServiceError when the resume point makes no sense."""
        if resume_after < 0:
            raise malformed("resume_after: must not be negative")
        self._room = source if isinstance(source, Room) else None
        self._story = source.story if isinstance(source, Room) else source
        self._audience = audience
        # Nothing was seen yet: everything is news, and without a resume point it is told as a snapshot.
        self._cursor: int | None = resume_after or None
        self._news = -1
        self.finished = False
        """Nothing more will come."""

    @property
    def plays(self) -> bool:
        """Whether the reader has a seat in a match that is still played."""
        return self._audience is not Audience.SPECTATOR and not self._story.over

    @property
    def match_id(self) -> str:
        """The match."""
        return self._story.row.match_id

    @property
    def rated(self) -> bool:
        """Whether the match counts for the ladder."""
        return self._story.row.rated

    @property
    def running(self) -> bool:
        """Whether a clock of the match runs."""
        return self._story.state.to_act is not None

    def take(self) -> bytes | None:
        """Everything the reader does not have, as a WatchResponse; or None."""
        story, room = self._story, self._room
        news = room.listeners.news if room is not None else 0
        if news == self._news and self._cursor is not None:
            return None
        self._news = news
        cursor, self._cursor = self._cursor, story.sequence
        events = None if cursor is None else story.since(self._audience, cursor)
        told = story.snapshot(self._audience, self._left()) if events is None else events
        if story.over:
            self.finished = True
        elif room is not None and room.closed and not room.held:
            self.finished = True
            elsewhere = pb.Reconnect(address=room.departure.successor)
            told += pb.WatchResponse(reconnect=elsewhere).SerializeToString()
        elif events is not None:
            told += story.prompt(self._audience, self._left())
        return told

    def _left(self) -> Left | None:
        return None if self._room is None else self._room.left()

    @property
    def behind(self) -> bool:
        """Whether there is news that the reader was not told: its turn to be woken has not come."""
        return self._room is not None and self._room.listeners.news != self._news

    def heartbeat(self) -> bytes:
        """Proof of life, as a WatchResponse."""
        return pb.WatchResponse(heartbeat=pb.Heartbeat(sequence=self._story.sequence)).SerializeToString()

    def listen(self, wake: Waking) -> None:
        """Sets `wake` with all news."""
        if self._room is not None:
            self._room.listen(wake, self._audience)

    def unlisten(self, wake: Waking) -> None:
        """Ends `listen`."""
        if self._room is not None:
            self._room.listeners.remove(wake, self._audience)


class Wake:
    """What one stream waits for: set by news, by answers, and by whatever else there is to say."""

    __slots__ = ("_is_set", "_quiet", "_waiter")

    def __init__(self, quiet: Patience[Wake]) -> None:
        """`quiet`: of all streams of the process, made with `Wake.late`."""
        self._quiet = quiet
        self._is_set = False
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        """There is something to say."""
        if not self._is_set:
            self._is_set = True
            self._go_on()

    def late(self) -> None:
        """There has been nothing to say for long: time for a heartbeat."""
        self._go_on()

    def _go_on(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def clear(self) -> None:
        """All that there was to say is said from here on."""
        self._is_set = False

    async def wait(self) -> bool:
        """Whether it is set; False when it was not for long."""
        if not self._is_set:
            self._waiter = asyncio.get_running_loop().create_future()
            self._quiet.begin(self)
            try:
                await self._waiter
            finally:
                self._quiet.end(self)
                self._waiter = None
        # News may have come behind the timeout, in this very moment: told as such, not as a heartbeat that is ahead of them.
        return self._is_set


async def watch(follower: Follower, quiet: Patience[Wake]) -> AsyncGenerator[bytes, None]:
    """The messages of a Watch stream, to the end of the match or of this process's part in it."""
    wake = Wake(quiet)
    follower.listen(wake)
    try:
        while True:
            wake.clear()
            response = follower.take()
            if response is not None:
                yield response
            if follower.finished:
                return
            if not await wake.wait() and not follower.behind:
                yield follower.heartbeat()
    finally:
        follower.unlisten(wake)


ANSWERS_MAX: Final = 1024
"""Answers of one Play stream that its client does not read."""


class Conversation:
    """A Play stream: news and answers, all that is there in one message."""

    def __init__(self, follower: Follower, quiet: Patience[Wake]) -> None:
        self._follower = follower
        self._wake = Wake(quiet)
        self._answers: list[bytes] = []
        self._expected = 0
        self._error: BaseException | None = None

    def expect(self, request_id: str) -> Callable[[Answer], None]:
        """An answer that will come: call what is returned with it, once."""
        self._expected += 1

        def arrived(answer: Answer) -> None:
            self._expected -= 1
            self._answers.append(answer_to_bytes(request_id, answer))
            self._wake.set()

        return arrived

    @property
    def full(self) -> bool:
        """Whether so much is unread that nothing more may be asked."""
        return len(self._answers) + self._expected >= ANSWERS_MAX

    def deaf(self, error: BaseException) -> None:
        """Nothing more can be read: the stream ends with this, since silence would look like life."""
        self._error = error
        self._wake.set()

    async def responses(self) -> AsyncGenerator[bytes, None]:
        """The messages of the stream."""
        follower, wake = self._follower, self._wake
        follower.listen(wake)
        try:
            while True:
                wake.clear()
                news = None if follower.finished else follower.take()
                answers, self._answers = self._answers, []
                if news is not None or answers:
                    yield parts.play_response(news, answers)
                if self._error is not None:
                    raise self._error
                if follower.finished and not self._expected and not self._answers:
                    return
                if not await wake.wait() and not follower.behind:
                    yield parts.play_response(follower.heartbeat(), ())
        finally:
            follower.unlisten(wake)


def applied_to_pb(answered: Answered) -> pb.Applied:
    """The effect of a command."""
    return pb.Applied(first_sequence=answered.first_sequence, last_sequence=answered.last_sequence)


def answer_to_bytes(request_id: str, answer: Answer) -> bytes:
    """An answer of a Play stream, in a PlayResponse."""
    if isinstance(answer, ServiceError):
        result = parts.refused(refused_to_pb(answer).SerializeToString())
    else:
        result = parts.applied(applied_to_pb(answer).SerializeToString())
    return parts.answer(request_id, result)
