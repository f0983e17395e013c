"""Which life of which game process this is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Incarnation:
    """One life of one game process."""

    engine_id: str
    """Stable name of the process."""
    name: str
    """New at each start."""
    address: str
    """Where players reach it."""
