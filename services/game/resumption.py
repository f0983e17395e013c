"""A match that goes on after an outage: how long nobody listened, and the incident that says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from services.storage.incidents import Incident

RESUME_GRACE_SECONDS: Final = 5.0
"""How long the player to act may take to come back before the clock goes on."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """Why and since when."""

    gap_ns: int
    """By the database's clock, since the last owner's last proof of life; a clock that remembers knows better."""
    incident: Incident
