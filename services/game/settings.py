"""Settings of a game process."""

from __future__ import annotations

import socket
from typing import Annotated

from pydantic import Field, field_validator

from services.common.auth import HOUSE_BOTS
from services.common.settings import CommonSettings, split_address


class GameSettings(CommonSettings):
    """What a game process needs to know."""

    listen: str = "127.0.0.1:7601"

    engine_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")] = f"game-{socket.gethostname()[:48]}"
    """Stable name: after a restart the process takes up the matches of this name."""

    public_address: str = ""
    """Where players reach this process, as host:port; empty is `listen` as bound."""

    clock_address: str
    """Internal address of the clock."""

    matchmaking_address: str
    """Internal address of matchmaking."""

    house_bots: tuple[str, ...] = HOUSE_BOTS
    """House bots one may ask for in CreateMatch; somebody must run them."""

    capacity: Annotated[int, Field(ge=1, le=100_000)] = 2000
    """Live matches this process takes from matchmaking."""

    created_share: Annotated[float, Field(gt=0, le=1)] = 0.25
    """Share of `capacity` that matches may have which players create themselves; more are refused with LIMIT_REACHED,
    so that they never take the place of rated ones."""

    lease_seconds: Annotated[float, Field(ge=1, le=120)] = 8.0
    """How long ownership lasts without a sign of life. Too short: a database hiccup makes the process unready."""

    answer_wait_seconds: Annotated[float, Field(ge=0.05, le=60)] = 5.0
    """How long a Submit waits for verdict and commit before it answers UNAVAILABLE (the command goes on)."""

    heartbeat_seconds: Annotated[float, Field(ge=0.05, le=60)] = 5.0
    """Quiet streams show life this often. Clients give up after 15 s."""

    linger_seconds: Annotated[float, Field(ge=0, le=3600)] = 60.0
    """How long a finished match stays in memory."""

    @property
    def process_name(self) -> str:
        """As leases, incidents and orders call it."""
        return self.engine_id

    @field_validator("clock_address", "matchmaking_address", "public_address")
    @classmethod
    def _host_port(cls, value: str) -> str:
        if value:
            split_address(value)
        return value
