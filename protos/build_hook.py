"""Generate the gRPC code: the build hook of the package, and `make protos`.

`protos/spectacularbid/**/*.proto` become `build/protos/spectacularbid/**/*_pb2{,_grpc}.py` with strict type stubs.
The code is never committed: it belongs to the installed grpcio and protobuf, which check it at import.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "spectacularbid"


class GenerationError(RuntimeError):
    """The generated code could not be made; the text says what to do about it."""


def generate(root: Path = ROOT) -> int:
    """Bring `build/protos` under `root` up to date with `protos`; return how many files changed.

    A file whose content stays the same is not touched, so a running process and the caches of mypy keep what they
    have. Raises GenerationError, and leaves what was there, when a proto is wrong or a generator is missing.
    """
    source, target = root / "protos", root / "build" / "protos"
    protos = sorted(path.relative_to(source).as_posix() for path in (source / PACKAGE).rglob("*.proto"))
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".protos-", dir=target.parent) as fresh_name:
        fresh = Path(fresh_name)
        _make_package(fresh / PACKAGE)
        if protos:
            _protoc(source, fresh, protos)
        for folder in (fresh / PACKAGE).rglob("*"):
            if folder.is_dir():
                _make_package(folder)
        return _synchronise(fresh, target)


def _make_package(folder: Path) -> None:
    """Make `folder` a typed, regular package: faster to import, and never merged with the folder of the protos."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "__init__.py").write_text('"""Generated from protos/; do not edit."""\n', encoding="utf-8")
    (folder / "py.typed").touch()


def _protoc(source: Path, out: Path, protos: list[str]) -> None:
    command = [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        f"--proto_path={source}",
        f"--plugin=protoc-gen-mypy={_plugin('protoc-gen-mypy')}",
        f"--plugin=protoc-gen-mypy_grpc={_plugin('protoc-gen-mypy_grpc')}",
        f"--python_out={out}",
        f"--grpc_python_out={out}",
        f"--mypy_out=quiet:{out}",
        # Every server and client of this project is asynchronous.
        f"--mypy_grpc_out=quiet,only_async:{out}",
        *protos,
    ]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    said = (done.stdout + done.stderr).strip()
    if done.returncode != 0:
        raise GenerationError(f"protoc failed with status {done.returncode}:\n{said}")
    if said:
        print(said, file=sys.stderr)


def _plugin(name: str) -> str:
    """Find a generator beside this interpreter first: the one that was locked, not one that happens to be around."""
    found = shutil.which(
        name, path=os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
    )
    if found is None:
        raise GenerationError(
            f"{name} is missing: it comes with the package mypy-protobuf (run `make setup`)"
        )
    return found


def _synchronise(fresh: Path, target: Path) -> int:
    """Make `target` hold exactly the files of `fresh`, each replaced in one step."""
    wanted = {path.relative_to(fresh) for path in fresh.rglob("*") if path.is_file()}
    changed = 0
    for name in sorted(wanted):
        old, new = target / name, fresh / name
        if old.is_file() and old.read_bytes() == new.read_bytes():
            continue
        old.parent.mkdir(parents=True, exist_ok=True)
        new.replace(old)
        changed += 1
    for path in sorted((path for path in target.rglob("*") if "__pycache__" not in path.parts), reverse=True):
        if path.is_file() and path.relative_to(target) not in wanted:
            path.unlink()
            changed += 1
        elif path.is_dir() and not any(name.is_relative_to(path.relative_to(target)) for name in wanted):
            shutil.rmtree(path)
    return changed


class ProtoBuildHook(BuildHookInterface[BuilderConfig]):
    """Generate before every build, and add the result to a wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling; `version` is "editable" or "standard"."""
        root = Path(self.root)
        if self.target_name != "wheel":
            return
        generate(root)
        if version == "standard":
            build_data["force_include"][str(root / "build" / "protos" / PACKAGE)] = PACKAGE


if __name__ == "__main__":
    try:
        count = generate()
    except GenerationError as problem:
        sys.exit(f"protos: {problem}")
    print(f"protos: {count} generated files changed" if count else "protos: up to date")
