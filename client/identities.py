"""Guest identities kept in a file between runs, so that a player stays the same player."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from client.connection import PATIENCE_SECONDS
from client.errors import CallError
from client.session import Client, Identity, new_guest

if TYPE_CHECKING:
    import grpc

# A token that is about to expire would do so in the middle of a match.
_SPARE_SECONDS: Final = 24 * 3600
# The service does not know this player (any more): its keys or its data are new.
_FORGOTTEN: Final = frozenset({"TOKEN_INVALID", "TOKEN_EXPIRED", "TOKEN_REVOKED", "PLAYER_NOT_FOUND"})


def default_file() -> Path:
    """The file in the user's state folder."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "spectacular-bid" / "identities.json"


def read(file: Path, server: str) -> Identity | None:
    """The identity kept for a server; None when there is none that is still good."""
    with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
        identity = Identity(**json.loads(file.read_text("utf-8"))[server])
        if identity.expires_at > time.time() + _SPARE_SECONDS:
            return identity
    return None


def write(file: Path, server: str, identity: Identity) -> None:
    """Keep an identity. The file is readable for its owner alone and never half written."""
    kept: dict[str, object] = {}
    with suppress(OSError, ValueError, RecursionError):
        known = json.loads(file.read_text("utf-8"))
        kept = known if isinstance(known, dict) else {}
    kept[server] = asdict(identity)
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        json.dump(kept, out, indent=1)
    fresh.replace(file)


async def connect(
    file: Path,
    server: str,
    name: str,
    *,
    game_address: str | None = None,
    kept_as: str | None = None,
    credentials: grpc.ChannelCredentials | None = None,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Client:
    """A client for the guest kept in `file`, or for a new one when the service does not know that any more.

    A guest who has no name yet registers `name`, if that is not empty. Raises CallError NAME_TAKEN, NAME_CONFUSABLE or
    NAME_INVALID when it is refused: the guest is kept all the same, and may come with another name.

    `kept_as` stands for the service in the file where its address may change; by default the address does.
    """

    def guest(identity: Identity) -> Client:
        return Client(
            server,
            identity.token,
            game_address=game_address,
            credentials=credentials,
            patience_seconds=patience_seconds,
        )

    key = kept_as or server
    identity = read(file, key)
    if identity is not None:
        client = guest(identity)
        try:
            named = (await client.profile()).registered
        except CallError as error:
            await client.close()
            if error.reason not in _FORGOTTEN:
                raise
        else:
            return client if named else await _named(client, name)
    identity = await new_guest(server, credentials=credentials, patience_seconds=patience_seconds)
    write(file, key, identity)
    return await _named(guest(identity), name)


async def _named(client: Client, name: str) -> Client:
    if name:
        try:
            await client.register(name)
        except BaseException:
            await client.close()
            raise
    return client
