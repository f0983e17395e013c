"""Run one PostgreSQL program as a user it accepts, and never let it outlive whoever asked for it.

    python -I -S postgres_keeper.py MODE PROGRAM [ARGUMENT ...]

The keeper is the program's parent. Its standard input is a pipe from the process that wants the server; when that
pipe ends, because the process closed it or because it was killed, the keeper stops the program. So a wanted stop and
a crash take the same path. On Linux the program is also told when the keeper itself dies.

MODE says who the program is to be. PostgreSQL refuses to run as root, but root is what containers and CI give:
`self` runs it as we are; `namespace` as root in a user namespace where root has another number; `user:UID` as that
user, who keeps the right to reach files (folders above the data may be closed to everyone else).

A script of its own, on the standard library alone, because it runs between fork and exec and changes its user.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
from collections.abc import Sequence

NOBODY = 65534
# Seconds to wait before each further signal: fast shutdown, immediate shutdown, the end.
ESCALATION: Sequence[tuple[float, signal.Signals]] = (
    (0.0, signal.SIGINT),
    (20.0, signal.SIGQUIT),
    (5.0, signal.SIGKILL),
)

_CLONE_NEWUSER = 0x10000000
_PR_SET_PDEATHSIG = 1
_PR_SET_KEEPCAPS = 8
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2
_CAPABILITY_VERSION_3 = 0x20080522
_CAP_DAC_OVERRIDE = 1


class CapabilityHeader(ctypes.Structure):
    """`struct __user_cap_header_struct` of capset(2)."""

    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class CapabilityData(ctypes.Structure):
    """`struct __user_cap_data_struct` of capset(2); version 3 takes two of them."""

    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


def main(arguments: Sequence[str]) -> int:
    """Run the program until it ends or is not wanted any more; return the status a shell would give it."""
    mode, *command = arguments
    # Before the program exists, so that no signal is missed: each one becomes a byte in this pipe.
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    become(mode)
    child = start(command)
    return watch(child, wake)


def become(mode: str) -> None:
    """Turn this process into the user that MODE names. Raises OSError where the system forbids it."""
    if mode == "namespace":
        _call("unshare", ctypes.c_int(_CLONE_NEWUSER))
        # One line that maps our own user and group is all a process may write about itself.
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{NOBODY} 0 1")
        _write("/proc/self/gid_map", f"{NOBODY} 0 1")
    elif mode.startswith("user:"):
        _become_user(int(mode.removeprefix("user:")))


def _become_user(uid: int) -> None:
    os.setgroups([])
    _call("prctl", ctypes.c_int(_PR_SET_KEEPCAPS), *(ctypes.c_ulong(n) for n in (1, 0, 0, 0)))
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    # Of everything root may do, keep one thing across exec: to reach files whatever the folders above them say.
    kept = 1 << _CAP_DAC_OVERRIDE
    header = CapabilityHeader(_CAPABILITY_VERSION_3, 0)
    data = (CapabilityData * 2)(CapabilityData(kept, kept, kept), CapabilityData(0, 0, 0))
    _call("capset", ctypes.byref(header), ctypes.byref(data))
    ambient = (_PR_CAP_AMBIENT_RAISE, _CAP_DAC_OVERRIDE, 0, 0)
    _call("prctl", ctypes.c_int(_PR_CAP_AMBIENT), *(ctypes.c_ulong(n) for n in ambient))


def start(command: Sequence[str]) -> int:
    """Start the program; return its process id."""
    keeper = os.getpid()
    child = os.fork()
    if child:
        return child
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        # What we ignore or handle must be the program's own business again.
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        if sys.platform == "linux":
            _call(
                "prctl",
                ctypes.c_int(_PR_SET_PDEATHSIG),
                *(ctypes.c_ulong(n) for n in (signal.SIGINT, 0, 0, 0)),
            )
        if os.getppid() == keeper:
            os.execv(command[0], list(command))
    except OSError as problem:
        print(f"cannot start {command[0]}: {problem}", file=sys.stderr, flush=True)
    os._exit(127)


def watch(child: int, wake: int) -> int:
    """Wait for the program to end; send the signals of ESCALATION once nobody wants it any more."""
    escalation = list(ESCALATION)
    stopping = False
    while True:
        timeout = escalation[0][0] if stopping and escalation else None
        ready, _, _ = select.select([wake] if stopping else [0, wake], [], [], timeout)
        if wake in ready:
            numbers = os.read(wake, 512)
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status) % 256
            stopping = stopping or any(number != signal.SIGCHLD for number in numbers)
        if 0 in ready and not os.read(0, 512):
            stopping = True
        if stopping and not ready and escalation:
            os.kill(child, escalation.pop(0)[1])


def _call(function: str, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, function)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
