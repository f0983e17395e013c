"""Settings of the matchmaking service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from services.common.auth import HOUSE_BOTS
from services.common.settings import CommonSettings, OptionalPath


class MatchmakingSettings(CommonSettings):
    """What matchmaking needs besides what every service needs."""

    listen: str = "127.0.0.1:7600"
    internal_listen: str = "127.0.0.1:7605"
    """Address at which game processes register."""
    metrics_listen: str = "127.0.0.1:7610"

    guest_key_file: OptionalPath = None
    """Private key that signs the tokens of guests; without it there are none. Refused in production."""

    seeks_max: Annotated[int, Field(ge=2, le=1_000_000)] = 20_000
    """Open seeks at once; more are refused with LIMIT_REACHED. Too large: a wave takes longer than its period."""

    wave_period_seconds: Annotated[float, Field(gt=0, le=10)] = 0.2
    """How often windows that have widened are looked at. An arrival is looked at at once, unless a crowd waits."""

    news_period_seconds: Annotated[float, Field(gt=0, le=60)] = 2.0
    """How often a waiting player is told the queue facts when nothing changes."""

    placed_patience_seconds: Annotated[float, Field(ge=0, le=60)] = 5.0
    """How long players are kept waiting for the game process to load their match. Afterwards they are told all the
    same: the match exists, and its start limit runs."""

    house_bots: tuple[str, ...] = HOUSE_BOTS
    """House bots that are named to those who wait long, weakest first; the same as in the game processes."""

    house_bots_after_seconds: Annotated[float, Field(ge=0, le=3600)] = 20.0
    """How long a player has waited when the house bots are named."""

    def production_faults(self) -> Iterator[tuple[str, str]]:
        """Besides what every service refuses: guests."""
        yield from super().production_faults()
        if self.guest_key_file is not None:
            yield "guest_key_file", "must not be set in production: anyone could become anybody new"
