"""What a stream says: a cursor over one match's story, not a queue, so a slow reader costs only itself."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Final

from services.common.errors import ServiceError, malformed
from services.game.course import Answer
from services.game.room import Room
from services.game.story import Answered, Audience, Story
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

    def take(self) -> pb.WatchResponse | None:
        """Everything the reader does not have, or None."""
        story, room = self._story, self._room
        news = room.listeners.news if room is not None else 0
        if news == self._news and self._cursor is not None:
            return None
        self._news = news
        response = self._catch_up()
        if story.over:
            self.finished = True
        elif room is not None and room.closed and not room.held:
            self.finished = True
            response.reconnect.SetInParent()
            response.reconnect.address = room.departure.successor
        elif not response.HasField("snapshot"):
            response.prompt.CopyFrom(story.prompt(self._audience, self._left()))
        return response

    def _catch_up(self) -> pb.WatchResponse:
        story = self._story
        events = None if self._cursor is None else story.since(self._audience, self._cursor)
        self._cursor = story.sequence
        if events is None:
            return pb.WatchResponse(snapshot=story.snapshot(self._audience, self._left()))
        return pb.WatchResponse(events=events)

    def _left(self) -> Left | None:
        return None if self._room is None else self._room.left()

    @property
    def behind(self) -> bool:
        """Whether there is news that the reader was not told: its turn to be woken has not come."""
        return self._room is not None and self._room.listeners.news != self._news

    def heartbeat(self) -> pb.WatchResponse:
        """Proof of life."""
        return pb.WatchResponse(heartbeat=pb.Heartbeat(sequence=self._story.sequence))

    def listen(self, wake: asyncio.Event) -> None:
        """Sets `wake` with all news."""
        if self._room is not None:
            self._room.listen(wake, self._audience)

    def unlisten(self, wake: asyncio.Event) -> None:
        """Ends `listen`."""
        if self._room is not None:
            self._room.listeners.remove(wake, self._audience)


async def _woken(wake: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await wake.wait()
    except TimeoutError:
        # News may have come in this very moment: told as such, not as a heartbeat that is ahead of them.
        return wake.is_set()
    return True


async def watch(follower: Follower, heartbeat_seconds: float) -> AsyncGenerator[pb.WatchResponse, None]:
    """The messages of a Watch stream, to the end of the match or of this process's part in it."""
    wake = asyncio.Event()
    follower.listen(wake)
    try:
        while True:
            wake.clear()
            response = follower.take()
            if response is not None:
                yield response
            if follower.finished:
                return
            if not await _woken(wake, heartbeat_seconds) and not follower.behind:
                yield follower.heartbeat()
    finally:
        follower.unlisten(wake)


ANSWERS_MAX: Final = 1024
"""Answers of one Play stream that its client does not read."""


class Conversation:
    """A Play stream: news and answers, all that is there in one message."""

    def __init__(self, follower: Follower, heartbeat_seconds: float) -> None:
        self._follower = follower
        self._heartbeat_seconds = heartbeat_seconds
        self._wake = asyncio.Event()
        self._answers: deque[pb.Answer] = deque()
        self._expected = 0
        self._error: BaseException | None = None

    def expect(self, request_id: str) -> Callable[[Answer], None]:
        """An answer that will come: call what is returned with it, once."""
        self._expected += 1

        def arrived(answer: Answer) -> None:
            self._expected -= 1
            self._answers.append(answer_to_pb(request_id, answer))
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

    async def responses(self) -> AsyncGenerator[pb.PlayResponse, None]:
        """The messages of the stream."""
        follower = self._follower
        follower.listen(self._wake)
        try:
            while True:
                self._wake.clear()
                news = None if follower.finished else follower.take()
                answers = list(self._answers)
                self._answers.clear()
                if news is not None or answers:
                    yield pb.PlayResponse(news=news, answers=answers)
                if self._error is not None:
                    raise self._error
                if follower.finished and not self._expected and not self._answers:
                    return
                if not await _woken(self._wake, self._heartbeat_seconds) and not follower.behind:
                    yield pb.PlayResponse(news=follower.heartbeat())
        finally:
            follower.unlisten(self._wake)


def applied_to_pb(answered: Answered) -> pb.Applied:
    """The effect of a command."""
    return pb.Applied(first_sequence=answered.first_sequence, last_sequence=answered.last_sequence)


def answer_to_pb(request_id: str, answer: Answer) -> pb.Answer:
    """An answer of a Play stream."""
    if isinstance(answer, ServiceError):
        return pb.Answer(request_id=request_id, refused=refused_to_pb(answer))
    return pb.Answer(request_id=request_id, applied=applied_to_pb(answer))
