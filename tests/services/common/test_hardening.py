"""No core dump is left of a process, whoever collects them."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import ctypes, resource
from services.common.hardening import leave_no_core
prctl = ctypes.CDLL(None).prctl
before = prctl(3, 0, 0, 0, 0)
leave_no_core()
print(before, prctl(3, 0, 0, 0, 0), *resource.getrlimit(resource.RLIMIT_CORE))
"""


def test_the_kernel_dumps_nothing_of_a_process_that_has_asked_for_it() -> None:
    said = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60
    )
    assert said.stdout == "1 0 0 0\n"
