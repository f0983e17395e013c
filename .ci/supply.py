"""What is shipped, from the lock alone: a bill of materials (CycloneDX) and the licences of everything in it.

    python .ci/supply.py sbom         writes build/sbom/image.cdx.json and local.cdx.json
    python .ci/supply.py licences     writes docs/licences.md

Names, versions and hashes are those of the hashed requirements files; licences are what the installed packages say.
Status 1, with the package named, for a licence that is not known or not allowed.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

ROOT: Final = Path(__file__).parents[1]
LOCKS: Final = {"image": "k8s/image/requirements.txt", "local": "requirements.txt"}
"""What ships, and the lock that says what is in it."""

ALLOWED: Final = frozenset(
    (
        "0BSD",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "CC0-1.0",
        "ISC",
        "MIT",
        "MIT-0",
        "PSF-2.0",
        "Zlib",
    )
)
"""Permissive licences: none asks for more than its text and notice."""
_SPDX: Final = {
    "3-Clause BSD License": "BSD-3-Clause",
    "BSD-3-Clause": "BSD-3-Clause",
    "ISC License": "ISC",
    "MIT": "MIT",
    "MIT License": "MIT",
}
"""What packages without an SPDX expression call their licence."""
_ELSEWHERE: Final = {"colorama": "BSD-3-Clause"}
"""Needed on Windows only, so not installed where this runs."""

_PINNED = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class Package:
    """One release in a lock, with the hashes of all its files."""

    name: str
    version: str
    hashes: tuple[str, ...]

    @property
    def licence(self) -> str:
        """An SPDX expression of allowed licences; ValueError names the package otherwise."""
        said = _ELSEWHERE.get(self.name) or _said(self.name)
        unknown = set(re.findall(r"[A-Za-z0-9.-]+", said)) - ALLOWED - {"AND", "OR"}
        if not said or unknown:
            raise ValueError(
                f"{self.name} {self.version}: the licence is {said or 'not known'}, which is not allowed"
            )
        return said


def _said(name: str) -> str:
    about = importlib.metadata.metadata(name).json
    if expression := about.get("license_expression"):
        return str(expression)
    if (text := str(about.get("license", ""))) in _SPDX:
        return _SPDX[text]
    classified = [c.rsplit(" :: ", 1)[-1] for c in about.get("classifier", []) if c.startswith("License")]
    return " OR ".join(_SPDX.get(each, each) for each in classified)


def read_lock(path: Path) -> Iterator[Package]:
    """The packages of a hashed requirements file; ValueError for one without a hash."""
    for block in re.split(r"\n(?=[A-Za-z0-9])", path.read_text("utf-8")):
        if pinned := _PINNED.match(block):
            hashes = tuple(_HASH.findall(block))
            if not hashes:
                raise ValueError(f"{pinned['name']} has no hash")
            yield Package(pinned["name"], pinned["version"], hashes)


def bill(packages: list[Package], ours: str) -> str:
    """The bill of materials as CycloneDX 1.6 JSON."""
    bom = Bom()
    bom.metadata.component = root = Component(
        name="spectacular-bid", version=ours, type=ComponentType.APPLICATION, bom_ref="spectacular-bid"
    )
    parts = [
        Component(
            name=package.name,
            version=package.version,
            type=ComponentType.LIBRARY,
            bom_ref=f"{package.name}@{package.version}",
            purl=PackageURL("pypi", None, package.name, package.version),
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=each) for each in package.hashes],
            licenses=[LicenseExpression(package.licence)],
        )
        for package in packages
    ]
    for part in parts:
        bom.components.add(part)
    bom.register_dependency(root, parts)
    return str(JsonV1Dot6(bom).output_as_string(indent=2))


def licences() -> str:
    """The page of licences."""
    of: dict[Package, list[str]] = {}
    for kind, lock in LOCKS.items():
        for package in read_lock(ROOT / lock):
            of.setdefault(package, []).append(kind)
    lines = [
        "# Licences of what is shipped",
        "",
        "Written by `make licences` from the locks; `image` is the container image, `local` the stack on one machine.",
        "",
        "| Package | Version | Licence | In |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {package.name} | {package.version} | {package.licence} | {', '.join(kinds)} |"
        for package, kinds in sorted(of.items(), key=lambda each: (each[0].name, each[0].version))
    ]
    return "\n".join(lines) + "\n"


def main(command: str) -> None:
    """One of the two commands."""
    if command == "licences":
        (ROOT / "docs" / "licences.md").write_text(licences(), "utf-8")
        return
    folder = ROOT / "build" / "sbom"
    folder.mkdir(parents=True, exist_ok=True)
    for kind, lock in LOCKS.items():
        packages = list(read_lock(ROOT / lock))
        path = folder / f"{kind}.cdx.json"
        path.write_text(bill(packages, importlib.metadata.version("spectacular-bid")), "utf-8")
        print(f"{path.relative_to(ROOT)}: {len(packages)} packages of {lock}")


if __name__ == "__main__":
    if sys.argv[1:] not in (["sbom"], ["licences"]):
        sys.exit(__doc__)
    try:
        main(sys.argv[1])
    except ValueError as error:
        sys.exit(str(error))
