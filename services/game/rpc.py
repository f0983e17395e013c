"""MatchService: stamps, translates, asks, answers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime
from functools import partial
from typing import Any, Final

import grpc
from google.protobuf.timestamp_pb2 import Timestamp

from engine.eventjson import event_from_json
from engine.match import Cause, Outcome
from engine.record import record_lines
from engine.refusal import Refusal
from engine.seats import Seat
from services.common import tenures
from services.common.auth import Identity, caller
from services.common.errors import ServiceError, SlowReaderError, malformed, try_again
from services.common.guard import Context
from services.common.limits import DEAR_COST, visit
from services.common.patience import Patience
from services.common.questions import Questions
from services.game.asked import Asked, repeated
from services.game.course import Answer, Course, Courses
from services.game.creation import create, wanted_from_pb
from services.game.deals import counted
from services.game.incarnation import Incarnation
from services.game.livetime import LiveTime, Stamp
from services.game.massloss import MassLoss, Place
from services.game.networks import network_of
from services.game.room import Room
from services.game.rooms import Rooms, match_not_found
from services.game.settings import GameSettings
from services.game.story import Audience, Story, player_to_pb
from services.game.streams import Conversation, Follower, Wake, applied_to_pb, watch
from services.storage import matches, ownership
from services.storage.matches import SummaryRow
from services.storage.pool import Pool
from services.storage.script import first_state
from services.wire.commands import (
    command_from_pb,
    match_id_from_pb,
    payload_hash,
    refusal_error,
    request_id_from_pb,
)
from services.wire.pages import matches_key, matches_token
from services.wire.tables import SEAT, outcome_to_pb, seat_from_pb
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import match_service_pb2_grpc as pb_grpc

PAGE_SIZE = 20
PAGE_SIZE_MAX = 100
HEARTBEATS_TOGETHER: Final = 0.01
"""Streams that are due within this share of the time between heartbeats show life together."""


def _story(source: Room | Story) -> Story:
    return source.story if isinstance(source, Room) else source


class MatchServicer(pb_grpc.MatchServiceServicer):
    """The public face of a game process."""

    def __init__(
        self,
        rooms: Rooms,
        pool: Pool,
        questions: Questions,
        livetime: LiveTime,
        mass_loss: MassLoss,
        settings: GameSettings,
        incarnation: Incarnation,
        courses: Courses,
    ) -> None:
        self._rooms = rooms
        self._pool = pool
        self._questions = questions
        self._livetime = livetime
        self._mass_loss = mass_loss
        self._settings = settings
        self._incarnation = incarnation
        self._courses = courses
        beat = settings.heartbeat_seconds
        self._quiet = Patience(beat, Wake.late, together=beat * HEARTBEATS_TOGETHER)

    async def Submit(self, request: pb.SubmitRequest, context: Context) -> pb.SubmitResponse:  # noqa: ARG002
        """One command, answered when it is stored."""
        heard = self._livetime.heard()  # before the first await: this is what the clock judges
        course = self._course(request, request.match_id, caller(), heard)
        with course.told():
            source = await self._find(request.match_id)
            answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
            asked = self._asked(request, source, caller(), heard, course, partial(_tell, answered))
            self._ask(source, asked)
            try:
                async with asyncio.timeout(self._settings.answer_wait_seconds):
                    answer = await answered
            except TimeoutError:
                raise try_again("the answer takes long; send the same request_id again") from None
            if isinstance(answer, ServiceError):
                raise answer
        return pb.SubmitResponse(applied=applied_to_pb(answer))

    def _course(self, request: pb.SubmitRequest, match_id: str, identity: Identity, heard: Stamp) -> Course:
        return self._courses.begin(
            heard,
            match_id=match_id,
            player_id=identity.player_id,
            request_id=request.request_id,
            decision_id=request.decision_id,
            kind=request.command.WhichOneof("action") or "none",
        )

    def _asked(
        self,
        request: pb.SubmitRequest,
        source: Room | Story,
        identity: Identity,
        heard: Stamp,
        course: Course,
        answered: Callable[[Answer], None],
    ) -> Asked:
        """A command read. Raises ServiceError: MALFORMED, NOT_SEATED."""
        request_id = request_id_from_pb(request.request_id)
        seat = _acting_seat(request, _story(source).audience_of(identity.player_id))
        command = counted(command_from_pb(request, seat), bot=identity.bot)
        return Asked(
            command=command,
            request_id=request_id,
            payload=payload_hash(request, seat),
            decision_id=request.decision_id,
            heard=heard,
            answered=answered,
            course=course,
        )

    @staticmethod
    def _ask(source: Room | Story, asked: Asked) -> None:
        """Puts a command in line, or answers at once for a match that is over."""
        if isinstance(source, Room) and (source.held or not source.closed):
            source.ask(asked)
            return
        story = _story(source)
        if not story.over:
            raise try_again("the match is moving to another process")
        asked.settle(repeated(story, asked) or refusal_error(Refusal.MATCH_OVER))

    async def Watch(
        self,
        request: pb.WatchRequest,
        context: Context,  # noqa: ARG002
    ) -> AsyncIterator[Any]:
        """The news of a match; encoded."""
        with self._stream() as stream:
            follower = stream.follow(await self._follow(request))
            # Closed here and now, not whenever the collector comes by.
            async with contextlib.aclosing(watch(follower, self._quiet)) as news:
                async for response in news:
                    yield response

    async def Play(
        self,
        request_iterator: AsyncIterator[pb.PlayRequest],
        context: Context,  # noqa: ARG002
    ) -> AsyncIterator[Any]:
        """Commands and news of one match on one stream; encoded."""
        identity = caller()
        with self._stream() as stream:
            first = await anext(request_iterator, None)
            if first is None or first.WhichOneof("message") != "join":
                raise malformed("message: the first message must be join")
            source = await self._find(first.join.match_id)
            audience = _story(source).audience_of(identity.player_id)
            follower = stream.follow(Follower(source, audience, first.join.resume_after))
            conversation = Conversation(follower, self._quiet)
            pump = asyncio.create_task(self._pump(request_iterator, source, conversation, identity))

            def ended(pump: asyncio.Task[None]) -> None:
                if not pump.cancelled() and (error := pump.exception()) is not None:
                    conversation.deaf(error)

            pump.add_done_callback(ended)
            try:
                async with contextlib.aclosing(conversation.responses()) as news:
                    async for response in news:
                        yield response
            finally:
                pump.cancel()

    async def _pump(
        self,
        requests: AsyncIterator[pb.PlayRequest],
        source: Room | Story,
        conversation: Conversation,
        identity: Identity,
    ) -> None:
        """Reads, stamps, puts in line, and nothing else: an await between reads would date the next command late."""
        match_id = _story(source).row.match_id
        async for request in requests:
            heard = self._livetime.heard()
            submit = request.submit
            course = self._course(submit, submit.match_id or match_id, identity, heard)
            with course.told():
                if conversation.full:
                    raise SlowReaderError("the answers of this stream are not read", 1.0)
                visit().pay_at_once(1.0)
                answered = conversation.expect(submit.request_id[:64])
                try:
                    if request.WhichOneof("message") != "submit":
                        raise malformed("message: join comes once; after it only submit")
                    if submit.match_id and submit.match_id != match_id:
                        raise malformed("match_id: this stream is about another match")
                    self._ask(source, self._asked(submit, source, identity, heard, course, answered))
                except ServiceError as error:
                    course.end(error)
                    answered(error)

    async def _follow(self, request: pb.WatchRequest) -> Follower:
        source = await self._find(request.match_id)
        return Follower(source, _story(source).audience_of(caller().player_id), request.resume_after)

    async def _find(self, match_id: str) -> Room | Story:
        """What a call is about. Raises ServiceError as `Rooms.find`, and when it must be looked up too often."""
        wanted = match_id_from_pb(match_id)
        source = self._rooms.at_hand(wanted)
        if source is None:
            visit().pay(DEAR_COST)
            source = await self._rooms.find(wanted)
        return source

    @contextlib.contextmanager
    def _stream(self) -> Iterator[_Stream]:
        stream = _Stream(caller().player_id, network_of(visit().address), self._mass_loss)
        try:
            yield stream
        finally:
            stream.end()

    async def GetMatch(self, request: pb.GetMatchRequest, context: Context) -> pb.GetMatchResponse:  # noqa: ARG002
        """The caller's view."""
        source = await self._find(request.match_id)
        story = _story(source)
        left = source.left() if isinstance(source, Room) else None
        told = pb.WatchResponse.FromString(story.snapshot(story.audience_of(caller().player_id), left))
        return pb.GetMatchResponse(snapshot=told.snapshot)

    async def ListMyMatches(
        self,
        request: pb.ListMyMatchesRequest,
        context: Context,  # noqa: ARG002
    ) -> pb.ListMyMatchesResponse:
        """The caller's matches, newest first."""
        size = request.page_size or PAGE_SIZE
        if not 1 <= size <= PAGE_SIZE_MAX:
            raise malformed(f"page_size: must be 1 to {PAGE_SIZE_MAX}")
        before = matches_key(request.page_token)
        async with self._questions.acquire() as connection:
            rows = await matches.list_matches(
                connection,
                caller().player_id,
                live_only=request.live_only or request.invitations,
                invitations=request.invitations,
                before=before,
                limit=size + 1,
            )
        more = len(rows) > size
        return pb.ListMyMatchesResponse(
            matches=[_summary_to_pb(row) for row in rows[:size]],
            next_page_token=matches_token(rows[size - 1].created_at, rows[size - 1].match_id) if more else "",
        )

    async def GetRecord(self, request: pb.GetRecordRequest, context: Context) -> pb.GetRecordResponse:  # noqa: ARG002
        """The record of a finished match: only now deals and salts may leave; of an unrated one to its players alone."""
        match_id = match_id_from_pb(request.match_id)
        async with self._questions.acquire() as connection:
            row = await matches.get_match(connection, match_id)
            if row is None:
                raise match_not_found()
            log = await matches.get_log(connection, match_id)
        story = Story.from_log(row, log)
        if not story.over:
            raise ServiceError(grpc.StatusCode.FAILED_PRECONDITION, "MATCH_LIVE", "the match is not over yet")
        if not row.rated and story.audience_of(caller().player_id) is Audience.SPECTATOR:
            raise ServiceError(
                grpc.StatusCode.PERMISSION_DENIED,
                "RECORD_PRIVATE",
                "the match was not rated: only those who played it may have its record",
            )
        return pb.GetRecordResponse(record=record_of(story, log))

    async def CreateMatch(
        self,
        request: pb.CreateMatchRequest,
        context: Context,  # noqa: ARG002
    ) -> pb.CreateMatchResponse:
        """An unrated match of the caller, played by this process."""
        wanted = wanted_from_pb(request, self._settings)
        if not self._rooms.takes_new:
            raise await self._no_new_matches()
        creator = caller()
        with self._rooms.creating(creator.player_id) as room:
            match_id = await create(self._pool, wanted, creator, self._incarnation.engine_id, room=room)
            await self._rooms.find(match_id)
        return pb.CreateMatchResponse(
            match_id=match_id, seat=SEAT[wanted.seat], address=self._incarnation.address
        )

    async def _no_new_matches(self) -> ServiceError:
        """Where a match can be created instead; perhaps it has been, by the same call, before this process was drained."""
        address = await ownership.ready_elsewhere(self._pool, self._incarnation.engine_id)
        if address is None:
            return try_again("this process takes no new matches")
        return ServiceError(
            grpc.StatusCode.FAILED_PRECONDITION,
            "WRONG_ADDRESS",
            "this process takes no new matches; another one does",
            metadata={"address": address},
        )


