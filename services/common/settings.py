"""Settings of a service, read once from the environment."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeAlias, TypeVar
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict
from pydantic_settings import SettingsError as NoJsonError

from services.common import certificates, limits, production
from services.common.allowance import Rate
from services.common.auth import TOKEN_SECONDS_MAX
from services.common.certificates import CertificateError
from services.common.limits import Policy
from services.common.peers import read_networks
from services.common.redaction import hide

PREFIX = "SPECTACULAR_BID_"
_PORT = re.compile(r"[0-9]{1,5}\Z")


LOCAL_ISSUER = "spectacular-bid-local"
"""Who issues the tokens of a stack on one machine."""


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
    if not colon or not host.isprintable() or not host.strip() or not _PORT.match(port) or int(port) > 65535:
        raise ValueError(f"{address!r} is not host:port")
    return host.strip("[]"), int(port)


OptionalPath: TypeAlias = Annotated[Path | None, BeforeValidator(lambda value: value or None)]
"""A file that may be left out: empty is the same as not set."""


class Settings(BaseSettings):
    """What is read from the environment. Variables are the names in capitals after SPECTACULAR_BID_."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    def faults(self) -> Iterator[str]:
        """What is wrong between settings, or behind them: one sentence each, which names variables, never values of
        secrets."""
        yield from ()


class TlsSettings(Settings):
    """Where the certificates of both ports are. Commands that call internal ports need the internal ones alone."""

    tls_cert_file: OptionalPath = None
    """Certificate chain (PEM) of the public port; not set: plain text."""

    tls_key_file: OptionalPath = None
    """Its private key (PEM)."""

    internal_tls_cert_file: OptionalPath = None
    """Certificate chain that this process shows on internal ports, as server and as client; not set: plain text."""

    internal_tls_key_file: OptionalPath = None
    """Its private key."""

    internal_tls_ca_file: OptionalPath = None
    """Who signs the certificates of peers on internal ports: one of these is required of everybody."""

    def faults(self) -> Iterator[str]:
        """See above: half a configuration, and files that cannot be used."""
        for names in (
            ("tls_cert_file", "tls_key_file"),
            ("internal_tls_cert_file", "internal_tls_key_file", "internal_tls_ca_file"),
        ):
            files = {name: getattr(self, name) for name in names}
            missing = [name for name, file in files.items() if file is None]
            if not missing:
                try:
                    certificates.read(*files.values())
                except CertificateError as error:
                    yield f"{variable(names[0])}: {error}"
            elif len(missing) < len(names):
                wanted = ", ".join(variable(name) for name in names)
                yield f"{', '.join(map(variable, missing))}: not set; it takes all of {wanted}, or none"


