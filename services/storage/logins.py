"""Letting the roles in: their passwords, where nobody else manages them, as on one machine.

What is sent is what PostgreSQL keeps, so that no password is in its log, whatever it logs.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlsplit, urlunsplit

from services.storage.pool import Connection
from services.storage.privileges import ROLE_PREFIX
from services.storage.sessions import LIMITS

ROLES: Final = tuple(LIMITS)
_ITERATIONS: Final = 4096
# One at a time: of two that change the same role at once PostgreSQL refuses one.
_LOCK: Final = 0x5BEC_106A


def new_passwords() -> dict[str, str]:
    """A random password for each role."""
    return {role: secrets.token_urlsafe(24) for role in ROLES}


async def let_in(connection: Connection, passwords: Mapping[str, str]) -> None:
    """Give these roles these passwords. Whoever is connected may change roles; migrations have made them.

    The passwords are plain ASCII. Roles belong to the whole server: who else uses it with these roles must know the new
    ones. Raises KeyError for a role that is none of ours.
    """
    if unknown := passwords.keys() - set(ROLES):
        raise KeyError(*unknown)
    async with connection.transaction():
        await connection.execute("select pg_advisory_xact_lock($1)", _LOCK)
        for role, password in passwords.items():
            # It cannot be a parameter there. It has no quotes.
            await connection.execute(f"alter role {ROLE_PREFIX}{role} login password '{_verifier(password)}'")


def url_of(url: str, role: str, password: str) -> str:
    """The address of a database as one of the roles has it."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{ROLE_PREFIX}{role}:{quote(password, safe='')}@{place}"))


def _verifier(password: str) -> str:
    """What PostgreSQL keeps of a password (RFC 5802)."""
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode("ascii"), salt, _ITERATIONS)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    salt64, stored64, server64 = (base64.b64encode(part).decode() for part in (salt, stored, server))
    return f"SCRAM-SHA-256${_ITERATIONS}:{salt64}${stored64}:{server64}"
