"""`make image-rehearsal`: the Dockerfile without Docker, on Linux as root.

Its own lines are carried out, stage by stage, in a root directory of their own: the programs of this machine, read-only,
stand in for the base image; everything else comes from COPY and RUN. Then each role runs on the result as the image's
user, in a root where nothing can be written, without any privilege, beside a real PostgreSQL. What this cannot show is
the base image itself and what Docker makes of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from services.common.auth import write_new_keys
from services.local.postgres import EmbeddedPostgres
from tests.processes import free_port

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "k8s" / "image" / "Dockerfile"
PYTHON = "/image"
"""Where the base image's Python is in a rehearsal."""
BASE = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc")
"""Folders of this machine that stand in for those of the base image."""
HOME = str(Path.home())
PREFIX = "SPECTACULAR_BID_"
SECONDS_MAX = 90.0


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile with their arguments, lines that go on joined, comments left out."""
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = lines.replace("\\\n", " ")
    return [
        (word, rest.strip())
        for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line)
    ]


@dataclass
class Stage:
    """A root directory that grows by instructions."""

    root: Path
    workdir: str = "/"
    user: str = "0:0"
    entrypoint: list[str] = field(default_factory=list)
    env: dict[str, str] = field(
        default_factory=lambda: {
            "PATH": f"{PYTHON}/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "LANG": "C.UTF-8",
            # A Python that was built with a shared library looks for it where it was built.
            "LD_LIBRARY_PATH": f"{PYTHON}/lib",
        }
    )

    def path(self, inside: str) -> Path:
        """Where a path of the stage is on this machine."""
        return self.root / os.path.join(self.workdir, inside).lstrip("/")

    def mounted(self, command: str, *, read_only: bool = False) -> list[str]:
        """A command line that runs `command`, a shell's, inside, in mounts that end with it."""
        binds = [(sys.base_prefix, PYTHON), ("/dev", "/dev")]
        binds += [(f"/{name}", f"/{name}") for name in BASE if _real(name)]
        if not read_only:
            # What pip is told on this machine, and packages that an administrator keeps here: for building alone.
            binds += [(place, place) for place in (HOME, *map(str, Path("/opt").glob("*/")))]
        script = ["set -eu", "mount --make-rprivate /"]
        for outside, inside in binds:
            target = self.root / inside.lstrip("/")
            target.mkdir(parents=True, exist_ok=True)
            script.append(f"mount --rbind {shlex.quote(outside)} {shlex.quote(str(target))}")
            if inside != "/dev":
                script.append(f"mount -o remount,bind,ro {shlex.quote(str(target))}")
        for name in BASE:
            if os.path.islink(f"/{name}") and not os.path.lexists(self.root / name):
                (self.root / name).symlink_to(os.readlink(f"/{name}"))
        for name in ("proc", "tmp"):
            (self.root / name).mkdir(exist_ok=True)
        root = shlex.quote(str(self.root))
        script.append(f"mount -t proc proc {root}/proc")
        if read_only:
            script.append(f"mount --rbind {root} {root} && mount -o remount,bind,ro {root}")
        script.append(command)
        return ["unshare", "--mount", "--", "sh", "-c", "\n".join(script)]

    def run(self, line: str) -> None:
        """RUN: a shell's line, as root, with what pip is told on this machine."""
        told = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        env = self.env | told | {"HOME": HOME}
        inside = f"cd {shlex.quote(self.workdir)} && {line}"
        command = self.mounted(f"exec chroot {shlex.quote(str(self.root))} sh -c {shlex.quote(inside)}")
        subprocess.run(command, env=env, check=True)

    def process(self, arguments: list[str], env: Mapping[str, str]) -> subprocess.Popen[str]:
        """The image's program as its user: no root, no capability, no way to get one, nothing to write to."""
        uid, _, gid = self.user.partition(":")
        confined = [
            *("setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--no-new-privs"),
            *("--bounding-set=-all", "--inh-caps=-all", "--"),
        ]
        # setpriv is looked for inside, where it changes who runs before our program begins.
        line = shlex.join(["chroot", str(self.root), *confined, *arguments])
        return subprocess.Popen(
            self.mounted(f"exec {line}", read_only=True),
            env=self.env | dict(env),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def _real(name: str) -> bool:
    path = Path("/") / name
    return path.is_dir() and not path.is_symlink()


def build(folder: Path) -> Stage:
    """Carry out the Dockerfile; the stage it ends with."""
    stages: dict[str, Stage] = {}
    stage: Stage | None = None
    for word, rest in instructions(DOCKERFILE.read_text("utf-8")):
        print(f"  {word} {rest[:100]}", flush=True)
        if word == "FROM":
            name = rest.partition(" AS ")[2] or "final"
            stage = stages[name] = Stage(folder / name)
            stage.root.mkdir()
            continue
        assert stage is not None, "a Dockerfile begins with FROM"
        match word:
            case "WORKDIR":
                stage.workdir = rest
                stage.path(".").mkdir(parents=True, exist_ok=True)
            case "RUN":
                stage.run(rest)
            case "COPY":
                _copy(stage, stages, rest)
            case "ENV":
                for pair in shlex.split(rest):
                    name, _, value = pair.partition("=")
                    stage.env[name] = value.replace("$PATH", stage.env["PATH"])
            case "USER":
                stage.user = rest
            case "ENTRYPOINT":
                stage.entrypoint = json.loads(rest)
            case "LABEL":
                pass
            case _:
                raise ValueError(f"the rehearsal does not know {word}")
    assert stage is not None
    return stage


def _copy(stage: Stage, stages: Mapping[str, Stage], rest: str) -> None:
    *sources, target = rest.split()
    if sources[0].startswith("--from="):
        other = stages[sources.pop(0).removeprefix("--from=")]
        shutil.copytree(other.path(sources[0]), stage.path(target), symlinks=True)
        return
    for source in sources:
        # What git does not know is not in the context either: .dockerignore names caches and what is made.
        names = subprocess.run(
            ["git", "ls-files", "--", source], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.splitlines()
        assert names, f"COPY {source}: there is no such thing"
        for name in names:
            inside = Path(target) / (
                Path(name).name if (ROOT / source).is_file() else Path(name).relative_to(source)
            )
            place = stage.path(str(inside))
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, place)


@contextmanager
def roles(
    image: Stage, database_url: str, config: Path
) -> Iterator[dict[str, tuple[subprocess.Popen[str], str]]]:
    """The three services from the image, each with the address of its health port."""
    write_new_keys(config / "signing.pem", config / "jwks.json")
    for path in (config, *config.iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)
    common = {
        "DATABASE_URL": database_url,
        "INTERNAL_SECRET": secrets.token_urlsafe(32),
        "JWKS_FILE": "/etc-rehearsal/jwks.json",
    }
    clock, matchmaking = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    own = {
        "clock": {"INTERNAL_LISTEN": clock},
        "matchmaking": {
            "LISTEN": "127.0.0.1:0",
            "INTERNAL_LISTEN": matchmaking,
            "METRICS_LISTEN": "127.0.0.1:0",
        },
        "game": {"LISTEN": "127.0.0.1:0", "CLOCK_ADDRESS": clock, "MATCHMAKING_ADDRESS": matchmaking},
    }
    started: dict[str, tuple[subprocess.Popen[str], str]] = {}
    try:
        for role, settings in own.items():
            health = f"127.0.0.1:{free_port()}"
            env = {
                PREFIX + name: value
                for name, value in (common | settings | {"HEALTH_LISTEN": health}).items()
            }
            started[role] = image.process([*image.entrypoint, role], env), health
        yield started
    finally:
        for process, _ in started.values():
            process.kill()
            process.wait()


async def ready(address: str) -> None:
    """Return when a process is ready. Raises TimeoutError."""
    give_up = time.monotonic() + SECONDS_MAX
    async with grpc.aio.insecure_channel(address) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        while True:
            try:
                answer = await stub.Check(health_pb2.HealthCheckRequest(service="ready"), timeout=2)
                if answer.status == health_pb2.HealthCheckResponse.SERVING:
                    return
            except grpc.aio.AioRpcError:
                pass
            if time.monotonic() > give_up:
                raise TimeoutError(f"nobody is ready at {address}")
            await asyncio.sleep(0.1)


def _says(image: Stage, arguments: list[str], env: Mapping[str, str] | None = None) -> str:
    process = image.process(arguments, env or {})
    said, _ = process.communicate(timeout=SECONDS_MAX)
    if process.returncode != 0:
        raise SystemExit(f"{shlex.join(arguments)} ended with {process.returncode}:\n{said}")
    return said.strip()


WRITES = """
import errno, os, sysconfig
for place in ("/", "/tmp", "/opt/spectacular-bid", sysconfig.get_path("purelib")):
    try:
        open(os.path.join(place, "x"), "w")
    except OSError as error:
        assert error.errno in (errno.EROFS, errno.EACCES), error
        print(place, errno.errorcode[error.errno])
    else:
        raise SystemExit(f"{place} can be written to")
"""


def main() -> int:
    """Build, then try everything; the exit status is 1 when something is not as it should be."""
    if sys.platform != "linux" or os.geteuid() != 0:
        print("the rehearsal needs Linux and root: it mounts and changes users")
        return 2
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        print("the lines of the Dockerfile:")
        image = build(folder)
        config = image.root / "etc-rehearsal"
        config.mkdir()
        size = sum(path.lstat().st_size for path in (image.root / "opt").rglob("*"))
        print(f"what it adds to the base image: {size / 1e6:.0f} MB")
        print("nothing can be written:", ", ".join(_says(image, ["python", "-c", WRITES]).splitlines()))
        print("roles:", _says(image, [*image.entrypoint, "--help"]).splitlines()[1])
        print(
            "operators' commands:",
            len(_says(image, [*image.entrypoint, "ops", "--help"]).splitlines()),
            "lines",
        )
        print("tracing:", _says(image, ["python", "-c", "import opentelemetry.sdk as s; print(s.__name__)"]))
        with EmbeddedPostgres(folder / "postgres") as postgres:
            url = postgres.url
            print("migrate:", _says(image, [*image.entrypoint, "migrate"], {f"{PREFIX}DATABASE_URL": url}))
            with roles(image, url, config) as started:
                for role, (process, health) in started.items():
                    asyncio.run(ready(health))
                    status = Path(f"/proc/{process.pid}/status").read_text("ascii")
                    facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
                    confined = facts["Uid"].split()[0], facts["CapEff"].strip("0"), facts["NoNewPrivs"]
                    assert confined == ("65532", "", "1"), confined
                    print(f"{role}: ready, as user 65532, without capabilities")
                for role in ("game", "matchmaking", "clock"):
                    process, _ = started[role]
                    process.terminate()
                    assert process.wait(SECONDS_MAX) == 0, f"{role} ended with {process.returncode}"
                    print(f"{role}: SIGTERM, status 0")
    print("the rehearsal went well")
    return 0


if __name__ == "__main__":
    sys.exit(main())
