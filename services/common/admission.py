"""Whose tokens count in one process: by the keys, by what was revoked, and by time, for calls and for running streams."""

from __future__ import annotations

import asyncio
from typing import Final

from services.common.auth import TokenVerifier
from services.common.revocations import Revocations
from services.common.settings import CommonSettings, SettingsError, variable
from services.common.tenures import Tenures
from services.storage.pool import Pool
from services.storage.revocations import revocations_after

REVOCATIONS_PERIOD_SECONDS: Final = 1.0
"""How often it is asked what was revoked."""


class Admission:
    """Checks tokens, where any are checked: a process without players and operators asks for none of it."""

    def __init__(self, settings: CommonSettings, pool: Pool) -> None:
        self._settings = settings
        self._revocations = Revocations(
            lambda number: revocations_after(pool, number, settings.token_seconds_max)
        )
        self.verifier: TokenVerifier | None = None
        """Once somebody has asked for it."""
        self.tenures = Tenures(
            lambda identity: None if self.verifier is None else self.verifier.ended(identity)
        )

    def verify(self) -> TokenVerifier:
        """What checks tokens. Raises SettingsError when its keys cannot be used."""
        settings = self._settings
        if self.verifier is None:
            try:
                self.verifier = TokenVerifier(
                    settings.jwks_file,
                    settings.token_issuer,
                    settings.token_audience,
                    seconds_max=settings.token_seconds_max,
                    revoked=self._revocations.cover,
                )
            except (OSError, ValueError) as error:
                raise SettingsError(f"{variable('jwks_file')}: {error}") from None
        return self.verifier

    async def look(self) -> None:
        """Asks what was revoked: once before anybody is let in."""
        if self.verifier is not None:
            await self._revocations.look()

    async def keep_looking(self) -> None:
        """Follows what is revoked and what expires, until cancelled."""
        async with asyncio.TaskGroup() as group:
            # Not one after the other: a database that hangs must not keep tokens from expiring.
            group.create_task(self.tenures.keep_looking())
            group.create_task(self._follow())

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(REVOCATIONS_PERIOD_SECONDS)
            await self.look()
