"""TLS of the command line: whether, and whom to trust."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import grpc

if TYPE_CHECKING:
    from collections.abc import Mapping

TLS_VARIABLE: Final = "SPECTACULAR_BID_TLS"
CA_VARIABLE: Final = "SPECTACULAR_BID_CA"


class CredentialsError(ValueError):
    """What the environment says about TLS makes no sense; the text is for people."""


def from_environment(environment: Mapping[str, str] = os.environ) -> grpc.ChannelCredentials | None:
    """How to connect to every address, also to those that the service names: None is plain text.

    SPECTACULAR_BID_TLS=1 trusts whom the system trusts; SPECTACULAR_BID_CA names a file (PEM) of those to trust instead,
    and asks for TLS by itself. Raises CredentialsError.
    """
    wanted, file = environment.get(TLS_VARIABLE, ""), environment.get(CA_VARIABLE, "")
    if wanted not in ("", "0", "1"):
        raise CredentialsError(f"{TLS_VARIABLE} is neither 0 nor 1")
    if file:
        if wanted == "0":
            raise CredentialsError(
                f"{CA_VARIABLE} says whom to trust, and {TLS_VARIABLE} that nobody is asked"
            )
        try:
            return grpc.ssl_channel_credentials(Path(file).read_bytes())
        except OSError as error:
            raise CredentialsError(f"{CA_VARIABLE}: {file}: {error.strerror}") from None
    return grpc.ssl_channel_credentials() if wanted == "1" else None
