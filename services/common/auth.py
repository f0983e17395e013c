"""Who is calling: bearer tokens (JWT, EdDSA) checked against public keys from a file."""

from __future__ import annotations

import contextvars
import json
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

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
from services.common.keys import Key, read_keys
from services.common.logs import get_logger
from services.common.production import LOCAL_KEY_MARK

TOKEN_LENGTH_MAX = 8192
TOKENS_KEPT: Final = 10_000
"""Tokens whose check is remembered; of more, the oldest is forgotten."""
TYPES: Final = frozenset({"jwt", "at+jwt", "application/at+jwt"})
"""What `typ` of a token may be, in any case, if it is given: an ID token or a proof of something else opens nothing."""
EARLY_SECONDS: Final = 60
"""How far the issuer's clock may be ahead of ours."""
LOOK_AGAIN_SECONDS: Final = 1.0
"""A token that names an unknown key has the keys read again at most this often."""
GUEST_TOKEN_SECONDS = 30 * 24 * 3600
TOKEN_SECONDS_MAX: Final = 31 * 24 * 3600
"""From the issue of a token to its end, unless settings say otherwise."""
PLAYER_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,63}\Z")
BOT_PREFIX: Final = "bot-"
"""Ids of house bots begin so, and nobody else's."""
CANARY_PREFIX: Final = "canary-"
"""Ids of the two players of the canary begin so, and nobody else's. Their matches are real matches; whoever counts what
players did leaves them out."""
CANARY_ROLE: Final = "canary"
"""What `roles` of their tokens must contain."""