class _Stream:
    """A stream as it is counted."""

    def __init__(self, player_id: str, network: str, mass_loss: MassLoss) -> None:
        self._player_id = player_id
        self._network = network
        self._mass_loss = mass_loss
        self._follower: Follower | None = None
        self._place: Place | None = None

    def follow(self, follower: Follower) -> Follower:
        """What it is about. Only whoever has a seat in a rated match that is played can be missed: any number of others
        could be had for nothing."""
        if follower.plays and follower.rated:
            self._follower = follower
            self._place = Place(follower.match_id, self._player_id, self._network)
            self._mass_loss.opened(self._place)
        return follower

    def end(self) -> None:
        """Broken, unless the match, or this process's part in it, is over."""
        if self._follower is not None and self._place is not None:
            # Nor whose token counts no more: that stream was ended by this process too.
            broken = not (self._follower.finished or tenures.is_over())
            running = self._follower.running
            self._mass_loss.ended(self._place, broken=broken, running=running)


def record_of(story: Story, log: list[matches.LogRow]) -> str:
    """The record of a finished match (JSON Lines)."""
    row = story.row
    events = [event_from_json(event) for entry in log for event in entry.event_list()]
    header = {
        "match_id": row.match_id,
        "players": {"north": row.north.player_id, "south": row.south.player_id},
        "names": {"north": row.north.name, "south": row.south.name},
        "rated": row.rated,
        "started_at": row.created_at.isoformat(),
        "ended_at": log[-1].at.isoformat(),
    }
    return "".join(f"{line}\n" for line in record_lines(first_state(row), events, header))


