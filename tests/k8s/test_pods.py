"""No pod may become more than it is, and no manifest holds a secret."""

from __future__ import annotations

import re

import pytest

from services.__main__ import ROLES
from services.local.postgres import SECRETIVE
from services.storage import logins
from tests.k8s.manifests import K8S, ROLE, Manifests


def test_the_namespace_refuses_pods_that_could_do_more(overlay: Manifests) -> None:
    (namespace,) = overlay.of("Namespace").values()
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_every_pod_is_confined(overlay: Manifests) -> None:
    pods = list(overlay.pods())
    assert len(pods) >= len(ROLES)
    for pod in pods:
        context, container = pod.spec["securityContext"], pod.container
        assert context["runAsNonRoot"] is True
        assert context["runAsUser"] > 0
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert pod.spec["automountServiceAccountToken"] is False
        assert pod.spec["enableServiceLinks"] is False
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod.spec)
        assert ":" in container["image"], "an image without a tag changes by itself"
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}
        # No limit of CPU: whoever is throttled stands still, and a match stands still with it.
        assert set(container["resources"]["limits"]) == {"memory"}


def test_whoever_plays_is_the_last_to_go(production: Manifests) -> None:
    (name,) = production.of("PriorityClass")
    urgent = {role for role, pod in production.ours().items() if pod.spec.get("priorityClassName") == name}
    assert urgent == {"clock", "game", "matchmaking"}
    assert production.of("Cluster")["database"]["spec"]["priorityClassName"] == name


def test_selectors_select_their_own_pods(overlay: Manifests) -> None:
    for pod in overlay.pods():
        if "selector" in pod.owner["spec"]:
            assert pod.owner["spec"]["selector"]["matchLabels"].items() <= pod.labels.items()
        if pod.owner["kind"] == "StatefulSet":
            service = overlay.of("Service")[pod.owner["spec"]["serviceName"]]
            assert [found.role for found in overlay.behind(service["metadata"]["name"])] == [pod.role]


def test_production_holds_no_secret(production: Manifests) -> None:
    assert production.of("Secret") == {}
    for pod in production.ours().values():
        for entry in pod.container.get("env", []):
            if re.search("SECRET|PASSWORD|TOKEN$|DATABASE_USER", entry["name"]):
                assert "secretKeyRef" in entry["valueFrom"], entry["name"]


def test_the_secrets_of_development_are_made_and_not_kept(development: Manifests) -> None:
    whose = {f"database-{role}" for role in (*logins.ROLES, "app", "roles")}
    assert {name[:-11] for name in development.of("Secret")} == {*whose, "internal", "guests"}
    (postgres,) = development.of("StatefulSet")["database"]["spec"]["template"]["spec"]["containers"]
    assert {f"{name}={value}" for name, value in SECRETIVE.items()} <= set(postgres["args"])
    assert "/secrets/" in (K8S / "overlays" / "development" / ".gitignore").read_text("utf-8")


def test_what_must_be_there_first_is_written_down(production: Manifests) -> None:
    """Whatever the manifests name and do not make is in the README, and nothing that they make is."""
    named: set[tuple[str, str]] = set()
    for pod in production.ours().values():
        for entry in pod.container.get("env", []):
            if "secretKeyRef" in entry.get("valueFrom", {}):
                named.add(("Secret", entry["valueFrom"]["secretKeyRef"]["name"]))
        for volume in pod.spec.get("volumes", []):
            if "secret" in volume:
                named.add(("Secret", volume["secret"]["secretName"]))
            if "configMap" in volume:
                named.add(("ConfigMap", volume["configMap"]["name"]))
    made = {("Secret", found["spec"]["secretName"]) for found in production.of("Certificate").values()}
    # The operator of the database makes these.
    made |= {("Secret", f"{name}-{what}") for name in production.of("Cluster") for what in ("app", "ca")}
    missing = named - made
    issuers = {found["spec"]["issuerRef"]["name"] for found in production.of("Certificate").values()}
    missing |= {("ClusterIssuer", name) for name in issuers - set(production.of("Issuer"))}
    missing |= {
        ("GatewayClass", gateway["spec"]["gatewayClassName"]) for gateway in production.of("Gateway").values()
    }
    for cluster in production.of("Cluster").values():
        missing |= {
            ("ObjectStore", plugin["parameters"]["barmanObjectName"]) for plugin in cluster["spec"]["plugins"]
        }
    text = (K8S / "README.md").read_text("utf-8")
    assert set(re.findall(r"^\| (\w+) `([\w-]+)` \|", text, re.MULTILINE)) == missing


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "CronJob", "Job"])
def test_an_object_has_the_name_of_its_role(production: Manifests, kind: str) -> None:
    for name, found in production.of(kind).items():
        assert found["metadata"]["labels"][ROLE] == name
        assert name in ROLES
