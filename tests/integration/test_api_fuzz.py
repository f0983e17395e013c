"""The fuzzer of the whole API for a moment, with a fixed seed; `make fuzz` runs it for longer, with another each time."""

from __future__ import annotations

import pytest

from tests.fuzz.api import run
from tests.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="session")

CALLS = 800
SECONDS = 20.0
"""More than a busy machine needs."""
SEED = 1


async def test_every_answer_is_one_that_the_model_allows(shared: Stack) -> None:
    """Players, spectators and strangers at once send legal, stale, repeated, borrowed, damaged and forged calls to every rpc.
    Each answer has the right status and reason, what was refused changed nothing, nobody was told a tile that was not
    theirs, one request had one effect, and afterwards logs, gauges and database are as they should be."""
    summary = await run(shared, SECONDS, SEED, calls_max=CALLS)
    assert summary.findings == []
    assert summary.matches > 0
    said = {each.partition(" ")[2] for each in summary.answers}
    assert {"OK", "MALFORMED", "NOT_SEATED", "STALE_DECISION", "TOKEN_INVALID", "ROLE_MISSING"} <= said
