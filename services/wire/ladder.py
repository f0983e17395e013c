"""Standings, results and rating decisions as messages of spectacularbid.ladder.v1."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from engine.outcome import Cause
from engine.seats import Seat
from matchmaker.ladder import Change
from matchmaker.rating import Rating
from services.common.errors import malformed
from services.storage.ladder import Decision
from services.storage.standings import MatchResult, Standing
from services.wire.matchmaking import player_to_pb
from services.wire.tables import CAUSE, SEAT
from spectacularbid.ladder.v1 import ladder_service_pb2 as pb
from spectacularbid.match.v1 import table_pb2

PAGE_SIZE: Final = 20
PAGE_SIZE_MAX: Final = 100
EACH_WAY: Final = 5
EACH_WAY_MAX: Final = 50


def page_size(asked: int) -> int:
    """How many a page holds. Raises ServiceError."""
    if not 0 <= asked <= PAGE_SIZE_MAX:
        raise malformed(f"page_size: must be 1 to {PAGE_SIZE_MAX}, or 0 for {PAGE_SIZE}")
    return asked or PAGE_SIZE


def each_way(asked: int) -> int:
    """How many better and how many worse players a neighbourhood shows. Raises ServiceError."""
    if not 0 <= asked <= EACH_WAY_MAX:
        raise malformed(f"each_way: must be 1 to {EACH_WAY_MAX}, or 0 for {EACH_WAY}")
    return asked or EACH_WAY


def standing_to_pb(standing: Standing) -> pb.Standing:
    """A player's place."""
    return pb.Standing(
        player=player_to_pb(standing.player),
        rank=standing.rank,
        shown_rating=standing.shown,
        rating=_rating_to_pb(standing.rating),
        rated_matches=standing.rated_matches,
        wins=standing.wins,
        provisional=standing.rating.provisional,
    )


def result_to_pb(result: MatchResult) -> pb.FinishedMatch:
    """A finished match."""
    return pb.FinishedMatch(
        match_id=str(result.match_id),
        north=player_to_pb(result.north),
        south=player_to_pb(result.south),
        outcome=table_pb2.Outcome(
            winner=SEAT[None if result.winner is None else Seat(result.winner)],
            cause=CAUSE[Cause(result.cause)],
            detail=result.detail,
        ),
        ended_at=_time_to_pb(result.ended_at),
        balances=table_pb2.Balances(north=result.north_balance, south=result.south_balance),
        decision=None if result.decision is None else decision_to_pb(result.decision),
        played_ms=result.length.played // timedelta(milliseconds=1),
        rounds=result.length.rounds,
        turns=result.length.turns,
    )


def decision_to_pb(decision: Decision) -> pb.RatingDecision:
    """A rating decision."""
    north, south = decision.north, decision.south
    return pb.RatingDecision(
        match_id=str(decision.match_id),
        rated=decision.rated,
        reason=decision.reason,
        model_version=decision.model_version,
        north_before=_before(north),
        north_after=_after(north),
        south_before=_before(south),
        south_after=_after(south),
        decided_at=_time_to_pb(decision.decided_at),
        revision=decision.revision,
        incident_id=str(decision.incident_id or ""),
        evidence_id=str(decision.evidence_id or ""),
        explanation=decision.explanation,
    )


def _before(change: Change | None) -> pb.Rating | None:
    return None if change is None else _rating_to_pb(change.before)


def _after(change: Change | None) -> pb.Rating | None:
    return None if change is None else _rating_to_pb(change.after)


def _rating_to_pb(rating: Rating) -> pb.Rating:
    return pb.Rating(mu=rating.mu, sigma=rating.sigma)


def _time_to_pb(at: datetime) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(at)
    return stamp
