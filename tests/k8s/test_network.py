"""Who may speak to whom is who has to, and the way in leads where clients must get."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest

from k8s import addresses
from services.common.settings import PREFIX, split_address
from services.game.settings import GameSettings
from services.matchmaking.settings import MatchmakingSettings
from tests.k8s.manifests import K8S, ROOT, Manifests, Object, Pod, production_with, seconds
from tests.k8s.test_settings import SECRETS, SERVICES

Edge = tuple[str, str, int]
"""Who calls, who is called, on which port. Namespaces outside are named with a slash at the end."""
GATEWAY: Final = "envoy-gateway-system/"
MONITORING: Final = "monitoring/"


def matches(selector: Object, labels: dict[str, str]) -> bool:
    """Whether a label selector of Kubernetes selects these labels."""
    plain = selector.get("matchLabels", {}).items() <= labels.items()
    for wanted in selector.get("matchExpressions", []):
        assert wanted["operator"] == "In"
        plain = plain and labels.get(wanted["key"]) in wanted["values"]
    return bool(plain)


def named(peer: Object, pods: list[Pod]) -> set[str]:
    """The pods here, or the namespace outside, that a peer of a policy stands for."""
    if "namespaceSelector" in peer:
        return {peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] + "/"}
    return {pod.role for pod in pods if matches(peer["podSelector"], pod.labels)}


def allowed(manifests: Manifests, pods: list[Pod], direction: str) -> set[Edge]:
    """The edges that one direction of all policies allows."""
    ends = {"ingress": "from", "egress": "to"}
    edges: set[Edge] = set()
    for policy in manifests.of("NetworkPolicy").values():
        selected = {pod.role for pod in pods if matches(policy["spec"]["podSelector"], pod.labels)}
        for rule in policy["spec"].get(direction, []):
            others = {name for peer in rule.get(ends[direction], []) for name in named(peer, pods)}
            for port in rule.get("ports", []):
                pairs = ((own, other) for own in selected for other in others)
                edges |= {
                    (other, own, port["port"]) if direction == "ingress" else (own, other, port["port"])
                    for own, other in pairs
                }
    return edges


def needed(manifests: Manifests) -> set[Edge]:
    """The edges that the processes need, as their settings and their ports say."""
    edges: set[Edge] = set()
    for role, pod in manifests.ours().items():
        env = manifests.environment(pod, SECRETS)
        for name in ("CLOCK_ADDRESS", "MATCHMAKING_ADDRESS", "METRICS_TARGETS"):
            for address in filter(None, env.get(PREFIX + name, "").split(",")):
                service, port = split_address(address.rpartition("=")[2])
                edges |= {(role, target.role, port) for target in manifests.behind(service)}
        if f"{PREFIX}DATABASE_URL" in env:
            edges.add((role, "database", 5432))
        if "public" in pod.ports:
            edges.add((GATEWAY, role, pod.ports["public"]))
        if "metrics" in pod.ports:
            edges.add((MONITORING, role, pod.ports["metrics"]))
    # `services.ops watch` looks on at the clock; it is told the address when it is run.
    return edges | {("ops", "clock", 7450)}


def database(manifests: Manifests) -> Pod:
    """The pods that CloudNativePG makes, with the labels it gives them."""
    cluster = manifests.of("Cluster")["database"]
    return Pod(
        cluster, {"metadata": {"labels": {"cnpg.io/cluster": cluster["metadata"]["name"]}}, "spec": {}}
    )


def test_everything_is_denied_first(overlay: Manifests) -> None:
    policy = overlay.of("NetworkPolicy")["default-deny"]["spec"]
    assert policy == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def test_exactly_those_who_must_may_speak_to_each_other(production: Manifests) -> None:
    pods = [*production.ours().values(), database(production)]
    inside = {edge for edge in needed(production) if "/" not in edge[0]}
    going = {edge for edge in allowed(production, pods, "egress") if "/" not in edge[1]}
    coming = allowed(production, pods, "ingress")
    operator = {
        *(("database", "database", port) for port in (5432, 8000)),
        *(("cnpg-system/", "database", port) for port in (5432, 8000)),
        ("monitoring/", "database", 9187),
    }
    assert going == inside | {edge for edge in operator if edge[0] == "database"}
    assert coming == needed(production) | operator


def test_development_allows_the_same_inside(development: Manifests) -> None:
    pods = list(development.pods())
    inside = {edge for edge in needed(development) if "/" not in edge[0]}
    assert {edge for edge in allowed(development, pods, "egress") if "/" not in edge[1]} == inside
    assert {edge for edge in allowed(development, pods, "ingress") if "/" not in edge[0]} == inside


def test_nobody_reaches_everywhere(production: Manifests) -> None:
    """Rules without a peer are for what is outside of the cluster and has no name here."""
    open_rules = {
        name: [
            [port["port"] for port in rule["ports"]] for rule in policy["spec"]["egress"] if "to" not in rule
        ]
        for name, policy in production.of("NetworkPolicy").items()
        if any("to" not in rule for rule in policy["spec"].get("egress", []))
    }
    assert open_rules == {"canary": [[443]], "database": [[443, 6443]]}
    assert all(
        "from" in rule
        for policy in production.of("NetworkPolicy").values()
        for rule in policy["spec"].get("ingress", [])
    )


def test_traces_go_to_the_collector_that_the_services_are_told_of(
    tmp_path: Path, production: Manifests
) -> None:
    traced = production_with("tracing", tmp_path)
    pods = list(traced.ours().values())
    more = allowed(traced, pods, "egress") - allowed(production, pods, "egress")
    (endpoint,) = {
        traced.environment(traced.ours()[role], SECRETS)[f"{PREFIX}TRACING_ENDPOINT"] for role in SERVICES
    }
    service, _, place = endpoint.removeprefix("http://").partition(".")
    namespace, port = split_address(place)
    assert service
    assert more == {(role, f"{namespace}/", port) for role in SERVICES}


# The way in


def routes(manifests: Manifests) -> dict[str, list[tuple[str, set[str], list[Pod]]]]:
    """Each host name with its ways: the listener, the gRPC services it takes, and the pods it leads to."""
    found: dict[str, list[tuple[str, set[str], list[Pod]]]] = {}
    for route in manifests.of("GRPCRoute").values():
        (parent,), (host,) = (route["spec"][name] for name in ("parentRefs", "hostnames"))
        assert parent["name"] == "play"
        for rule in route["spec"]["rules"]:
            (backend,) = rule["backendRefs"]
            ports = {port["port"] for port in manifests.of("Service")[backend["name"]]["spec"]["ports"]}
            assert backend["port"] in ports
            services = {match["method"]["service"] for match in rule["matches"]}
            way = parent["sectionName"], services, manifests.behind(backend["name"])
            found.setdefault(host, []).append(way)
    return found


def test_every_public_service_has_a_way_in_and_no_other(production: Manifests) -> None:
    protos = (ROOT / "protos" / "spectacularbid").rglob("*.proto")
    services = {
        f"{package}.{service}"
        for text in (path.read_text("utf-8") for path in protos)
        for package in re.findall(r"^package ([\w.]+);", text, re.MULTILINE)
        for service in re.findall(r"^service (\w+) {", text, re.MULTILINE)
    }
    public = {name for name in services if ".internal." not in name}
    # Production refuses to have guests.
    ways = [(host, *way) for host, ways in routes(production).items() for way in ways]
    assert {name for _, _, found, _ in ways for name in found} == public - {
        "spectacularbid.identity.v1.GuestService"
    }
    for host, _, found, (pod,) in ways:
        sources = (ROOT / "services" / pod.role / "__main__.py").read_text("utf-8")
        assert [name for name in found if f'"{name}"' not in sources] == [], host


def test_each_game_process_is_reached_at_the_address_it_tells(production: Manifests) -> None:
    pod = production.ours()["game"]
    told = production.environment(pod, SECRETS)[f"{PREFIX}PUBLIC_ADDRESS"]
    (domain,) = {
        entry["value"].partition(".")[2]
        for entry in pod.container["env"]
        if entry["name"].endswith("PUBLIC_ADDRESS")
    }
    listeners = {
        listener["name"]: listener for listener in production.of("Gateway")["play"]["spec"]["listeners"]
    }
    found = routes(production)
    for number in range(addresses.COUNT):
        host, _, port = told.replace("game-0", f"game-{number}").rpartition(":")
        ((listener, _, pods),) = found[host]
        assert [target.role for target in pods] == ["game"]
        assert listeners[listener]["hostname"] == f"*.{domain.partition(':')[0]}"
        assert listeners[listener]["port"] == int(port) == 443
        service = production.of("Service")[f"game-{number}"]["spec"]
        assert service["selector"] == {"statefulset.kubernetes.io/pod-name": f"game-{number}"}
        # Unready, it plays on with what it has.
        assert service["publishNotReadyAddresses"]
    canary = production.environment(production.ours()["canary"], SECRETS)
    for name, roles in (("CANARY_SERVER", ["matchmaking", "game"]), ("CANARY_GAME", ["game"])):
        ways = found[canary[PREFIX + name].rpartition(":")[0]]
        assert [pod.role for _, _, pods in ways for pod in pods] == roles


def test_the_addresses_are_those_that_are_made() -> None:
    assert (K8S / "base" / "gateway" / "addresses.yaml").read_text("utf-8") == addresses.addresses()


def test_the_certificate_of_the_gateway_has_all_its_names(production: Manifests) -> None:
    gateway = production.of("Gateway")["play"]["spec"]
    (certificate,) = (
        found["spec"]
        for found in production.of("Certificate").values()
        if found["spec"]["secretName"] == "play-tls"
    )
    assert {listener["hostname"] for listener in gateway["listeners"]} == set(certificate["dnsNames"])
    for listener in gateway["listeners"]:
        assert listener["tls"] == {"mode": "Terminate", "certificateRefs": [{"name": "play-tls"}]}
        assert listener["protocol"] == "HTTPS"


def certificates(manifests: Manifests) -> dict[str, Any]:
    """By the secret they are written to."""
    return {found["spec"]["secretName"]: found["spec"] for found in manifests.of("Certificate").values()}


def shown(manifests: Manifests, role: str, variable: str) -> Any:
    """The certificate a process shows where a setting says."""
    pod = manifests.ours()[role]
    folder = str(Path(manifests.environment(pod, SECRETS)[PREFIX + variable]).parent)
    (name,) = (mount["name"] for mount in pod.container["volumeMounts"] if mount["mountPath"] == folder)
    (secret,) = (volume["secret"]["secretName"] for volume in pod.spec["volumes"] if volume["name"] == name)
    return certificates(manifests)[secret]


def test_the_gateway_expects_the_names_that_pods_show(production: Manifests) -> None:
    policies = production.of("BackendTLSPolicy")
    targets = {}
    for policy in policies.values():
        for target in policy["spec"]["targetRefs"]:
            targets[target["name"]] = policy["spec"]["validation"]
    behind = {
        route["spec"]["rules"][0]["backendRefs"][0]["name"] for route in production.of("GRPCRoute").values()
    }
    assert set(targets) == behind, "the gateway would speak in plain text to the others"
    for service, validation in targets.items():
        (pod,) = production.behind(service)
        certificate = shown(production, pod.role, "TLS_CERT_FILE")
        assert validation["hostname"] in certificate["dnsNames"]
        assert "server auth" in certificate["usages"]
        assert [found["name"] for found in validation["caCertificateRefs"]] == [certificate["secretName"]]


def test_services_show_each_other_the_names_they_are_called_by(production: Manifests) -> None:
    env = production.environment(production.ours()["game"], SECRETS)
    for name in ("CLOCK_ADDRESS", "MATCHMAKING_ADDRESS"):
        service, _ = split_address(env[PREFIX + name])
        (pod,) = production.behind(service)
        certificate = shown(production, pod.role, "INTERNAL_TLS_CERT_FILE")
        assert {service, f"{service}.spectacular-bid.svc"} <= set(certificate["dnsNames"])
        assert certificate["usages"] == ["digital signature", "server auth"]
    for role in ("game", "ops"):
        assert shown(production, role, "INTERNAL_TLS_CERT_FILE")["usages"] == [
            "digital signature",
            "client auth",
        ]
    for certificate in certificates(production).values():
        assert certificate["privateKey"]["rotationPolicy"] == (
            "Never" if certificate.get("isCA") else "Always"
        )


def test_no_timeout_of_the_gateway_ends_a_stream(production: Manifests) -> None:
    backend = production.of("BackendTrafficPolicy")["streams"]["spec"]
    client = production.of("ClientTrafficPolicy")["streams"]["spec"]
    for policy in (backend, client):
        assert [(target["kind"], target["name"]) for target in policy["targetRefs"]] == [("Gateway", "play")]
    assert (
        backend["timeout"]["http"]["requestTimeout"]
        == backend["timeout"]["http"]["maxConnectionDuration"]
        == "0s"
    )
    assert client["timeout"]["http"]["requestReceivedTimeout"] == "0s"
    life = max(
        GameSettings.model_fields["heartbeat_seconds"].default,
        MatchmakingSettings.model_fields["news_period_seconds"].default,
    )
    assert seconds(client["timeout"]["http"]["streamIdleTimeout"]) > 10 * life
    capacity = int(production.environment(production.ours()["game"], SECRETS)[f"{PREFIX}CAPACITY"])
    seeks = MatchmakingSettings.model_fields["seeks_max"].default
    assert backend["circuitBreaker"]["maxParallelRequests"] > max(8 * capacity, 2 * seeks)


@pytest.mark.parametrize("role", SERVICES)
def test_a_service_may_lose_a_node(production: Manifests, role: str) -> None:
    pod = production.ours()[role]
    spread = {found["topologyKey"] for found in pod.spec["topologySpreadConstraints"]}
    assert spread == {"kubernetes.io/hostname", "topology.kubernetes.io/zone"}
    for found in pod.spec["topologySpreadConstraints"]:
        assert matches(found["labelSelector"], pod.labels)
    budget = production.of("PodDisruptionBudget").get(role)
    if role == "matchmaking":
        assert budget is None, "it counts ready pods, and a standby is none"
    else:
        assert budget is not None
        assert matches(budget["spec"]["selector"], pod.labels)
        assert budget["spec"]["maxUnavailable"] == 1
    least = production.of("HorizontalPodAutoscaler")["game"]["spec"]["minReplicas"]
    assert pod.owner["spec"].get("replicas", least) >= 2
