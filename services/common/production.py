"""What a production process refuses to start with, apart from what is missing: keys, secrets and databases that are
good enough for development only."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

LOCAL_KEY_MARK: Final = "made_for_one_machine"
"""A member that is true in every public key that is made for a stack on one machine."""

SECRET_LENGTH_MIN: Final = 32
SECRET_VARIETY_MIN: Final = 12
"""Different characters at least. A random secret of that length has more; a phrase of one word repeated has not."""
KNOWN_WORDS: Final = ("secret", "password", "example", "default", "changeme", "change-me", "spectacular")
"""What secrets of examples, tests and templates contain, and what is random does not."""

_HOST: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[\w.%-]*)(:[0-9]{1,5})?\Z", re.ASCII)

VERIFYING: Final = frozenset({"verify-ca", "verify-full"})
"""Values of sslmode with which it is known who answers. `require` only hides the talk from those who listen."""


def secret_faults(secret: str) -> Iterator[str]:
    """Why a shared secret is not fit for production, without a word of it."""
    if len(secret) < SECRET_LENGTH_MIN:
        yield f"must have at least {SECRET_LENGTH_MIN} characters in production"
    if len(set(secret)) < SECRET_VARIETY_MIN:
        yield f"must have at least {SECRET_VARIETY_MIN} different characters in production"
    if any(word in secret.lower() for word in KNOWN_WORDS):
        yield "must be random in production, not one of an example"


def is_database_url(url: str) -> bool:
    """Whether it is one that every part of us reads the same way: what has no plain host and port would end up, password
    and all, in the text of some exception."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    hosts = parts.netloc.rpartition("@")[2].split(",")
    return parts.scheme in ("postgresql", "postgres") and all(map(_HOST.match, hosts))


def database_faults(url: str) -> Iterator[str]:
    """Why a database must not be reached so: over a network without knowing who answers. A local socket may be plain."""
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    host = query.get("host", [""])[-1] or parts.netloc.rpartition("@")[2]
    if host.startswith(("/", "%2F", "%2f")):
        return
    if query.get("sslmode", [""])[-1] not in VERIFYING:
        yield f"must say sslmode={' or sslmode='.join(sorted(VERIFYING))} in production, unless it is a local socket"


def key_faults(jwks_file: Path) -> Iterator[str]:
    """Why players' tokens must not be checked against these keys: anybody may hold the private half."""
    try:
        keys = json.loads(jwks_file.read_bytes())["keys"]
        local = any(key.get(LOCAL_KEY_MARK) for key in keys)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return  # whoever reads the keys to use them says what is wrong with the file
    if local:
        yield "holds a key that was made for a stack on one machine"
