"""Guests and profiles as messages of spectacularbid.identity.v1."""

from __future__ import annotations

from google.protobuf.timestamp_pb2 import Timestamp

from services.common.auth import PLAYER_ID
from services.common.errors import malformed
from services.storage.players import Profile
from services.storage.revocations import NewRevocation, Revoked
from services.wire.operations import reason_from_pb
from services.wire.results import id_from_pb
from spectacularbid.identity.v1 import guest_service_pb2, player_service_pb2
from spectacularbid.internal.operations.v1 import operations_service_pb2 as operations_pb


def player_id_from_pb(text: str, field: str = "player_id") -> str:
    """A player id: all that there are look so. Raises ServiceError naming the field."""
    if not PLAYER_ID.match(text):
        raise malformed(f"{field}: is no player id")
    return text


def revocation_from_pb(request: operations_pb.RevokeTokensRequest, author: str) -> NewRevocation:
    """Whose tokens are to be revoked. Raises ServiceError naming the field at fault."""
    return NewRevocation(
        revocation_id=id_from_pb(request.revocation_id, "revocation_id"),
        player_id=player_id_from_pb(request.player_id),
        author=author,
        reason=reason_from_pb(request.reason),
        via="operations",
    )


def revoked_to_pb(revoked: Revoked) -> operations_pb.RevokeTokensResponse:
    """From when tokens count."""
    at = Timestamp()
    at.FromDatetime(revoked.at)
    return operations_pb.RevokeTokensResponse(revoked_at=at, known=revoked.known)


def guest_to_pb(
    player_id: str, name: str, token: str, expires_at: int
) -> guest_service_pb2.CreateGuestResponse:
    """A new guest identity."""
    return guest_service_pb2.CreateGuestResponse(
        player_id=player_id, token=token, expires_at=expires_at, name=name
    )


def profile_to_pb(profile: Profile) -> player_service_pb2.Profile:
    """A player as everybody sees one."""
    created_at = Timestamp()
    created_at.FromDatetime(profile.created_at)
    return player_service_pb2.Profile(
        player_id=profile.player_id,
        name=profile.name,
        bot=profile.bot,
        registered=profile.registered,
        created_at=created_at,
    )
