"""A stack in its production configuration: TLS everywhere, real certificates, keys and secrets of its own."""

from __future__ import annotations

import asyncio
import json
import secrets
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from services.common.auth import TokenIssuer
from services.common.production import LOCAL_KEY_MARK
from services.common.settings import PREFIX
from tests.authority import CLIENT, SERVER, Authority
from tests.relay import relay
from tests.stack import AUDIENCE, HOST, Stack, stack

ISSUER = "https://accounts.play.example.org"
SSL_REQUEST = struct.pack("!ii", 8, 80877103)
"""How a client of PostgreSQL asks for TLS."""


@dataclass(frozen=True)
class SecureStack:
    """A stack, and who signs for it."""

    stack: Stack
    inside: Authority
    """Of the certificates of pods, on both ports."""
    secret: str
    issuer: TokenIssuer

    def token(self, player_id: str, *roles: str) -> str:
        """A token of a player or an operator."""
        return self.issuer.issue(player_id, player_id, roles=roles, seconds=3600)[0]

    def operator_env(self) -> dict[str, str]:
        """The environment of somebody who operates it."""
        files = self.inside.issue("operator-internal", "operator", usage=CLIENT)
        settings = internal_settings(*files, self.inside.file)
        own = {PREFIX + name: value for name, value in settings.items()}
        return own | {
            f"{PREFIX}OPERATOR_TOKEN": self.token("ada", "operator"),
            f"{PREFIX}MATCHMAKING_ADDRESS": self.stack.address("placement"),
        }


def internal_settings(cert: Path, key: Path, authority: Path) -> dict[str, str]:
    """The settings of mutual TLS inside."""
    return {
        "INTERNAL_TLS_CERT_FILE": str(cert),
        "INTERNAL_TLS_KEY_FILE": str(key),
        "INTERNAL_TLS_CA_FILE": str(authority),
    }


@asynccontextmanager
async def secure_stack(
    folder: Path, database_url: str, extra: dict[str, dict[str, str]]
) -> AsyncIterator[SecureStack]:
    """A stack in production, not started yet. `extra` has the processes it is to have, with settings of their own.

    The public certificate of a process names the Service of its kind, `game.spectacular-bid.svc` for example.
    """
    inside = Authority(folder / "inside", "inside")
    secret = secrets.token_urlsafe(33)
    async with database_front(inside, database_url) as secure_url:
        settings = {}
        for name, own in extra.items():
            kind = name.partition("-")[0]
            cert, key = inside.issue(f"{name}-public", f"{kind}.spectacular-bid.svc")
            usage = CLIENT if kind == "game" else SERVER  # it calls, the others are called
            internal = inside.issue(f"{name}-internal", HOST, usage=usage)
            settings[name] = {
                "ENV": "production",
                "ADDRESS_LIMITS": "true",
                "DATABASE_URL": secure_url,
                "INTERNAL_SECRET": secret,
                "TOKEN_ISSUER": ISSUER,
                "TLS_CERT_FILE": str(cert),
                "TLS_KEY_FILE": str(key),
                **internal_settings(*internal, inside.file),
                **({"GUEST_KEY_FILE": ""} if kind == "matchmaking" else {}),
                **own,
            }
        async with stack(folder, database_url, settings, names=()) as made:
            keys = json.loads((folder / "jwks.json").read_text())
            for key in keys["keys"]:
                del key[LOCAL_KEY_MARK]
            (folder / "jwks.json").write_text(json.dumps(keys))
            yield SecureStack(made, inside, secret, TokenIssuer(folder / "key.pem", ISSUER, AUDIENCE))


@asynccontextmanager
async def database_front(authority: Authority, database_url: str) -> AsyncIterator[str]:
    """The tests' PostgreSQL behind TLS, as a database has it in production; its URL, which says `verify-full`."""
    url = urlsplit(database_url)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.issue("database", HOST))

    async def opening(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[str, int]:
        assert await reader.readexactly(len(SSL_REQUEST)) == SSL_REQUEST, "plain text"
        writer.write(b"S")
        await writer.drain()
        await writer.start_tls(context)
        return str(url.hostname), url.port or 5432

    async with relay(opening) as port:
        login = url.netloc.rpartition("@")[0]
        query = f"sslmode=verify-full&sslrootcert={authority.file}"
        yield url._replace(netloc=f"{login}@{HOST}:{port}", query=query).geturl()
