"""Settings of the canary."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator

from services.common.settings import Environment, OptionalPath, Settings, split_address, variable


class CanarySettings(Settings):
    """What the canary needs. It reaches the service as players do: no database, no secret between services."""

    env: Environment = Environment.DEVELOPMENT
    """In `production` it refuses to send its tokens in plain text."""

    canary_server: str
    """Public address of matchmaking; several with commas between."""

    canary_game: str = ""
    """Where game processes answer; empty: the same, as behind one front door."""

    canary_tokens_file: Path
    """JSON object with the tokens of its two players, `north` and `south`; read again for each match."""

    canary_period_seconds: Annotated[float, Field(ge=1, le=3600)] = 60.0
    """From the beginning of one match to that of the next."""

    canary_step_seconds: Annotated[float, Field(ge=0.1, le=120)] = 10.0
    """A step that takes longer has failed, and the match with it. Too small: what players hardly notice is a failure."""

    canary_tls: bool = False
    """Whether the public addresses speak TLS."""

    canary_ca_file: OptionalPath = None
    """Who signs their certificates (PEM); not set: those everybody trusts."""

    metrics_listen: str = "127.0.0.1:0"
    health_listen: str = "127.0.0.1:0"
    log_level: Annotated[str, Field(pattern="^(debug|info|warning|error)$")] = "info"

    @field_validator("canary_server", "canary_game", "metrics_listen", "health_listen")
    @classmethod
    def _addresses(cls, value: str) -> str:
        for address in filter(None, value.split(",")):
            split_address(address.strip())
        return value

    def faults(self) -> Iterator[str]:
        """See above."""
        if self.canary_ca_file is not None and not self.canary_tls:
            yield f"{variable('canary_ca_file')}: without {variable('canary_tls')} nobody shows a certificate"
        if self.env is Environment.PRODUCTION and not self.canary_tls:
            yield f"{variable('canary_tls')}: off: its players would talk in plain text"
