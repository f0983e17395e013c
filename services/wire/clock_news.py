"""What a clock tells whoever watches it: values, and the same on the wire.

News are for people and programs that look on. Nothing is decided by them, and what one release does not know of
another's it leaves out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, assert_never

from services.wire import clock as wire
from services.wire import clock_messages as m
from spectacularbid.internal.clock.v1 import clock_service_pb2 as pb

HEARTBEAT_SECONDS: Final = 5.0
"""A quiet clock shows life this often. A reader that hears nothing for three times as long looks for it anew."""


@dataclass(frozen=True, slots=True)
class SessionLost:
    """A game process has no session any more."""

    incarnation: str
    session_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class IncidentTold:
    """Something that went wrong, as it is kept. Instants in nanoseconds on `timeline_id`."""

    incident_id: str
    kind: str
    """A `services.storage.incidents.Kind`; newer clocks may know more of them."""
    incarnation: str
    timeline_id: str
    from_ns: int | None
    to_ns: int | None
    lasted_ns: int
    reason: str
    detail: str
    """JSON."""


@dataclass(frozen=True, slots=True)
class IncidentMatch:
    """A match that is void because of an incident."""

    incident_id: str
    match_id: str


Happened = m.Timeout | m.Void | m.Mismatch | SessionLost | IncidentTold | IncidentMatch


@dataclass(frozen=True, slots=True)
class News:
    """One thing that happened, and to which game process."""

    at: datetime
    """By the clock's wall clock: no part of any verdict."""
    engine_id: str
    happened: Happened


@dataclass(frozen=True, slots=True)
class Bulletin:
    """What a clock says at once; without news it is a sign of life."""

    clock_id: str
    engines: int
    """Game processes attached."""
    matches: int
    """Matches remembered."""
    news: tuple[News, ...] = ()


def bulletin_to_pb(bulletin: Bulletin) -> pb.WatchResponse:
    """For the stream."""
    return pb.WatchResponse(
        clock_id=bulletin.clock_id,
        engines=bulletin.engines,
        matches=bulletin.matches,
        news=map(_news_to_pb, bulletin.news),
    )


def bulletin_from_pb(response: pb.WatchResponse) -> Bulletin:
    """From the stream. News of a kind that this release does not know are left out. Raises MalformedClockMessageError."""
    return Bulletin(
        response.clock_id, response.engines, response.matches, tuple(_all_news_from_pb(response.news))
    )


def _news_to_pb(news: News) -> pb.News:
    made = pb.News(engine_id=news.engine_id)
    made.at.FromDatetime(news.at)
    match news.happened:
        case m.Timeout() | m.Void() | m.Mismatch() as said:
            # The same messages as in a session.
            (message,) = wire.response_to_pb([said]).messages
            kind = message.WhichOneof("message")
            assert kind is not None
            getattr(made, kind).CopyFrom(getattr(message, kind))
        case SessionLost(incarnation, session_id, reason):
            made.session_lost.CopyFrom(
                pb.SessionLost(incarnation=incarnation, session_id=session_id, reason=reason)
            )
        case IncidentTold() as told:
            made.incident.CopyFrom(
                pb.Incident(
                    incident_id=told.incident_id,
                    kind=told.kind,
                    incarnation=told.incarnation,
                    timeline_id=told.timeline_id,
                    from_ns=told.from_ns,
                    to_ns=told.to_ns,
                    lasted_ns=told.lasted_ns,
                    reason=told.reason,
                    detail=told.detail,
                )
            )
        case IncidentMatch(incident_id, match_id):
            made.incident_match.CopyFrom(pb.IncidentMatch(incident_id=incident_id, match_id=match_id))
        case _:
            assert_never(news.happened)
    return made


def _all_news_from_pb(all_news: Iterable[pb.News]) -> Iterable[News]:
    for news in all_news:
        happened = _happened_from_pb(news)
        if happened is not None:
            yield News(_at(news), news.engine_id, happened)


def _at(news: pb.News) -> datetime:
    try:
        return news.at.ToDatetime(UTC)
    except (ValueError, OverflowError):
        raise wire.MalformedClockMessageError("news.at: is no time") from None


def _happened_from_pb(news: pb.News) -> Happened | None:
    message = None
    match news.WhichOneof("kind"):
        case "timeout":
            message = pb.ClockMessage(timeout=news.timeout)
        case "void":
            message = pb.ClockMessage(void=news.void)
        case "mismatch":
            message = pb.ClockMessage(mismatch=news.mismatch)
        case "session_lost":
            lost = news.session_lost
            return SessionLost(lost.incarnation, lost.session_id, lost.reason)
        case "incident":
            told = news.incident
            return IncidentTold(
                told.incident_id,
                told.kind,
                told.incarnation,
                told.timeline_id,
                told.from_ns if told.HasField("from_ns") else None,
                told.to_ns if told.HasField("to_ns") else None,
                told.lasted_ns,
                told.reason,
                told.detail,
            )
        case "incident_match":
            return IncidentMatch(news.incident_match.incident_id, news.incident_match.match_id)
    if message is None:
        return None
    (said,) = wire.response_from_pb(pb.GovernResponse(messages=[message]))
    assert isinstance(said, m.Timeout | m.Void | m.Mismatch), "one of the three above"
    return said
