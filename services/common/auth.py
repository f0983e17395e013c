"""Who is calling: bearer tokens (JWT, EdDSA) checked against public keys from a file."""

from __future__ import annotations

import contextvars
import json
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc
import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from jwt.algorithms import OKPAlgorithm

from services.common.errors import ServiceError
from services.common.logs import get_logger
from services.common.production import LOCAL_KEY_MARK

# Asymmetric only: a symmetric algorithm would make the public key a signing key.
ALGORITHMS = ("EdDSA", "ES256", "RS256")
TOKEN_LENGTH_MAX = 8192
LOOK_AGAIN_SECONDS: Final = 1.0
"""A token that names an unknown key has the keys read again at most this often."""
GUEST_TOKEN_SECONDS = 30 * 24 * 3600
PLAYER_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,63}\Z")


@dataclass(frozen=True, slots=True)
class Identity:
    """The caller of a call, as the token says."""

    player_id: str
    suggested_name: str
    """What the issuer says the player is called; what others see is the service's own business."""
    bot: bool
    roles: frozenset[str]


_caller: contextvars.ContextVar[Identity] = contextvars.ContextVar("caller")


def caller() -> Identity:
    """The identity behind the running call. Raises LookupError outside of an authenticated call."""
    return _caller.get()


def set_caller(identity: Identity) -> None:
    """Names the caller of the running call (the guard does this)."""
    _caller.set(identity)


def _unauthenticated(reason: str, message: str) -> ServiceError:
    return ServiceError(grpc.StatusCode.UNAUTHENTICATED, reason, message)


