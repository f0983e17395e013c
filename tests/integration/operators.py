"""What an operator types, and what is printed then."""

from __future__ import annotations

import asyncio
import os
import sys

from tests.stack import Stack

WHO = ("--author", "ada", "--reason", "switch 3 was down")


async def ops(made: Stack, *arguments: str, status: int = 0) -> str:
    """Runs `python -m services.ops incident`; what it printed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "services.ops", "incident", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "SPECTACULAR_BID_DATABASE_URL": made.database_url, "COLUMNS": "200"},
    )
    out, _ = await process.communicate()
    assert process.returncode == status, out.decode()
    return out.decode().strip()


async def explained(made: Stack, match_id: str) -> str:
    """The dispute procedure of a match; fails when a figure cannot be reproduced."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "services.clock", "explain", match_id, "--database-url", made.database_url),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=os.environ,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
    return out.decode()
