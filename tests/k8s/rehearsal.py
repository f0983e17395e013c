"""`make image-rehearsal`: the Dockerfile without Docker, on Linux as root.

Its own lines are carried out, stage by stage, in a root directory of their own: the programs of this machine, read-only,
stand in for the base image; everything else comes from COPY and RUN. What comes out is run as the image's user, in a root
where nothing can be written, without any privilege: by hand here, and as the pods of production in podsrehearsal.py. What
this cannot show is the base image itself, and what Docker makes of it.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "k8s" / "image" / "Dockerfile"
PYTHON = "/image"
"""Where the base image's Python is in a rehearsal."""
BASE = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc")
"""Folders of this machine that stand in for those of the base image."""
ETC = (
    "passwd",
    "group",
    "nsswitch.conf",
    "ld.so.cache",
    "ld.so.conf",
    "host.conf",
    "resolv.conf",
    "hosts",
    "localtime",
)
BASE_ONLY = "/usr/local/"
"""RUN lines with it are about the base image itself. Never carried out: it would be done to this machine."""
HOME = str(Path.home())
PREFIX = "SPECTACULAR_BID_"
SECONDS_MAX = 40.0


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

    def mounted(
        self, command: str, *, read_only: bool = False, volumes: Mapping[str, Path] | None = None
    ) -> list[str]:
        """A command line that runs `command`, a shell's, inside, in mounts that end with it: `volumes`, by where they are
        seen, among them."""
        binds = [(sys.base_prefix, PYTHON), ("/dev", "/dev")]
        binds += [(f"/{name}", f"/{name}") for name in BASE if _real(name)]
        if read_only:
            binds = [bind for bind in binds if bind[1] != "/etc"]
            self._own_etc()
            binds += [(str(outside), inside) for inside, outside in (volumes or {}).items()]
        else:
            # What pip is told on this machine, and packages that an administrator keeps here: for building alone.
            binds += [(place, place) for place in (HOME, *map(str, Path("/opt").glob("*/")))]
        script = ["set -eu", "mount --make-rprivate /"]
        for outside, inside in binds:
            target = self.root / inside.lstrip("/")
            if Path(outside).is_dir():
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

    def _own_etc(self) -> None:
        """What of this machine's /etc a process looks at, so that there is a place for volumes beside it."""
        own = self.root / "etc"
        own.mkdir(exist_ok=True)
        for name in ETC:
            if Path("/etc", name).is_file() and not (own / name).exists():
                shutil.copyfile(f"/etc/{name}", own / name)

    def run(self, line: str) -> None:
        """RUN: a shell's line, as root, with what pip is told on this machine."""
        told = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        env = self.env | told | {"HOME": HOME}
        inside = f"cd {shlex.quote(self.workdir)} && {line}"
        command = self.mounted(f"exec chroot {shlex.quote(str(self.root))} sh -c {shlex.quote(inside)}")
        subprocess.run(command, env=env, check=True)

    def process(
        self,
        arguments: list[str],
        env: Mapping[str, str],
        *,
        volumes: Mapping[str, Path] | None = None,
        before: tuple[str, ...] = (),
        log: Path | None = None,
    ) -> subprocess.Popen[str]:
        """The image's program as its user: no root, no capability, no way to get one, nothing to write to. `before` is
        what goes before the command, such as a network to be in. What it says goes to `log`, or is for communicate()."""
        uid, _, gid = self.user.partition(":")
        confined = [
            *("setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--no-new-privs"),
            *("--bounding-set=-all", "--inh-caps=-all", "--"),
        ]
        # setpriv is looked for inside, where it changes who runs before our program begins.
        line = shlex.join(["chroot", str(self.root), *confined, *arguments])
        with ExitStack() as opened:
            said = subprocess.PIPE if log is None else opened.enter_context(log.open("a"))
            return subprocess.Popen(
                [*before, *self.mounted(f"exec {line}", read_only=True, volumes=volumes)],
                env=self.env | dict(env),
                stdout=said,
                stderr=subprocess.STDOUT,
                text=True,
            )


def _real(name: str) -> bool:
    path = Path("/") / name
    return path.is_dir() and not path.is_symlink()


def build(folder: Path, *, made: bool = False) -> Stage:
    """Carry out the Dockerfile; the stage it ends with. With `made` it was carried out in this folder before."""
    stages: dict[str, Stage] = {}
    stage: Stage | None = None
    for word, rest in instructions(DOCKERFILE.read_text("utf-8")):
        if not made:
            print(f"  {word} {rest[:100]}", flush=True)
        if word == "FROM":
            name = rest.partition(" AS ")[2] or "final"
            stage = stages[name] = Stage(folder / name)
            stage.root.mkdir(exist_ok=made)
            continue
        assert stage is not None, "a Dockerfile begins with FROM"
        match word:
            case "WORKDIR":
                stage.workdir = rest
                stage.path(".").mkdir(parents=True, exist_ok=True)
            case "RUN" if not made and BASE_ONLY not in rest:
                stage.run(rest)
            case "COPY" if not made:
                _copy(stage, stages, rest)
            case "ENV":
                for pair in shlex.split(rest):
                    name, _, value = pair.partition("=")
                    stage.env[name] = value.replace("$PATH", stage.env["PATH"])
            case "USER":
                stage.user = rest
            case "ENTRYPOINT":
                stage.entrypoint = json.loads(rest)
            case "LABEL" | "RUN" | "COPY":
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
    missing = [name for name in ("unshare", "setpriv", "ip", "git") if shutil.which(name) is None]
    if sys.platform != "linux" or os.geteuid() != 0 or missing:
        print(
            f"the rehearsal needs Linux and root, for mounts, users and networks; missing: {missing or 'root'}"
        )
        return 2
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        print("the lines of the Dockerfile:")
        image = build(folder)
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
        print("the pods of production, each in a network of its own:", flush=True)
        command = [sys.executable, "-m", "tests.k8s.podsrehearsal", str(folder)]
        if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
            return 1
    print("the rehearsal went well")
    return 0


if __name__ == "__main__":
    sys.exit(main())
