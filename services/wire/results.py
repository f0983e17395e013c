"""Declarations, rulings and what comes of them as messages of internal.operations.v1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from google.protobuf.timestamp_pb2 import Timestamp

from matchmaker.ladder import Action, Change
from matchmaker.rating import Rating
from services.common.errors import malformed
from services.storage.annulments import Voided
from services.storage.declarations import Consequence, Declaration, Scope, ScopeKind
from services.storage.ladderaudit import Audit
from services.storage.refold import Moved, Shift, Summary
from services.storage.rulings import Act, Ruling
from services.storage.verdicts import Verdict
from services.wire.operations import TEXT_MAX
from services.wire.processes import engine_id_from_pb
from spectacularbid.internal.operations.v1 import results_pb2 as pb

MATCHES_MAX: Final = 1000
"""Matches that are named at once."""
LISTED_MAX: Final = 1000
"""Changes that are listed at once."""

_EFFECTS: Final[Mapping[int, Consequence]] = {
    pb.INCIDENT_EFFECT_VOID: Consequence.VOID,
    pb.INCIDENT_EFFECT_HOLD: Consequence.HOLD,
    pb.INCIDENT_EFFECT_NOTE: Consequence.NOTE,
}
EFFECT_TO_PB: Final = {
    Consequence.VOID: pb.INCIDENT_EFFECT_VOID,
    Consequence.HOLD: pb.INCIDENT_EFFECT_HOLD,
    Consequence.NOTE: pb.INCIDENT_EFFECT_NOTE,
}
_ACTIONS: Final[Mapping[int, Action]] = {
    pb.RESULT_ACTION_HOLD: Action.HOLD,
    pb.RESULT_ACTION_RELEASE: Action.RELEASE,
    pb.RESULT_ACTION_REVERSE: Action.REVERSE,
}
ACTION_TO_PB: Final = {
    Action.HOLD: pb.RESULT_ACTION_HOLD,
    Action.RELEASE: pb.RESULT_ACTION_RELEASE,
    Action.REVERSE: pb.RESULT_ACTION_REVERSE,
}
_VOIDED: Final = {Voided.LIVE: pb.VOIDED_MATCH_LIVE, Voided.ANNULLED: pb.VOIDED_MATCH_ANNULLED}
VOIDED: Final[Mapping[int, Voided]] = {number: voided for voided, number in _VOIDED.items()}


def declaration_from_pb(request: pb.DeclareIncidentRequest, author: str) -> Declaration:
    """What is declared. Raises ServiceError naming the field at fault."""
    if request.effect not in _EFFECTS:
        raise malformed("effect: must be given")
    effect, now = _EFFECTS[request.effect], datetime.now(UTC)
    began = _time(request.began_at, "began_at") if request.HasField("began_at") else now
    ended = _time(request.ended_at, "ended_at") if request.HasField("ended_at") else None
    if effect is Consequence.VOID:
        ended = ended or now
        if ended > now:
            raise malformed("ended_at: a match is void for what has happened, not for what may")
    if ended is not None and ended < began:
        raise malformed("ended_at: the window ends before it begins")
    return Declaration(
        author=author,
        reason=reason_from_pb(request.reason),
        scope=_scope(request),
        consequence=effect,
        began_at=began,
        ended_at=ended,
        incident_id=str(id_from_pb(request.incident_id, "incident_id")),
        via="operations",
    )


def _scope(request: pb.DeclareIncidentRequest) -> Scope:
    if [request.all, bool(request.engine_id), bool(request.match_ids)].count(True) != 1:
        raise malformed("all, engine_id, match_ids: exactly one must be given")
    if request.all:
        return Scope(ScopeKind.ALL)
    if request.engine_id:
        return Scope(ScopeKind.ENGINE, engine_id=engine_id_from_pb(request.engine_id))
    return Scope(ScopeKind.MATCHES, match_ids=tuple(map(str, _match_ids(request.match_ids))))


def ruling_from_pb(request: pb.RuleResultsRequest, author: str) -> tuple[Ruling, list[UUID]]:
    """What is ruled, about which matches. Raises ServiceError naming the field at fault."""
    if request.action not in _ACTIONS:
        raise malformed("action: must be given")
    if not request.match_ids and not request.incident_id:
        raise malformed("match_ids: must name a match when no incident is named")
    ruling = Ruling(
        author,
        reason_from_pb(request.reason),
        id_from_pb(request.incident_id, "incident_id") if request.incident_id else None,
        action=_ACTIONS[request.action],
        ruling_id=id_from_pb(request.ruling_id, "ruling_id"),
        via="operations",
    )
    return ruling, _match_ids(request.match_ids)


def act_from_pb(reason: str, author: str) -> Act:
    """Who does it, and why. Raises ServiceError naming the field at fault."""
    return Act(author, reason_from_pb(reason), via="operations")


def end_from_pb(request: pb.CloseIncidentRequest) -> datetime | None:
    """When the incident ended; None for now. Raises ServiceError naming the field at fault."""
    return _time(request.ended_at, "ended_at") if request.HasField("ended_at") else None


def limit_from_pb(limit: int) -> int:
    """How much is listed in the answer. Raises ServiceError."""
    if not 0 <= limit <= LISTED_MAX:
        raise malformed(f"limit: must be 0 to {LISTED_MAX}")
    return limit


def reason_from_pb(text: str) -> str:
    """Why. Raises ServiceError."""
    stripped = text.strip()
    if not 1 <= len(stripped) <= TEXT_MAX:
        raise malformed(f"reason: must be 1 to {TEXT_MAX} characters")
    # It reaches terminals: nothing in it may move a cursor.
    if not stripped.isprintable():
        raise malformed("reason: has characters that cannot be printed")
    return stripped


def id_from_pb(text: str, field: str) -> UUID:
    """An id. Raises ServiceError naming the field."""
    try:
        return UUID(text)
    except ValueError:
        raise malformed(f"{field}: must be a UUID") from None


def _match_ids(texts: Sequence[str]) -> list[UUID]:
    # Counted first: reading a message full of ids would take half a second.
    if len(texts) > MATCHES_MAX:
        raise malformed(f"match_ids: must be at most {MATCHES_MAX}")
    return [id_from_pb(text, "match_ids") for text in texts]


def _time(stamp: Timestamp, field: str) -> datetime:
    try:
        return stamp.ToDatetime(UTC)
    except (ValueError, OverflowError):
        raise malformed(f"{field}: is no time") from None


def voided_to_pb(voided: Voided) -> pb.VoidMatchResponse:
    """What becomes of a match."""
    return pb.VoidMatchResponse(voided=_VOIDED[voided])


def summary_to_pb(summary: Summary | None, limit: int) -> pb.RuleResultsResponse:
    """What a ruling has changed; None: an earlier call has done it."""
    if summary is None:
        return pb.RuleResultsResponse(done_before=True)
    return pb.RuleResultsResponse(
        decisions_changed=len(summary.matches),
        ratings_changed=len(summary.players),
        decisions=map(_shift_to_pb, summary.matches[:limit]),
        ratings=map(_moved_to_pb, summary.players[:limit]),
    )


def audit_to_pb(audit: Audit, limit: int) -> pb.RecomputeLadderResponse:
    """What a repair has found."""
    return pb.RecomputeLadderResponse(
        ruling_id=str(audit.ruling_id or ""),
        matches=audit.matches,
        players=audit.players,
        undecided=audit.undecided,
        differences=len(audit.differences),
        out_of_order=audit.out_of_order,
        first=map(str, audit.differences[:limit]),
    )


def _shift_to_pb(shift: Shift) -> pb.DecisionShift:
    return pb.DecisionShift(
        match_id=str(shift.ended.match_id),
        before=_verdict_to_pb(shift.before),
        after=_verdict_to_pb(shift.after),
    )


def _verdict_to_pb(verdict: Verdict) -> pb.Verdict:
    changes = verdict.changes or {}
    return pb.Verdict(
        reason=verdict.reason, **{seat: _change_to_pb(change) for seat, change in changes.items()}
    )


def _moved_to_pb(moved: Moved) -> pb.RatingMove:
    return pb.RatingMove(player_id=moved.player_id, change=_change_to_pb(Change(moved.before, moved.after)))


def _change_to_pb(change: Change) -> pb.RatingChange:
    return pb.RatingChange(
        mu_before=change.before.mu,
        sigma_before=change.before.sigma,
        mu_after=change.after.mu,
        sigma_after=change.after.sigma,
    )


def change_from_pb(message: pb.RatingChange) -> Change:
    """A rating before and after."""
    return Change(
        Rating(message.mu_before, message.sigma_before), Rating(message.mu_after, message.sigma_after)
    )