class TokenVerifier:
    """Checks tokens. A token names its key by `kid`; the keys are those of the file, also after it has changed."""

    def __init__(
        self,
        jwks_file: Path,
        issuer: str,
        audience: str,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises ValueError when the file holds no usable key set, OSError when it cannot be read."""
        self._jwks_file = jwks_file
        self._issuer = issuer
        self._audience = audience
        self._monotonic = monotonic
        # A signature check costs more than the whole rest of a call; the same token comes thousands of times.
        self._known: dict[str, tuple[Identity, float]] = {}
        self._refused: object = None
        self._looked_at = monotonic()
        self._text = jwks_file.read_bytes()
        self._keys = _usable_keys(jwks_file, self._text)

    def look(self) -> None:
        """Read the file again. Keys that are gone open nothing any more; what makes no sense is logged once, and the
        keys that were read before stay."""
        self._looked_at = self._monotonic()
        text: bytes | None = None
        try:
            text = self._jwks_file.read_bytes()
            if text == self._text:
                self._refused = None
                return
            keys = _usable_keys(self._jwks_file, text)
        except (OSError, ValueError) as error:
            if self._refused != (refused := text or str(error)):
                get_logger().error("token_keys_refused", reason=str(error))
                self._refused = refused
            return
        self._text, self._keys, self._refused = text, keys, None
        # After the keys: one that was signed with a key that is gone may be among those remembered.
        self._known = {}
        get_logger().info("token_keys_read", keys=len(keys))

    def verify(self, token: str) -> Identity:
        """The identity of a valid token. Raises ServiceError (UNAUTHENTICATED)."""
        # This dictionary to the end: `look`, in another thread, begins a new one when the keys have changed.
        remembered = self._known
        known = remembered.get(token)
        if known is not None:
            if time.time() < known[1]:
                return known[0]
            del remembered[token]
            raise _unauthenticated("TOKEN_EXPIRED", "the token has expired")
        identity, expires = self._check(token)
        if len(remembered) >= 10_000:
            remembered.clear()
        remembered[token] = (identity, expires)
        return identity

    def _check(self, token: str) -> tuple[Identity, float]:
        if len(token) > TOKEN_LENGTH_MAX:
            raise _unauthenticated("TOKEN_INVALID", "the token is too long")
        try:
            kid = jwt.get_unverified_header(token).get("kid")
            key = self._keys.get(kid)
            if key is None and self._monotonic() - self._looked_at >= LOOK_AGAIN_SECONDS:
                # A key may have come that we have not seen yet. Not each time: anybody can name a key there is not. Here
                # and now, so that nobody is refused for coming early: the file is small, and was read a moment ago.
                self.look()
                key = self._keys.get(kid)
            if key is None:
                raise _unauthenticated("TOKEN_INVALID", "the token names no known key")
            claims = jwt.decode(
                token,
                key=key.key,
                # The key decides the algorithm, never the token.
                algorithms=[key.algorithm_name],
                issuer=self._issuer,
                audience=self._audience,
                options={"require": ["exp", "sub", "iss", "aud"]},
            )
        except jwt.ExpiredSignatureError:
            raise _unauthenticated("TOKEN_EXPIRED", "the token has expired") from None
        except (jwt.PyJWTError, ValueError, TypeError):
            raise _unauthenticated("TOKEN_INVALID", "the token is not valid") from None
        player_id = claims["sub"]
        if not isinstance(player_id, str) or not PLAYER_ID.match(player_id):
            raise _unauthenticated("TOKEN_INVALID", "the token names no usable player id")
        name = claims.get("name")
        roles = claims.get("roles", [])
        if not isinstance(roles, list):
            raise _unauthenticated("TOKEN_INVALID", "the token's roles are no list")
        identity = Identity(
            player_id,
            name if isinstance(name, str) else "",
            claims.get("bot") is True,
            frozenset(map(str, roles)),
        )
        return identity, float(claims["exp"])


def _usable_keys(jwks_file: Path, text: bytes) -> dict[str | None, jwt.PyJWK]:
    """By `kid`. Raises ValueError."""
    try:
        keys = jwt.PyJWKSet.from_json(text.decode()).keys
    except (jwt.PyJWTError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{jwks_file} is not a JSON Web Key Set: {type(error).__name__}") from None
    usable = {key.key_id: key for key in keys if key.algorithm_name in ALGORITHMS}
    if not usable:
        raise ValueError(f"{jwks_file} holds no key for {', '.join(ALGORITHMS)}")
    return usable


class TokenIssuer:
    """Signs tokens with the local stack's own key. Never part of a production configuration."""

    def __init__(self, key_file: Path, issuer: str, audience: str) -> None:
        """Raises ValueError when the file holds no Ed25519 key, OSError when it cannot be read."""
        key = load_pem_private_key(key_file.read_bytes(), password=None)
        if not isinstance(key, Ed25519PrivateKey):
            raise ValueError(f"{key_file} holds no Ed25519 private key")
        self._key = key
        self._kid = _key_id(key)
        self._issuer = issuer
        self._audience = audience

    def issue(
        self,
        player_id: str,
        name: str,
        *,
        bot: bool = False,
        roles: Iterable[str] = (),
        seconds: int = GUEST_TOKEN_SECONDS,
    ) -> tuple[str, int]:
        """A token and when it expires, in seconds since 1970."""
        now = int(time.time())
        claims = {
            "iss": self._issuer,
            "aud": self._audience,
            "sub": player_id,
            "name": name,
            "bot": bot,
            "roles": sorted(roles),
            "iat": now,
            "exp": now + seconds,
        }
        return jwt.encode(claims, self._key, algorithm="EdDSA", headers={"kid": self._kid}), now + seconds


def _key_id(key: Ed25519PrivateKey) -> str:
    jwk = OKPAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return str(jwk["x"])[:16]


def write_new_keys(private_file: Path, jwks_file: Path) -> None:
    """A new signing key (mode 0600) and its public key set, marked so that production refuses it."""
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    descriptor = os.open(private_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(pem)
    jwk = OKPAlgorithm.to_jwk(key.public_key(), as_dict=True)
    jwk |= {"kid": _key_id(key), "use": "sig", "alg": "EdDSA", LOCAL_KEY_MARK: True}
    jwks_file.write_text(json.dumps({"keys": [jwk]}, indent=1), encoding="utf-8")


def new_player_id(kind: str = "guest") -> str:
    """A player id nobody can guess or hold yet."""
    return f"{kind}-{secrets.token_hex(10)}"


HOUSE_BOTS: Final = ("easy", "greedy", "strong")
"""The house bots there are, weakest first."""


CANARY_PREFIX: Final = "canary-"
"""Ids of the two players of the canary begin so, and nobody else's: issuers give such ids to nobody. Their matches are
real matches; whoever counts what players did leaves them out."""


def house_bot_id(name: str) -> str:
    """The player id of a house bot: CreateMatch names it, whoever runs the bot holds its token."""
    return f"bot-{name}"
