"""Run a module in this process, and end the process with whoever started it, even when that one was killed.

    python -m services.local.leash MODULE [ARGUMENT ...]

Standard input is a pipe from the starter that nobody writes to: its end means that the starter is gone. On Linux the
kernel watches too, for a process that is stopped or too busy to read. Either way it ends at once and without tidying
up, as in a crash, which every service is made for.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys
import threading
from contextlib import suppress

_PR_SET_PDEATHSIG = 1


def tie() -> None:
    """End this process when the pipe on standard input ends or the parent dies."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    leash = os.dup(0)
    os.set_inheritable(leash, False)
    # The program itself has no use for the pipe.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    threading.Thread(target=_watch, args=(leash,), name="leash", daemon=True).start()


def _watch(leash: int) -> None:
    while os.read(leash, 512):
        pass
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Become the module named on the command line."""
    module = sys.argv[1]
    sys.argv = sys.argv[1:]
    tie()
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