def _tell(call: asyncio.Future[Answer], answer: Answer) -> None:
    # The call may have ended meanwhile.
    if not call.done():
        call.set_result(answer)


def _acting_seat(request: pb.SubmitRequest, audience: Audience) -> Seat:
    given = seat_from_pb(request.seat, "seat")
    if audience is Audience.DEVICE:
        if given is None:
            raise malformed("seat: must be given on one device")
        return given
    if audience.seat is None or given not in (None, audience.seat):
        raise ServiceError(
            grpc.StatusCode.PERMISSION_DENIED, "NOT_SEATED", "you do not have this seat in this match"
        )
    return audience.seat


def _time(at: datetime | None) -> Timestamp | None:
    if at is None:
        return None
    stamp = Timestamp()
    stamp.FromDatetime(at)
    return stamp


def _summary_to_pb(row: SummaryRow) -> pb.MatchSummary:
    outcome = None
    if row.cause is not None:
        outcome = Outcome(
            None if row.winner is None else Seat(row.winner), Cause(row.cause), row.detail or ""
        )
    return pb.MatchSummary(
        match_id=row.match_id,
        north=player_to_pb(row.north),
        south=player_to_pb(row.south),
        rated=row.rated,
        created_at=_time(row.created_at),
        ended_at=_time(row.ended_at),
        outcome=None if outcome is None else outcome_to_pb(outcome),
        address=(row.address or "") if outcome is None else "",
    )
