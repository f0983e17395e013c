"""Programs that tests run and that are no Python: Prometheus, kubectl, Envoy and the like."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
_ADVICE = {
    "prometheus": "`make tools` gets it on Debian and its like",
    "promtool": "`make tools` gets it on Debian and its like",
    "kubectl": "`make setup` installs it",
    "hadolint": "`make setup` installs it",
    "envoy": "`make setup` installs it where it is published",
}


def find_tool(name: str) -> str | None:
    """The path of a program: of the environment that runs this, whose versions are locked, of build/tools
    (`make tools`), or of PATH."""
    folders = [Path(sys.prefix) / "bin", ROOT / "build" / "tools" / "bin"]
    return shutil.which(name, path=os.pathsep.join(map(str, folders))) or shutil.which(name)


def tool(name: str) -> str:
    """The path of a program; the test is skipped where it cannot be had, and fails where CI is set.

    A machine of somebody who changes a rule of the game need not have kubectl; the one that decides about a release
    must not skip anything.
    """
    found = find_tool(name)
    if found is not None:
        return found
    reason = f"{name} is not here: {_ADVICE.get(name, 'install it')}"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
