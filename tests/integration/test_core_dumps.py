"""A process that crashes leaves nothing of its memory behind: there are hands, shuffles and secrets in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="session")


def core_limits(pid: int) -> list[str]:
    """The soft and the hard limit."""
    lines = Path(f"/proc/{pid}/limits").read_text("ascii").splitlines()
    (core,) = [line.split() for line in lines if line.startswith("Max core file size")]
    return core[4:6]


async def test_no_process_of_the_stack_leaves_a_core_dump(shared: Stack) -> None:
    """Whatever the shell that has started it allows."""
    assert len(shared.processes) == 3
    for process in shared.processes.values():
        assert core_limits(process.pid) == ["0", "0"], process.name
