"""A PostgreSQL that can be exchanged for an older copy of itself, as a failover to a standby that was behind does."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import asyncpg

from services.local.postgres import EmbeddedPostgres


class Failover:
    """One server, and a copy of its data that another one starts from. What was committed after `copy` is lost by `happen`."""

    def __init__(self, folder: Path, port: int) -> None:
        self.server = EmbeddedPostgres(folder, port=port, durable=False)
        self._data = folder / "cluster"
        self._copy = folder / "copy"

    async def copy(self) -> None:
        """Takes a base backup, with all that is committed now, while the server goes on."""
        connection = await asyncpg.connect(self.server.url)
        try:
            await connection.execute("select pg_backup_start('copy', true)")
            await asyncio.to_thread(self._take)
            label = await connection.fetchval("select labelfile from pg_backup_stop(false)")
            await asyncio.to_thread(self._finish, str(label))
        finally:
            await connection.close()

    def _take(self) -> None:
        # Files that vanish meanwhile are none that a copy needs.
        subprocess.run(["cp", "-a", self._data, self._copy], check=False, capture_output=True)

    def _finish(self, label: str) -> None:
        shutil.rmtree(self._copy / "pg_wal")
        subprocess.run(["cp", "-a", self._data / "pg_wal", self._copy], check=True)
        for name in ("postmaster.pid", "postmaster.opts"):
            (self._copy / name).unlink(missing_ok=True)
        (self._copy / "backup_label").write_text(label, "utf-8")
        # The write-ahead log is read to its end, and then begins a new timeline.
        (self._copy / "recovery.signal").touch()
        with (self._copy / "postgresql.auto.conf").open("a", encoding="utf-8") as settings:
            settings.write("restore_command = 'false'\n")
        owner = (self._copy / "PG_VERSION").stat()
        for name in ("backup_label", "recovery.signal"):
            os.chown(self._copy / name, owner.st_uid, owner.st_gid)

    def happen(self) -> None:
        """The server is gone; one with the older data answers at its address."""
        self.server.stop()
        shutil.rmtree(self._data)
        self._copy.rename(self._data)
        self.server.start()
