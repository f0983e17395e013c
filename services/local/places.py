"""Where the local stack keeps its things and on which ports it listens."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

from services.common.auth import CANARY_PREFIX, CANARY_ROLE, TokenIssuer, write_new_keys
from services.common.gates import OPERATOR_ROLE
from services.common.settings import PREFIX, CommonSettings

HOST = "127.0.0.1"
OPERATOR_TOKEN_SECONDS = 24 * 3600
DEFAULT_PORTS = {
    "matchmaking": 7600,
    "game": 7601,
    "clock": 7602,
    "matchmaking, internal": 7605,
    "matchmaking metrics": 7610,
    "game metrics": 7611,
    "clock metrics": 7612,
}


class InUseError(Exception):
    """Another stack has this folder; the text says which process."""


@dataclass(frozen=True, slots=True)
class Places:
    """The folder of one stack."""

    folder: Path

    @property
    def logs(self) -> Path:
        """One log a process."""
        return self.folder / "logs"

    @property
    def postgres(self) -> Path:
        """The database, kept between runs."""
        return self.folder / "postgres"

    @property
    def bots(self) -> Path:
        """Who the demonstration bots are."""
        return self.folder / "bots"

    @property
    def serving(self) -> Path:
        """Where a stack that serves is looked at by `python -m services.ops status`; gone with it."""
        return self.folder / "serving.json"

    @property
    def canary_tokens(self) -> Path:
        """Who the players of the canary are."""
        return self.folder / "keys" / "canary.json"

    @property
    def signing_key(self) -> Path:
        """Signs the tokens of guests and bots."""
        return self.folder / "keys" / "signing.pem"

    @property
    def jwks(self) -> Path:
        """What those tokens are checked against."""
        return self.folder / "keys" / "jwks.json"

    def prepare(self) -> None:
        """Make what is missing: folders and keys."""
        for folder in (self.folder, self.logs, self.bots, self.signing_key.parent):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not (self.signing_key.exists() and self.jwks.exists()):
            write_new_keys(self.signing_key, self.jwks)

    def write_serving(self, facts: dict[str, object]) -> None:
        """Say where this stack is looked at."""
        _write_own(self.serving, facts)

    def write_canary_tokens(self, issuer: str, audience: str) -> None:
        """Tokens for the two players of the canary."""
        tokens = TokenIssuer(self.signing_key, issuer, audience)
        _write_own(
            self.canary_tokens,
            {
                seat: tokens.issue(f"{CANARY_PREFIX}{seat}", f"Canary {seat}", roles=[CANARY_ROLE])[0]
                for seat in ("north", "south")
            },
        )

    def bot_token(self, player_id: str, name: str, issuer: str, audience: str) -> str:
        """A token for a house bot."""
        token, _ = TokenIssuer(self.signing_key, issuer, audience).issue(player_id, name, bot=True)
        return token

    def operator_token(self, name: str, issuer: str, audience: str) -> str:
        """A token with which somebody of this name may act as an operator of this stack, for a day.

        Raises OSError when this stack has no keys yet. Production refuses keys of this kind.
        """
        token, _ = TokenIssuer(self.signing_key, issuer, audience).issue(
            name, name, roles=[OPERATOR_ROLE], seconds=OPERATOR_TOKEN_SECONDS
        )
        return token


def _write_own(file: Path, facts: Mapping[str, object]) -> None:
    """A file that its owner alone can read, and that is never half written."""
    fresh = file.with_suffix(".new")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        json.dump(facts, out)
    fresh.replace(file)


class FolderLock:
    """One stack a folder. Free again when this process ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: IO[str] | None = None

    def __enter__(self) -> Self:
        """Raises InUseError."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = (self._folder / "lock").open("a+", encoding="ascii")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            owner = file.read().strip() or "?"
            file.close()
            raise InUseError(
                f"a stack is running on {self._folder} already (process {owner}): stop it first, "
                "or give this one a folder of its own with --folder"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        self._file = file
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.truncate(0)
            self._file.close()
            self._file = None


def issuer_and_audience() -> tuple[str, str]:
    """What the tokens of this stack must say."""
    fields = CommonSettings.model_fields
    return (
        os.environ.get(f"{PREFIX}TOKEN_ISSUER", fields["token_issuer"].default),
        os.environ.get(f"{PREFIX}TOKEN_AUDIENCE", fields["token_audience"].default),
    )


def choose_ports() -> dict[str, int]:
    """A port for each name of DEFAULT_PORTS: the default, or a free one where that is taken."""
    with ExitStack() as held:
        # All are held until all are chosen, so that none is given out twice.
        return {name: _hold(held, port) for name, port in DEFAULT_PORTS.items()}


def _hold(held: ExitStack, wanted: int) -> int:
    for port in (wanted, 0):
        probe = held.enter_context(socket.socket())
        # Ports of connections that have just ended are free to listen on.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            continue
        probe.listen(1)
        return int(probe.getsockname()[1])
    raise OSError(f"no free port on {HOST}")
