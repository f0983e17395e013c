"""Every object of both overlays is what its API takes: those of Kubernetes, and those of the operators."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate.utils
import pytest

from tests.k8s.manifests import Manifests, Object, production_with

SCHEMAS = Path(__file__).with_name("schemas")
VERSIONS = ("1.34", kubernetes_validate.latest_version())
"""Of Kubernetes: the oldest whose schemas are at hand, and the newest."""


@pytest.fixture(scope="module", autouse=True)
def schemas_read_once() -> Iterator[None]:
    """The validator reads its 10 MB anew for each object otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        reading = functools.cache(kubernetes_validate.utils.schema_contents)
        patch.setattr(kubernetes_validate.utils, "schema_contents", reading)
        yield


def is_core(found: Object) -> bool:
    """Whether it is of an API of Kubernetes itself."""
    group, slash, _ = found["apiVersion"].rpartition("/")
    return (
        not slash or "." not in group or (group.endswith(".k8s.io") and group != "gateway.networking.k8s.io")
    )


def schema(kind: str) -> Any:
    """The schema of a custom resource."""
    return json.loads((SCHEMAS / f"{kind}.json").read_text("utf-8"))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_objects_of_kubernetes_are_valid(overlay: Manifests, version: str) -> None:
    checked = [found for found in overlay.objects if is_core(found)]
    assert len(checked) > 30
    for found in checked:
        kubernetes_validate.validate(found, version, strict=True)


def test_the_objects_of_operators_are_valid(production: Manifests) -> None:
    checked = [found for found in production.objects if not is_core(found)]
    assert {found["kind"] for found in checked} == {path.stem for path in SCHEMAS.glob("*.json")}
    for found in checked:
        where = f"{found['kind']} {found['metadata']['name']}"
        faults = list(jsonschema.Draft202012Validator(schema(found["kind"])).iter_errors(found))
        assert not faults, f"{where}: {[(fault.json_path, fault.message) for fault in faults]}"


def test_a_database_from_its_backup_is_the_same_but_for_where_it_comes_from(
    production: Manifests, tmp_path: Path
) -> None:
    restored = production_with("restore", tmp_path).of("Cluster")["database"]
    jsonschema.Draft202012Validator(schema("Cluster")).validate(restored)
    plain = production.of("Cluster")["database"]
    changed = {"bootstrap", "externalClusters", "plugins"}
    assert {name for name in restored["spec"] if restored["spec"][name] != plain["spec"].get(name)} == changed
    assert set(restored["spec"]["bootstrap"]) == {"recovery"}, "it would be made empty"
    recovery, made = restored["spec"]["bootstrap"]["recovery"], plain["spec"]["bootstrap"]["initdb"]
    assert (recovery["database"], recovery["owner"]) == (made["database"], made["owner"])
    (source,) = restored["spec"]["externalClusters"]
    assert recovery["source"] == source["name"]
    (archive,) = restored["spec"]["plugins"]
    assert source["plugin"]["name"] == archive["name"] == plain["spec"]["plugins"][0]["name"]
    # Where it is read from is where production writes to, and nothing is written over it.
    assert source["plugin"]["parameters"]["serverName"] == plain["metadata"]["name"]
    assert archive["parameters"]["serverName"] != source["plugin"]["parameters"]["serverName"]


def test_development_needs_no_operator(development: Manifests) -> None:
    assert [found["kind"] for found in development.objects if not is_core(found)] == []


def test_the_schemas_find_what_is_misspelt_missing_or_of_another_type(production: Manifests) -> None:
    cluster = production.of("Cluster")["database"]
    for spec in (
        cluster["spec"] | {"instance": 3},
        cluster["spec"] | {"instances": "3"},
        cluster["spec"] | {"postgresql": {"synchronous": {"method": "all", "number": 1}}},
        {name: value for name, value in cluster["spec"].items() if name != "instances"},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.Draft202012Validator(schema("Cluster")).validate(cluster | {"spec": spec})
    game = production.of("StatefulSet")["game"]
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(game | {"spec": game["spec"] | {"replica": 1}}, VERSIONS[0], strict=True)


def test_every_object_is_named_once_and_in_the_namespace(overlay: Manifests) -> None:
    names = [(found["kind"], found["metadata"]["name"]) for found in overlay.objects]
    assert len(names) == len(set(names))
    cluster_wide = {"Namespace", "PriorityClass"}
    for found in overlay.objects:
        expected = None if found["kind"] in cluster_wide else "spectacular-bid"
        assert found["metadata"].get("namespace") == expected, names
