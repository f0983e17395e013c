"""Who is let in: by a token, by the secret of the services, or everybody."""

from __future__ import annotations

import hmac
from typing import Final, Protocol

import grpc

from services.common.auth import Identity, TokenVerifier
from services.common.errors import ServiceError

OPERATOR_ROLE: Final = "operator"
"""What `roles` of a token must contain for the calls of operators."""


class Gate(Protocol):
    """Lets a call in, or raises ServiceError."""

    def __call__(self, method: str, token: str | None) -> Identity | None: ...


class PlayerGate:
    """Players' tokens, checked for every method that is not open."""

    def __init__(self, verifier: TokenVerifier, open_methods: frozenset[str] = frozenset()) -> None:
        self._verifier = verifier
        self._open_methods = open_methods

    def __call__(self, method: str, token: str | None) -> Identity | None:
        if method in self._open_methods:
            return None
        if token is None:
            raise ServiceError(
                grpc.StatusCode.UNAUTHENTICATED, "TOKEN_INVALID", "authorization: Bearer <token> is missing"
            )
        return self._verifier.verify(token)


class SecretGate:
    """The shared secret of the internal streams."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()

    def __call__(self, method: str, token: str | None) -> Identity | None:  # noqa: ARG002 - all methods alike
        if token is None or not hmac.compare_digest(token.encode(), self._secret):
            raise ServiceError(
                grpc.StatusCode.UNAUTHENTICATED, "TOKEN_INVALID", "the internal secret is missing or wrong"
            )
        return None


class OperatorGate:
    """The internal streams and, under one prefix, the calls of operators: these need a token with a role of theirs, so
    that it is known who they are. The shared secret does not open them, nor their tokens the streams."""

    def __init__(self, secret: Gate, verifier: TokenVerifier, prefix: str) -> None:
        self._secret = secret
        self._players = PlayerGate(verifier)
        self._prefix = prefix

    def __call__(self, method: str, token: str | None) -> Identity | None:
        if not method.startswith(self._prefix):
            return self._secret(method, token)
        identity = self._players(method, token)
        if identity is None or OPERATOR_ROLE not in identity.roles:
            raise ServiceError(
                grpc.StatusCode.PERMISSION_DENIED, "ROLE_MISSING", f"the token lacks the role {OPERATOR_ROLE}"
            )
        return identity


class OpenGate:
    """Lets everybody in, as nobody."""

    def __call__(self, method: str, token: str | None) -> Identity | None:  # noqa: ARG002 - all alike
        return None