class CommonSettings(TlsSettings):
    """What every service needs. Variables are the names in capitals after SPECTACULAR_BID_."""

    serves_players: ClassVar[bool] = True
    """Whether it has a public port at all."""

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

    health_listen: str = "127.0.0.1:0"
    """Address of a server in plain text that answers health checks and nothing else, for what cannot speak TLS."""

    internal_secret: SecretStr
    """Shared by all services; whoever knows it can speak on the internal streams."""

    jwks_file: Path
    """Public keys against which the tokens of players are checked (a JSON Web Key Set)."""

    token_issuer: str = LOCAL_ISSUER
    token_audience: str = "spectacular-bid"  # noqa: S105 - a name

    token_seconds_max: Annotated[int, Field(ge=60, le=31_536_000)] = TOKEN_SECONDS_MAX
    """From the issue of a token to its end. Too long: what is stolen lasts; revocations are looked for so far back."""

    log_level: str = "info"

    database_pool_size: Annotated[int, Field(ge=2, le=100)] = 8
    """Too small: calls wait for a connection. Too large: PostgreSQL runs out of them."""

    drain_grace_seconds: Annotated[float, Field(ge=0, le=600)] = 10.0
    """How long calls under way may take after SIGTERM before they are cut."""

    keepalive_seconds: Annotated[float, Field(ge=1, le=3600)] = 30.0
    """A connection that was silent for so long is pinged. Together with the next: how long a dead one is kept."""

    keepalive_timeout_seconds: Annotated[float, Field(ge=0.1, le=600)] = 10.0
    """A ping without an answer for so long ends the connection and its streams."""

    address_limits: bool = True
    """False: addresses are not limited, nor are guests, because one machine plays everybody. Refused in production."""

    address_calls_per_second: Annotated[float, Field(ge=1, le=1_000_000)] = limits.ADDRESS_CALLS_PER_SECOND
    """Calls and commands of one address that this process takes; four seconds' worth at once. Too small: a household
    cannot come back after an outage. Too large: one address keeps the process busy, and time that it does not listen is
    credited."""

    player_calls_per_second: Annotated[float, Field(ge=1, le=1_000_000)] = limits.PLAYER_CALLS_PER_SECOND
    """The same of one player; six seconds' worth at once."""

    address_open_calls: Annotated[int, Field(ge=1, le=1_000_000)] = limits.ADDRESS_OPEN_CALLS
    """Calls of one address under way at once; streams are calls that last."""

    connection_calls: Annotated[int, Field(ge=1, le=1_000_000)] = limits.CONNECTION_CALLS
    """Calls under way at once on one connection; more wait on the side of whoever calls."""

    open_calls: Annotated[int, Field(ge=1, le=1_000_000)] = limits.OPEN_CALLS
    """Calls under way at once in all. Each needs some 20 KiB."""

    streams_per_player: Annotated[int, Field(ge=1, le=1000)] = limits.PLAYER_STREAMS
    """Streams of one player on this process."""

    trusted_proxies: tuple[str, ...] = ()
    """Networks (`10.0.0.0/8`) of proxies whose `x-forwarded-for` says where a call comes from. Too few: all players have
    the address of the proxy, and share its limits. Too many: who is in such a network says what address it likes."""

    reflection: bool | None = None
    """Whether the public port answers gRPC reflection; not set: not in production."""

    tracing_endpoint: str = ""
    """Where traces go, as OTLP over gRPC: `http://host:4317`, or `https://…`. Empty: no traces are made. Needs the extra
    `tracing`."""

    schema_wait_seconds: Annotated[float, Field(ge=0, le=600)] = 60.0
    """How long to wait at the start for the database and its schema."""

    @field_validator("listen", "internal_listen", "metrics_listen", "health_listen")
    @classmethod
    def _address(cls, value: str) -> str:
        split_address(value)
        return value

    @field_validator("trusted_proxies")
    @classmethod
    def _networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        read_networks(value)
        return value

    @field_validator("database_url")
    @classmethod
    def _database(cls, value: SecretStr) -> SecretStr:
        if not production.is_database_url(value.get_secret_value()):
            # Not a word of it: part of its password may stand where the host would.
            raise ValueError(
                "is no URL of a PostgreSQL; write / ? # [ ] @ inside of its parts as %2F and so on"
            )
        return value

    @field_validator("tracing_endpoint")
    @classmethod
    def _endpoint(cls, value: str) -> str:
        try:
            named = not value or (
                value.startswith(("http://", "https://")) and bool(urlsplit(value).hostname)
            )
        except ValueError:
            named = False
        if not named:
            raise ValueError("must be http://host:port or https://host:port, or be empty")
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

    @property
    def process_name(self) -> str:
        """What this process is called where several do the same: that of its pod, in a cluster."""
        return socket.gethostname()

    def faults(self) -> Iterator[str]:
        """See above; in production also everything that is for development only."""
        yield from super().faults()
        if self.env is Environment.PRODUCTION:
            for name, fault in self.production_faults():
                yield f"{variable(name)}: {fault}"

    def production_faults(self) -> Iterator[tuple[str, str]]:
        """What must not be in production: each setting with what is wrong about it."""
        if self.serves_players and self.tls_cert_file is None:
            yield "tls_cert_file", "not set: players would talk in plain text"
        if self.internal_tls_cert_file is None:
            yield "internal_tls_cert_file", "not set: services would talk in plain text"
        if not self.address_limits:
            yield "address_limits", "must be true in production: anybody could keep the service busy"
        if self.token_issuer == LOCAL_ISSUER:
            yield "token_issuer", f"{LOCAL_ISSUER} is that of stacks on one machine"
        yield from (("jwks_file", fault) for fault in production.key_faults(self.jwks_file))
        secret = self.internal_secret.get_secret_value()
        yield from (("internal_secret", fault) for fault in production.secret_faults(secret))
        url = self.database_url.get_secret_value()
        yield from (("database_url", fault) for fault in production.database_faults(url))

    @property
    def limit_policy(self) -> Policy:
        """How much the callers of each of its servers may ask for."""
        address, player = self.address_calls_per_second, self.player_calls_per_second
        return Policy(
            address_calls=Rate(address, address * limits.ADDRESS_SECONDS),
            player_calls=Rate(player, player * limits.PLAYER_SECONDS),
            address_open_calls=self.address_open_calls,
            open_calls=self.open_calls,
            player_streams=self.streams_per_player,
            addresses=self.address_limits,
            proxies=read_networks(self.trusted_proxies),
        )

    def redacted(self) -> dict[str, Any]:
        """All settings for a log line; secrets show only that they are set."""
        return self.model_dump(mode="json")


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return PREFIX + name.upper()


S = TypeVar("S", bound=Settings)


def _from_environment(kind: Callable[[], S]) -> S:
    return kind()


def load(kind: type[S]) -> S:
    """The settings of a service from the environment. Raises SettingsError naming each variable at fault."""
    try:
        settings = _from_environment(kind)
    except ValidationError as error:
        faults = "; ".join(
            f"{variable('_'.join(str(part) for part in fault['loc']) or 'settings')}: {fault['msg']}"
            for fault in error.errors(include_input=False, include_url=False)
        )
        # The values stay out of the message: one of them may be a secret.
        raise SettingsError(faults) from None
    except NoJsonError as error:
        raise SettingsError(f"{PREFIX}…: {error}") from None
    # Whatever else they say, no line of this process shows them.
    hide(value.get_secret_value() for _, value in settings if isinstance(value, SecretStr))
    if found := list(settings.faults()):
        raise SettingsError("; ".join(found))
    return settings
