"""A process of ours leaves no copy of its memory behind: hands, shuffles, tokens and secrets are in it."""

from __future__ import annotations

import ctypes
import resource
from contextlib import suppress
from typing import Final

_PR_SET_DUMPABLE: Final = 4


def leave_no_core() -> None:
    """From now on the kernel writes no core dump of this process, nor hands one to a program that collects them.

    The limit alone would not do: a collector gets the dump whatever the limit is. Nobody but root can look into the
    process with a debugger any more.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Linux alone has it.
    with suppress(AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
