"""Settings of a service, read once from the environment."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

PREFIX = "SPECTACULAR_BID_"


class Environment(StrEnum):
    """What a process may be trusted with."""

    PRODUCTION = "production"
    DEVELOPMENT = "development"
    TEST = "test"


class SettingsError(Exception):
    """The environment does not describe a process that can be started; the message names each fault."""


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port` (`[v6]:port` too). Raises ValueError."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{address!r} is not host:port")
    return host.strip("[]"), int(port)


class CommonSettings(BaseSettings):
    """What every service needs. Variables are the names in capitals after SPECTACULAR_BID_."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    env: Environment = Environment.DEVELOPMENT
    """`test` accepts scripted deals and other time controls for unrated matches; `production` refuses local helpers."""

    database_url: SecretStr
    """postgresql://user:password@host:port/database"""

    listen: str
    """Public gRPC address; port 0 takes a free one."""

    internal_listen: str = "127.0.0.1:0"
    """Address of the streams between services."""

    metrics_listen: str = "127.0.0.1:0"
    """Address of /metrics."""

    internal_secret: SecretStr
    """Shared by all services; whoever knows it can speak on the internal streams."""

    jwks_file: Path
    """Public keys against which the tokens of players are checked (a JSON Web Key Set)."""

    token_issuer: str = "spectacular-bid-local"  # noqa: S105 - a name
    token_audience: str = "spectacular-bid"  # noqa: S105 - a name
    log_level: str = "info"

    database_pool_size: Annotated[int, Field(ge=2, le=100)] = 8
    """Too small: calls wait for a connection. Too large: PostgreSQL runs out of them."""

    drain_grace_seconds: Annotated[float, Field(ge=0, le=600)] = 10.0
    """How long calls under way may take after SIGTERM before they are cut."""

    keepalive_seconds: Annotated[float, Field(ge=1, le=3600)] = 30.0
    """A connection that was silent for so long is pinged. Together with the next: how long a dead one is kept."""

    keepalive_timeout_seconds: Annotated[float, Field(ge=0.1, le=600)] = 10.0
    """A ping without an answer for so long ends the connection and its streams."""

    schema_wait_seconds: Annotated[float, Field(ge=0, le=600)] = 60.0
    """How long to wait at the start for the database and its schema."""

    @field_validator("listen", "internal_listen", "metrics_listen")
    @classmethod
    def _address(cls, value: str) -> str:
        split_address(value)
        return value

    @field_validator("internal_secret")
    @classmethod
    def _secret(cls, value: SecretStr) -> SecretStr:
        if len(value.get_secret_value()) < 16:
            raise ValueError("must have at least 16 characters")
        return value

    @field_validator("log_level")
    @classmethod
    def _level(cls, value: str) -> str:
        if value not in ("debug", "info", "warning", "error"):
            raise ValueError("must be debug, info, warning or error")
        return value

    def redacted(self) -> dict[str, Any]:
        """All settings for a log line; secrets show only that they are set."""
        return self.model_dump(mode="json")


S = TypeVar("S", bound=CommonSettings)


def _from_environment(kind: Callable[[], S]) -> S:
    return kind()


def load(kind: type[S]) -> S:
    """The settings of a service from the environment. Raises SettingsError naming each variable at fault."""
    try:
        return _from_environment(kind)
    except ValidationError as error:
        faults = "; ".join(
            f"{PREFIX}{'_'.join(str(part) for part in fault['loc']).upper() or 'settings'}: {fault['msg']}"
            for fault in error.errors(include_input=False, include_url=False)
        )
        # The values stay out of the message: one of them may be a secret.
        raise SettingsError(faults) from None
