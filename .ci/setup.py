"""Make `.venv` from the locked requirements and generate the gRPC code: what `make setup` runs.

It compares contents, not times, so it does nothing when nothing changed; it holds a lock, so that two `make` at once
do not disturb each other; and it starts the environment over when the last attempt was cut off half-way.
Written for old Pythons too, so that they get an answer instead of a syntax error.
"""

import hashlib
import os
import shutil
import subprocess
import sys

MINIMUM = (3, 11)
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
PYTHON = os.path.join(VENV, "bin", "python")
UNFINISHED = os.path.join(VENV, ".unfinished")
MADE_WITH = os.path.join(VENV, ".made-with")
INSTALLED = os.path.join(VENV, ".installed")
# False when the Python it was made with is gone or has become another release.
IS_USABLE = "import importlib.util as u, pip; raise SystemExit(u.find_spec('hatchling') is None)"
GENERATED = os.path.join(ROOT, "build", "protos", ".generated")


def main():
    # The hint matters more than the number: many machines have a newer Python under another name.
    if sys.version_info < MINIMUM:
        fail(
            "Python %d.%d is too old: %d.%d or newer is needed. If you have one under another name, say so:\n"
            "  make PYTHON=python3.12" % (sys.version_info[:2] + MINIMUM)
        )
    os.chdir(ROOT)
    os.makedirs("build", exist_ok=True)
    import fcntl

    with open(os.path.join("build", ".setup.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        install()
        generate()


def install():
    wanted = digest(["requirements-dev.txt", "pyproject.toml", os.path.join("protos", "build_hook.py")], ROOT)
    this = "%s %s" % (sys.version.split()[0], os.path.realpath(sys.executable))
    # Whatever `python3` happens to be today, an environment that works is kept; a named Python is a wish.
    other_python = "--with-this-python" in sys.argv and not running_from_venv() and read(MADE_WITH) != this
    usable = not os.path.exists(UNFINISHED) and works([PYTHON, "-c", IS_USABLE]) and not other_python
    if usable and read(INSTALLED) == wanted:
        return
    if not usable:
        create()
        write(MADE_WITH, this)
    open(UNFINISHED, "w").close()
    say("installing the locked packages into .venv (half a minute the first time)")
    pip("install", "--require-hashes", "--requirement", "requirements-dev.txt")
    pip("install", "--no-deps", "--no-build-isolation", "--editable", ".")
    write(INSTALLED, wanted)
    os.remove(UNFINISHED)


def running_from_venv():
    return os.path.realpath(sys.prefix) == os.path.realpath(VENV)


def create():
    if running_from_venv():
        fail(".venv has to be made again, but this is its own Python: run `deactivate` first")
    if not works([sys.executable, "-c", "import venv, ensurepip"]):
        fail(
            "this Python (%s) cannot make virtual environments with pip. On Debian and Ubuntu:\n"
            "  apt-get install python3-venv\n"
            "or name another Python: make PYTHON=/path/to/python3" % sys.executable
        )
    say("making .venv with %s (Python %s)" % (sys.executable, sys.version.split()[0]))
    shutil.rmtree(VENV, ignore_errors=True)
    run([sys.executable, "-m", "venv", VENV], "python -m venv failed")


def generate():
    protos = []
    for folder, _, names in os.walk("protos"):
        protos += [os.path.join(folder, name) for name in names if name.endswith(".proto")]
    others = [os.path.join("protos", "build_hook.py"), "requirements-dev.txt"]
    wanted = digest(sorted(protos) + others)
    if read(GENERATED) == wanted:
        return
    run([PYTHON, os.path.join("protos", "build_hook.py")], "the gRPC code could not be generated")
    write(GENERATED, wanted)


def pip(*arguments):
    environment = dict(os.environ, PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_USER="0", PIP_NO_INPUT="1")
    run(
        [PYTHON, "-m", "pip", "--quiet"] + list(arguments),
        "pip failed (is the package index reachable?)",
        environment,
    )


def digest(paths, *facts):
    state = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            content = file.read()
        state.update(("%s %d\n" % (path, len(content))).encode() + content)
    state.update("\n".join(facts).encode())
    return state.hexdigest()


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return None


def write(path, text):
    with open(path + ".new", "w") as file:
        file.write(text)
    os.replace(path + ".new", path)


def works(command):
    try:
        return subprocess.call(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0
    except OSError:
        return False


def run(command, problem, environment=None):
    if subprocess.call(command, env=environment) != 0:
        fail("%s; nothing is lost: run `make setup` again once the cause above is gone" % problem)


def say(text):
    print("setup: " + text)
    sys.stdout.flush()


def fail(text):
    sys.exit("setup: " + text)


if __name__ == "__main__":
    main()
