"""Get the programs that tests use and that no Python package brings: what `make tools` runs.

These are prometheus and promtool. Those on PATH are taken as they are; on Debian and its like the package is unpacked
into build/tools, which needs no root and changes nothing of the system. Elsewhere it says what is missing: the tests
that need them are skipped then, and fail where CI is set.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOOLS = os.path.join(ROOT, "build", "tools")
BIN = os.path.join(TOOLS, "bin")
PROGRAMS = ("prometheus", "promtool")
PACKAGE = "prometheus"
# No waiting for a network that is not there; apt's own user cannot read our folders, so root stays root.
APT = (
    *("-o", "Acquire::Retries=0", "-o", "Acquire::http::Timeout=20", "-o", "Acquire::https::Timeout=20"),
    *("-o", "APT::Sandbox::User=root", "-qq"),
)


def main() -> int:
    if all(shutil.which(program) or works(os.path.join(BIN, program)) for program in PROGRAMS):
        return 0
    os.makedirs(TOOLS, exist_ok=True)
    with open(os.path.join(TOOLS, ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if all(works(os.path.join(BIN, program)) for program in PROGRAMS):
            return 0
        if shutil.which("apt-get") and shutil.which("dpkg-deb"):
            say(f"unpacking Debian's package {PACKAGE} into build/tools (20 MB, once)")
            problem = unpack()
        else:
            problem = "only Debian and its like are supported here; for macOS: brew install prometheus"
    if problem is None:
        return 0
    say(f"{' and '.join(PROGRAMS)} are not on PATH and could not be had: {problem}")
    say("the tests that need them are skipped")
    return 1 if os.environ.get("CI") else 0


def unpack() -> str | None:
    """Fill build/tools/bin; return what went wrong."""
    with tempfile.TemporaryDirectory(dir=TOOLS) as folder:
        problem = run(["apt-get", *APT, "download", PACKAGE], folder)
        if problem is not None:
            # The lists of a fresh container are empty. Ours are kept apart, so that nobody needs to be root.
            lists = os.path.join(folder, "lists")
            os.makedirs(os.path.join(lists, "partial"))
            own = ("-o", "Dir::State::lists=" + lists, "-o", "Dir::Cache=" + os.path.join(folder, "cache"))
            os.makedirs(os.path.join(folder, "cache", "archives", "partial"))
            problem = run(["apt-get", *APT, *own, "update"], folder)
            if problem is None:
                problem = run(["apt-get", *APT, *own, "download", PACKAGE], folder)
        if problem is not None:
            return problem
        (deb,) = [name for name in os.listdir(folder) if name.endswith(".deb")]
        problem = run(["dpkg-deb", "-x", deb, "unpacked"], folder)
        if problem is not None:
            return problem
        os.makedirs(BIN, exist_ok=True)
        for program in PROGRAMS:
            os.replace(os.path.join(folder, "unpacked", "usr", "bin", program), os.path.join(BIN, program))
    for program in PROGRAMS:
        if not works(os.path.join(BIN, program)):
            return f"{program} was unpacked and does not run"
    return None


def run(command: list[str], folder: str) -> str | None:
    """Run it; return the end of what it said when it failed."""
    done = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode == 0:
        return None
    said = [line for line in done.stdout.splitlines() if line.strip()]
    return f"`{' '.join(command[:1] + command[-2:])}` failed{': ' + said[-1] if said else ''}"


def works(program: str) -> bool:
    try:
        return subprocess.run([program, "--version"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def say(text: str) -> None:
    print(f"tools: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
