"""What kustomize makes of the overlays, in the terms of the tests: objects, pods, and the environment a process gets."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.tools import find_tool, tool

ROOT = Path(__file__).resolve().parents[2]
K8S = ROOT / "k8s"
PRODUCTION, DEVELOPMENT = "production", "development"
ROLE = "app.kubernetes.io/name"

Object = dict[str, Any]


def build(folder: Path) -> list[Object]:
    """The objects of a kustomization. Skips the test where there is no kustomize."""
    command = [tool("kubectl"), "kustomize"] if find_tool("kubectl") else [tool("kustomize"), "build"]
    done = subprocess.run([*command, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr.strip(), f"kustomize complains: {done.stderr}"
    return [found for found in yaml.safe_load_all(done.stdout) if found]


@cache
def production() -> Manifests:
    """The overlay of production as it stands here."""
    return Manifests(build(K8S / "overlays" / PRODUCTION))


def development(folder: Path) -> Manifests:
    """The overlay of development with secrets made for it, in a copy under `folder`."""
    from k8s.overlays.development.make_secrets import make

    copy = folder / "k8s"
    shutil.copytree(K8S, copy, ignore=shutil.ignore_patterns("secrets", "__pycache__"))
    make(copy / "overlays" / DEVELOPMENT / "secrets")
    return Manifests(build(copy / "overlays" / DEVELOPMENT))


def production_with(component: str, folder: Path) -> Manifests:
    """The overlay of production with one more component, the last, in a copy under `folder`."""
    shutil.copytree(K8S, folder / "k8s", ignore=shutil.ignore_patterns("secrets", "__pycache__"))
    overlay = folder / "k8s" / "overlays" / PRODUCTION / "kustomization.yaml"
    text = overlay.read_text("utf-8")
    last = "  - ../../components/backups\n"
    assert last in text
    overlay.write_text(text.replace(last, f"{last}  - ../../components/{component}\n"), "utf-8")
    return Manifests(build(overlay.parent))


@dataclass(frozen=True)
class Pod:
    """What an object makes pods of."""

    owner: Object
    template: Object

    @property
    def labels(self) -> dict[str, str]:
        """Of the pods."""
        return dict(self.template["metadata"]["labels"])

    @property
    def role(self) -> str:
        """Their name, which is what the image is told to be."""
        return self.labels.get(ROLE, self.labels.get("cnpg.io/cluster", ""))

    @property
    def spec(self) -> Object:
        """Of the pods."""
        return dict(self.template["spec"])

    @property
    def container(self) -> Object:
        """The only container."""
        (only,) = self.spec["containers"]
        return dict(only)

    @property
    def ports(self) -> dict[str, int]:
        """By name."""
        return {port["name"]: port["containerPort"] for port in self.container.get("ports", [])}


class Manifests:
    """The objects of an overlay."""

    def __init__(self, objects: list[Object]) -> None:
        self.objects = objects

    def of(self, kind: str) -> dict[str, Object]:
        """All objects of a kind, by name."""
        return {found["metadata"]["name"]: found for found in self.objects if found["kind"] == kind}

    def pods(self) -> Iterator[Pod]:
        """All that makes pods."""
        for found in self.objects:
            if found["kind"] in ("Deployment", "StatefulSet", "Job"):
                yield Pod(found, found["spec"]["template"])
            elif found["kind"] == "CronJob":
                yield Pod(found, found["spec"]["jobTemplate"]["spec"]["template"])

    def ours(self) -> dict[str, Pod]:
        """The pods that run our image, by role."""
        return {pod.role: pod for pod in self.pods() if pod.container["image"].startswith("spectacular-bid")}

    def behind(self, service: str) -> list[Pod]:
        """The pods that a Service selects; one by the name of a pod selects those of its StatefulSet."""
        selector = dict(self.of("Service")[service]["spec"]["selector"])
        name = selector.pop("statefulset.kubernetes.io/pod-name", None)
        return [
            pod
            for pod in self.pods()
            if selector.items() <= pod.labels.items()
            and (name is None or name.rpartition("-")[0] == pod.owner["metadata"]["name"])
        ]

    def environment(
        self, pod: Pod, secrets: Mapping[tuple[str, str], str], *, number: int = 0
    ) -> dict[str, str]:
        """What the process of a pod finds, given the values of secrets: references are resolved as Kubernetes does.

        A name in `$(…)` must have been defined above: Kubernetes leaves what is not.
        """
        found: dict[str, str] = {}
        maps = self.of("ConfigMap")
        for source in pod.container.get("envFrom", []):
            found |= maps[source["configMapRef"]["name"]]["data"]
        own: dict[str, str] = {}
        for entry in pod.container.get("env", []):
            match entry.get("valueFrom"):
                case None:
                    value = re.sub(r"\$\(([\w.-]+)\)", lambda name: own[name.group(1)], entry["value"])
                case {"secretKeyRef": {"name": name, "key": key}}:
                    value = secrets[re.sub(r"-[a-z0-9]{10}$", "", name), key]
                case {"fieldRef": {"fieldPath": "metadata.name"}}:
                    value = f"{pod.role}-{number}"
                case other:
                    raise AssertionError(f"no test knows {other}")
            own[entry["name"]] = value
        return found | own


def seconds(duration: str) -> float:
    """Of `10s`, `5m`, `2h`."""
    number, unit = re.fullmatch(r"(\d+)(s|m|h)", duration).groups()  # type: ignore[union-attr]
    return int(number) * {"s": 1.0, "m": 60.0, "h": 3600.0}[unit]
