"""Guests and profiles as messages of spectacularbid.identity.v1."""

from __future__ import annotations

from google.protobuf.timestamp_pb2 import Timestamp

from services.storage.players import Profile
from spectacularbid.identity.v1 import guest_service_pb2, player_service_pb2


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
