"""What an operator types, and what is printed then."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping

from typer.testing import CliRunner

from services.ops.__main__ import app
from tests.roles import url_as
from tests.stack import Stack

WHY = ("--reason", "switch 3 was down")


async def ops(
    made: Stack, *arguments: str, status: int = 0, author: str = "ada", env: Mapping[str, str] | None = None
) -> str:
    """Runs `python -m services.ops` with the token of `author`, as an operator; what it printed."""
    token, _ = made.issuer.issue(author, author, roles=["operator"])
    own = {
        "SPECTACULAR_BID_OPERATOR_TOKEN": token,
        "SPECTACULAR_BID_MATCHMAKING_ADDRESS": made.address("placement"),
        # To look; who acts straight in the database says where.
        "SPECTACULAR_BID_DATABASE_URL": url_as("reader", made.database_url),
        "COLUMNS": "200",
        **(env or {}),
    }
    # The command has a loop of its own. In this process, since a new one takes a second to begin.
    result = await asyncio.to_thread(CliRunner().invoke, app, arguments, env=own)
    assert result.exit_code == status, result.output
    return result.output.strip()


async def explained(made: Stack, match_id: str) -> str:
    """The dispute procedure of a match; fails when a figure cannot be reproduced."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "services.clock", "explain", match_id),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "SPECTACULAR_BID_DATABASE_URL": url_as("reader", made.database_url)},
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
    return out.decode()
