"""What ships is listed with its hashes and licences, from the lock and nothing else."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

ROOT = Path(__file__).parents[1]
INSTALLS = re.compile(r"\bpip(?: install\b|\(\"install\")[^&|;\n]*")


@pytest.fixture(scope="module")
def supply() -> ModuleType:
    """The command, as a module: its folder is no package."""
    spec = importlib.util.spec_from_file_location("supply", ROOT / ".ci" / "supply.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["supply"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("kind", ["image", "local"])
def test_the_bill_of_materials_is_the_lock(supply: ModuleType, kind: str) -> None:
    lock = ROOT / supply.LOCKS[kind]
    text = supply.bill(list(supply.read_lock(lock)), "0.1.0")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    listed = {
        (part["name"], part["version"]): {each["content"] for each in part["hashes"]}
        for part in json.loads(text)["components"]
    }
    pinned = set(re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", lock.read_text("utf-8"), re.MULTILINE))
    assert set(listed) == pinned
    hashes = re.findall(r"sha256:([0-9a-f]{64})", lock.read_text("utf-8"))
    assert sorted(each for found in listed.values() for each in found) == sorted(hashes)
    assert all(part["licenses"] for part in json.loads(text)["components"])


def test_the_page_of_licences_is_that_of_the_lock(supply: ModuleType) -> None:
    assert (ROOT / "docs" / "licences.md").read_text("utf-8") == supply.licences(), "run make licences"


@pytest.mark.parametrize("licence", ["GPL-3.0-only", "MIT AND LGPL-2.1-only", "", "Proprietary"])
def test_a_licence_that_is_not_allowed_is_named(
    supply: ModuleType, licence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supply, "_said", lambda _name: licence)
    with pytest.raises(ValueError, match=f"rich 15.0.0: the licence is {licence or 'not known'}"):
        _ = supply.Package("rich", "15.0.0", ()).licence


def test_a_package_without_a_hash_is_named(supply: ModuleType, tmp_path: Path) -> None:
    lock = tmp_path / "requirements.txt"
    lock.write_text("rich==15.0.0 \\\n    --hash=sha256:" + "0" * 64 + "\nstamina==26.1.0\n", "utf-8")
    with pytest.raises(ValueError, match="stamina has no hash"):
        list(supply.read_lock(lock))


def test_nothing_in_the_image_installs_anything(tmp_path: Path) -> None:
    """The base image brings a pip of its own: the last stage, run here on a copy of its folders, leaves none."""
    last = (ROOT / "k8s" / "image" / "Dockerfile").read_text("utf-8").rpartition("\nFROM ")[2]
    (line,) = re.findall(r"^RUN (.*)$", last, re.MULTILINE)
    command, *places = line.split()
    assert (command, places[0]) == ("rm", "-rf")
    assert all(place.startswith("/usr/local/") for place in places[1:]), "elsewhere is this machine's"
    python = tmp_path / "lib" / "python3.11"
    kept = python / "json" / "__init__.py"
    files = [tmp_path / "bin" / name for name in ("pip", "pip3.11", "python3")]
    files += [python / "site-packages" / "pip" / "__init__.py", python / "ensurepip" / "__init__.py", kept]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    subprocess.run(["sh", "-euc", line.replace("/usr/local", str(tmp_path))], check=True)
    assert [file for file in files if file.exists()] == [tmp_path / "bin" / "python3", kept]


def test_every_lock_is_audited() -> None:
    audited = re.search(r"for lock in (.*); do", (ROOT / "Makefile").read_text("utf-8"))
    assert audited is not None
    locks = {str(path.relative_to(ROOT)) for path in ROOT.glob("requirements*.txt")}
    locks |= {str(path.relative_to(ROOT)) for path in (ROOT / "k8s" / "image").glob("requirements*.txt")}
    # What is in requirements.txt is in requirements-dev.txt, in the same releases.
    assert set(audited[1].split()) == locks - {"requirements.txt"}


def test_nothing_is_installed_but_what_is_locked_by_its_hash() -> None:
    """In the image and by the setup of a checkout; our own wheel, built there, is the exception."""
    for path in ("k8s/image/Dockerfile", ".ci/setup.py"):
        text = (ROOT / path).read_text("utf-8").replace("\\\n", " ")
        installs = INSTALLS.findall(text)
        assert len(installs) >= 2, path
        for install in installs:
            assert "--require-hashes" in install or "--no-deps" in install, f"{path}: {install}"