_NO_ROLES: Final[frozenset[str]] = frozenset()
"""One for all players: each of their own takes 216 bytes."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What an identity rests on, for as long as it does."""

    key_id: str
    fingerprint: str
    """Of the key that signed."""
    issued: int
    expires: int
    """Both in seconds since 1970; at `expires` it is over."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The caller of a call, as the token says."""

    player_id: str
    suggested_name: str
    """What the issuer says the player is called; what others see is the service's own business."""
    bot: bool
    roles: frozenset[str]
    grant: Grant | None = field(default=None, compare=False)
    """None for an identity that no token stands behind."""


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
        seconds_max: int = TOKEN_SECONDS_MAX,
        revoked: Callable[[str, int], bool] = lambda _player_id, _issued: False,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`revoked` says whether tokens of a player count no more that were issued at a time, in seconds since 1970.

        Raises ValueError when the file holds no usable key set, OSError when it cannot be read.
        """
        self._jwks_file = jwks_file
        self._issuer = issuer
        self._audience = audience
        self._seconds_max = seconds_max
        self._revoked = revoked
        self._monotonic = monotonic
        self._wall = wall
        # A signature check costs more than the whole rest of a call; the same token comes thousands of times.
        self._known: dict[str, Identity] = {}
        self._refused: object = None
        self._looked_at = monotonic()
        self._text = jwks_file.read_bytes()
        self._keys = read_keys(jwks_file, self._text)

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
            keys = read_keys(self._jwks_file, text)
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
        identity = remembered.get(token)
        if identity is None:
            identity = self._check(token)
            while len(remembered) >= TOKENS_KEPT:
                del remembered[next(iter(remembered))]
            remembered[token] = identity
        ended = self.ended(identity)
        if ended is not None:
            remembered.pop(token, None)
            raise ended
        return identity

    def ended(self, identity: Identity) -> ServiceError | None:
        """Why an identity that was verified counts no more; None while it does. Cheap enough for all streams at once."""
        grant = identity.grant
        if grant is None:
            return None
        if self._wall() >= grant.expires:
            return _unauthenticated("TOKEN_EXPIRED", "the token has expired")
        key = self._keys.get(grant.key_id)
        if key is None or key.fingerprint != grant.fingerprint:
            return _unauthenticated("TOKEN_INVALID", "the key of the token does not count any more")
        if self._revoked(identity.player_id, grant.issued):
            return _unauthenticated("TOKEN_REVOKED", "the token was revoked; ask its issuer for another one")
        return None

    def _check(self, token: str) -> Identity:
        if len(token) > TOKEN_LENGTH_MAX:
            raise _unauthenticated("TOKEN_INVALID", "the token is too long")
        try:
            header = jwt.get_unverified_header(token)
            key_id, key = self._key(header)
            claims = jwt.decode(
                token,
                key=key.public,
                # The key decides the algorithm, never the token.
                algorithms=[key.algorithm],
                issuer=self._issuer,
                audience=self._audience,
                # When it was issued is looked at below.
                options={"require": ["exp", "iat", "sub", "iss", "aud"], "verify_iat": False},
            )
        except jwt.ExpiredSignatureError:
            raise _unauthenticated("TOKEN_EXPIRED", "the token has expired") from None
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError):
            raise _unauthenticated("TOKEN_INVALID", "the token is not valid") from None
        self._check_for_us(header, claims)
        issued, expires = self._times(claims)
        grant = Grant(key_id, key.fingerprint, issued, expires)
        return _identity(claims, grant)

    def _key(self, header: dict[str, Any]) -> tuple[str, Key]:
        key_id = header.get("kid")
        if not isinstance(key_id, str):
            raise _unauthenticated("TOKEN_INVALID", "the token names no key")
        key = self._keys.get(key_id)
        if key is None and self._monotonic() - self._looked_at >= LOOK_AGAIN_SECONDS:
            # A key may have come that we have not seen yet. Not each time: anybody can name a key there is not. Here
            # and now, so that nobody is refused for coming early: the file is small, and was read a moment ago.
            self.look()
            key = self._keys.get(key_id)
        if key is None:
            raise _unauthenticated("TOKEN_INVALID", "the token names no known key")
        return key_id, key

    def _check_for_us(self, header: dict[str, Any], claims: dict[str, Any]) -> None:
        kind = header.get("typ", "JWT")
        if not isinstance(kind, str) or kind.lower() not in TYPES:
            raise _unauthenticated("TOKEN_INVALID", "the token is of another type")
        # A token for several services could be used against us by each of them.
        if claims["aud"] not in (self._audience, [self._audience]):
            raise _unauthenticated("TOKEN_INVALID", "the token is meant for others too")

    def _times(self, claims: dict[str, Any]) -> tuple[int, int]:
        issued, expires = claims["iat"], claims["exp"]
        # `True` would pass as the number 1.
        if type(issued) is not int or type(expires) is not int:
            raise _unauthenticated("TOKEN_INVALID", "the token's times are not whole seconds")
        if issued > self._wall() + EARLY_SECONDS:
            raise _unauthenticated("TOKEN_INVALID", "the token was issued in the future")
        if not 0 <= issued < expires <= issued + self._seconds_max:
            raise _unauthenticated(
                "TOKEN_INVALID", f"the token lives longer than {self._seconds_max} seconds"
            )
        return issued, expires


def _identity(claims: dict[str, Any], grant: Grant) -> Identity:
    """Who a token says that its bearer is. Raises ServiceError."""
    player_id = claims["sub"]
    if not isinstance(player_id, str) or not PLAYER_ID.match(player_id):
        raise _unauthenticated("TOKEN_INVALID", "the token names no usable player id")
    name = claims.get("name")
    roles = claims.get("roles", [])
    if not isinstance(roles, list):
        raise _unauthenticated("TOKEN_INVALID", "the token's roles are no list")
    bot = claims.get("bot") is True
    if bot is not player_id.startswith(BOT_PREFIX):
        raise _unauthenticated("TOKEN_INVALID", "a house bot's id and its token's `bot` go together")
    if player_id.startswith(CANARY_PREFIX) and CANARY_ROLE not in roles:
        raise _unauthenticated("TOKEN_INVALID", "an id of the canary's takes a token of the canary's")
    # Not what is no text: a list that looks like a role when it is printed is none.
    held = frozenset(role for role in roles if isinstance(role, str)) or _NO_ROLES
    return Identity(player_id, name if isinstance(name, str) else "", bot, held, grant)


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


def house_bot_id(name: str) -> str:
    """The player id of a house bot: CreateMatch names it, whoever runs the bot holds its token."""
    return f"{BOT_PREFIX}{name}"
