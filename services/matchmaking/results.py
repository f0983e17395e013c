"""What operators declare and rule about matches and results, once each; the database settles every race."""

from __future__ import annotations

import grpc

from matchmaker.rating import UnknownModelError
from services.common.errors import ServiceError, malformed, try_again
from services.common.logs import get_logger
from services.matchmaking.drains import never_was
from services.matchmaking.lobby import Lobby
from services.storage import annulments, declarations, ladderaudit, resultacts, revocations
from services.storage.declarations import TooEarlyError, UnknownGameProcessError, UnknownMatchError
from services.storage.pool import Pool
from services.storage.revocations import OtherRevocationError
from services.storage.rulings import RefusedError
from services.wire import identity as identity_wire
from services.wire import results as wire
from services.wire.clock_messages import Policy
from spectacularbid.internal.operations.v1 import operations_service_pb2 as operations_pb
from spectacularbid.internal.operations.v1 import results_pb2 as pb


class Results:
    """Acts of operators that end in outcomes, incidents and rating decisions. Each raises ServiceError."""

    def __init__(self, pool: Pool, lobby: Lobby) -> None:
        self._pool = pool
        self._lobby = lobby

    async def declare(self, request: pb.DeclareIncidentRequest, author: str) -> pb.DeclareIncidentResponse:
        """An incident."""
        self._check_leads()
        made = wire.declaration_from_pb(request, author)
        try:
            async with self._pool.acquire() as connection, connection.transaction():
                await declarations.declare(connection, made, Policy().version)
        except UnknownMatchError as unknown:
            raise ServiceError(
                grpc.StatusCode.NOT_FOUND, "MATCH_NOT_FOUND", f"there is no match {unknown}"
            ) from None
        except UnknownGameProcessError as unknown:
            raise never_was(str(unknown)) from None
        _log("declare", author, made.reason, made.incident_id)
        return pb.DeclareIncidentResponse()

    async def close(self, request: pb.CloseIncidentRequest, author: str) -> pb.CloseIncidentResponse:
        """The end of an incident."""
        self._check_leads()
        incident_id = str(wire.id_from_pb(request.incident_id, "incident_id"))
        reason, ended_at = wire.reason_from_pb(request.reason), wire.end_from_pb(request)
        try:
            async with self._pool.acquire() as connection, connection.transaction():
                closed = await declarations.close(
                    connection, incident_id, author=author, reason=reason, ended_at=ended_at, via="operations"
                )
        except TooEarlyError:
            raise malformed("ended_at: it would have ended before it began") from None
        if not closed:
            raise ServiceError(
                grpc.StatusCode.NOT_FOUND,
                "INCIDENT_NOT_FOUND",
                f"there is no declared incident {incident_id} that lasts",
            )
        _log("close", author, reason, incident_id)
        return pb.CloseIncidentResponse()

    async def void(self, request: pb.VoidMatchRequest, author: str) -> pb.VoidMatchResponse:
        """A match that is not rated yet."""
        self._check_leads()
        match_id = wire.id_from_pb(request.match_id, "match_id")
        incident_id = wire.id_from_pb(request.incident_id, "incident_id")
        act = wire.act_from_pb(request.reason, author)
        try:
            async with self._pool.acquire() as connection:
                voided = await annulments.void_match(connection, match_id, act, incident_id, Policy().version)
        except (RefusedError, UnknownModelError) as refused:
            raise _refused(refused) from None
        _log("void", author, act.reason, str(match_id))
        return wire.voided_to_pb(voided)

    async def rule(self, request: pb.RuleResultsRequest, author: str) -> pb.RuleResultsResponse:
        """Results that are held, released or reversed."""
        self._check_leads()
        ruling, match_ids = wire.ruling_from_pb(request, author)
        limit = wire.limit_from_pb(request.limit)
        try:
            async with self._pool.acquire() as connection:
                summary = await resultacts.rule_once(connection, ruling, match_ids)
        except (RefusedError, UnknownModelError) as refused:
            raise _refused(refused) from None
        _log(ruling.action.value, author, ruling.reason, str(ruling.ruling_id))
        return wire.summary_to_pb(summary, limit)

    async def recompute(self, request: pb.RecomputeLadderRequest, author: str) -> pb.RecomputeLadderResponse:
        """The ladder, built again."""
        self._check_leads()
        reason, limit = wire.reason_from_pb(request.reason), wire.limit_from_pb(request.limit)
        try:
            async with self._pool.acquire() as connection:
                audit = await ladderaudit.repair(connection, author, reason, via="operations")
        except UnknownModelError as refused:
            raise _refused(refused) from None
        _log("recompute", author, reason, str(audit.ruling_id or ""))
        return wire.audit_to_pb(audit, limit)

    def _check_leads(self) -> None:
        if not self._lobby.is_open:
            raise try_again("this process does not lead; try again", 0.5)

    async def revoke_tokens(
        self, request: operations_pb.RevokeTokensRequest, author: str
    ) -> operations_pb.RevokeTokensResponse:
        """Tokens of a player."""
        self._check_leads()
        new = identity_wire.revocation_from_pb(request, author)
        try:
            async with self._pool.acquire() as connection:
                revoked = await revocations.revoke(connection, new)
        except OtherRevocationError:
            raise malformed("revocation_id: was used for another player") from None
        _log("revoke-tokens", author, new.reason, new.player_id)
        return identity_wire.revoked_to_pb(revoked)


def _refused(why: Exception) -> ServiceError:
    return ServiceError(grpc.StatusCode.FAILED_PRECONDITION, "RULING_REFUSED", str(why))


def _log(action: str, author: str, reason: str, about: str) -> None:
    get_logger().info("operator_acted", action=action, author=author, reason=reason, about=about)
