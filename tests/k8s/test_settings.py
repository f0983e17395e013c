"""Every process gets what its code asks for, and nothing else: settings, files, ports, probes, grace, both ways."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwt.algorithms import OKPAlgorithm
from prometheus_client import CollectorRegistry

from k8s import addresses
from services.__main__ import ROLES
from services.canary.settings import CanarySettings
from services.clock.settings import ClockSettings
from services.common import host
from services.common.settings import (
    PREFIX,
    CommonSettings,
    Environment,
    Settings,
    SettingsError,
    load,
    split_address,
)
from services.game.metrics import GameMetrics
from services.game.settings import GameSettings
from services.local.postgres import SECRETIVE
from services.matchmaking.settings import MatchmakingSettings
from services.storage import logins
from services.storage.privileges import ROLE_PREFIX
from tests.authority import Authority
from tests.k8s.manifests import ROOT, Manifests, Pod

SETTINGS: Final[dict[str, type[Settings]]] = {
    "clock": ClockSettings,
    "game": GameSettings,
    "matchmaking": MatchmakingSettings,
    "canary": CanarySettings,
}
SERVICES: Final = ("clock", "game", "matchmaking")
USERS: Final = {
    **{name: name for name in SERVICES},
    "compact": "archiver",
    "ops": "reader",
    "migrate": "app",
}
"""As whom each role reaches the database."""
COMMANDS: Final = {"ops": "services/ops", "compact": "services/ops", "migrate": "services/storage"}
"""Roles without a settings class, and where they read the environment."""
SECRETS: Final = {
    ("database-app", "username"): "spectacular_bid",
    ("database-app", "password"): "hGx0VRyt5OJr2Qa8kLm3",
    **{(f"database-{role}", "username"): f"{ROLE_PREFIX}{role}" for role in logins.ROLES},
    **{(f"database-{role}", "password"): f"hGx0VRyt5OJr2Qa8kLm3-{role}" for role in logins.ROLES},
    ("database-roles", "passwords"): "{}",
    ("internal", "secret"): "Zq3nV8xK1rT6wY9bD4fH7jL2mP5sC0gA",
}


def keys() -> bytes:
    """A key set as an issuer publishes it."""
    public = OKPAlgorithm.to_jwk(Ed25519PrivateKey.generate().public_key(), as_dict=True)
    return repr({"keys": [public | {"kid": "1", "alg": "EdDSA", "use": "sig"}]}).replace("'", '"').encode()


def contents(authority: Authority, pod: Pod, source: dict[str, Any]) -> dict[str, bytes]:
    """What lies in a volume: that of a certificate, of an authority, or of keys."""
    match source:
        case {"configMap": {"name": name}} if name.startswith("identity"):
            return {"jwks.json": keys()}
        case {"secret": {"secretName": "database-ca", "items": [{"key": "ca.crt", "path": path}]}}:
            return {path: authority.pem}
        case {"secret": {"secretName": name}} if name.endswith("-tls"):
            certificate, key = authority.sign(f"{pod.role}.spectacular-bid.svc")
            return {"tls.crt": certificate, "tls.key": key, "ca.crt": authority.pem}
        case {"secret": {"secretName": "canary"}}:
            return {"tokens.json": b'{"north": "", "south": ""}'}
        case {"secret": {"secretName": name}} if name.startswith("guests"):
            return {"signing.pem": b""}
    raise AssertionError(f"no test knows the volume {source}")


def environment(manifests: Manifests, pod: Pod, folder: Path) -> dict[str, str]:
    """What the process finds, its volumes under `folder`."""
    found = manifests.environment(pod, SECRETS)
    authority = Authority(folder / "authority")
    volumes = {volume["name"]: volume for volume in pod.spec.get("volumes", [])}
    for mount in pod.container.get("volumeMounts", []):
        assert mount["readOnly"], f"{pod.role} could write to {mount['mountPath']}"
        place = folder / mount["name"]
        place.mkdir()
        for name, content in contents(authority, pod, volumes[mount["name"]]).items():
            (place / name).write_bytes(content)
        found = {name: value.replace(mount["mountPath"], str(place)) for name, value in found.items()}
    return found


def loaded(
    manifests: Manifests, role: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Settings, dict[str, str]]:
    """The settings of a role as its process reads them, with every check it makes; and what it read."""
    given = environment(manifests, manifests.ours()[role], folder)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    return load(SETTINGS[role]), given


@pytest.mark.parametrize("role", SETTINGS)
def test_a_process_of_production_accepts_its_settings(
    production: Manifests, role: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, given = loaded(production, role, tmp_path, monkeypatch)
    assert getattr(settings, "env") is Environment.PRODUCTION  # noqa: B009 - not every class has it
    only_what_it_knows(production, role, given)


def only_what_it_knows(manifests: Manifests, role: str, given: dict[str, str]) -> None:
    """Each variable is a setting of the role, and each file one that a volume has."""
    known = {PREFIX + name.upper() for name in SETTINGS[role].model_fields}
    common = {PREFIX + name.upper() for kind in SETTINGS.values() for name in kind.model_fields}
    for name, value in given.items():
        if name.startswith(PREFIX):
            # The common map is for all; what stands in a role's own manifest must be the role's.
            assert name in (common if name in shared(manifests) else known), f"{role} has no setting {name}"
        else:
            assert name in {"DATABASE_USER", "DATABASE_PASSWORD", "DATABASE_OPTIONS"}
        if name.endswith("_FILE"):
            assert Path(value).is_file(), f"{role}: {name} names a file that no volume has"


@pytest.mark.parametrize("role", SERVICES)
def test_a_process_of_development_accepts_its_settings(
    development: Manifests, role: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, given = loaded(development, role, tmp_path, monkeypatch)
    assert getattr(settings, "env") is Environment.DEVELOPMENT  # noqa: B009
    only_what_it_knows(development, role, given)


def shared(manifests: Manifests) -> dict[str, str]:
    """The map that several roles read."""
    (found,) = (
        data["data"] for name, data in manifests.of("ConfigMap").items() if name.startswith("settings")
    )
    return dict(found)


@pytest.mark.parametrize("taken", ["INTERNAL_TLS_CA_FILE", "TOKEN_ISSUER", "TLS_KEY_FILE"])
def test_production_without_one_of_them_is_refused(
    production: Manifests, taken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded(production, "game", tmp_path, monkeypatch)
    monkeypatch.delenv(PREFIX + taken)
    with pytest.raises(SettingsError, match=taken):
        load(GameSettings)


def test_the_roles_are_those_of_the_code(production: Manifests) -> None:
    pods = production.ours()
    assert set(pods) == set(ROLES)
    for role, pod in pods.items():
        # From ops the operator's commands are run by hand.
        assert pod.container.get("args", ["ops"]) == [role]
        assert pod.container["name"] == "app"
        assert pod.spec["serviceAccountName"] == role
    assert set(production.of("ServiceAccount")) == set(ROLES)


@pytest.mark.parametrize("role", COMMANDS)
def test_a_command_reads_what_it_is_given(production: Manifests, role: str, tmp_path: Path) -> None:
    code = "".join(
        path.read_text("utf-8")
        for folder in (COMMANDS[role], "services/common")
        for path in (ROOT / folder).rglob("*.py")
    )
    read = {
        PREFIX + name
        for name in re.findall(r'\{PREFIX\}([A-Z_]+)|"SPECTACULAR_BID_([A-Z_]+)"', code)
        for name in name
    }
    tls = {PREFIX + name.upper() for name in CommonSettings.model_fields if name.startswith("internal_tls")}
    given = {
        name for name in environment(production, production.ours()[role], tmp_path) if name.startswith(PREFIX)
    }
    assert f"{PREFIX}DATABASE_URL" in given
    assert given <= read | tls


def test_ports_are_those_the_processes_listen_on(overlay: Manifests) -> None:
    for role, pod in overlay.ours().items():
        env = overlay.environment(pod, SECRETS)
        listening = {
            name.removeprefix(PREFIX).removesuffix("LISTEN").rstrip("_").lower() or "public": split_address(
                value
            )
            for name, value in env.items()
            if name.startswith(PREFIX) and name.endswith("LISTEN")
        }
        if role not in SETTINGS:
            assert pod.ports == {}
            continue
        assert {address for address, _ in listening.values()} == {"0.0.0.0"}  # noqa: S104 - in a pod of its own
        assert pod.ports == {name: port for name, (_, port) in listening.items()}
        # The scheduler, the policies and the reader know one number for each purpose.
        assert (pod.ports["metrics"], pod.ports["health"]) == (7610, 7620)


def test_services_lead_to_ports_that_exist(overlay: Manifests) -> None:
    for name, service in overlay.of("Service").items():
        pods = overlay.behind(name)
        assert len(pods) == 1, f"{name} selects {[pod.role for pod in pods]}"
        for port in service["spec"]["ports"]:
            assert pods[0].ports[port["targetPort"]] == port["port"]


def test_addresses_lead_to_services(overlay: Manifests) -> None:
    for pod in overlay.ours().values():
        env = overlay.environment(pod, SECRETS)
        for name in ("CLOCK_ADDRESS", "MATCHMAKING_ADDRESS", "METRICS_TARGETS"):
            for address in filter(None, env.get(PREFIX + name, "").split(",")):
                service, port = split_address(address.rpartition("=")[2])
                spec = overlay.of("Service")[service]["spec"]
                assert port in {found["port"] for found in spec["ports"]}, address
                # All of several processes are meant, those that are not ready too; or it is the leader's.
                assert spec.get("clusterIP") == "None" or name == "MATCHMAKING_ADDRESS"
                assert spec.get("publishNotReadyAddresses", False) is (name != "MATCHMAKING_ADDRESS")


def test_the_database_is_that_of_its_cluster(production: Manifests) -> None:
    cluster = production.of("Cluster")["database"]["spec"]
    made = cluster["bootstrap"]["initdb"]
    for name, whose in USERS.items():
        user, password = SECRETS[f"database-{whose}", "username"], SECRETS[f"database-{whose}", "password"]
        env = production.environment(production.ours()[name], SECRETS)
        place = f"@database-rw:5432/{made['database']}?sslmode=verify-full"
        assert env[f"{PREFIX}DATABASE_URL"].startswith(f"postgresql://{user}:{password}{place}")
    # By default it only looks.
    act = production.environment(production.ours()["ops"], SECRETS)["OPERATOR_DATABASE_URL"]
    assert act.startswith(f"postgresql://{ROLE_PREFIX}operator:")
    assert {
        role for role, pod in production.ours().items() if "DATABASE" in str(pod.container.get("env"))
    } == set(USERS)
    assert made["owner"] == SECRETS["database-app", "username"]
    managed = {role["name"]: role for role in cluster["managed"]["roles"]}
    assert managed.keys() == {f"{ROLE_PREFIX}{role}" for role in logins.ROLES}
    for name, role in managed.items():
        assert role["passwordSecret"]["name"] == name.replace(ROLE_PREFIX, "database-")
        assert not role.keys() & {"superuser", "createdb", "createrole", "replication", "bypassrls"}
    assert {name: str(value) for name, value in cluster["postgresql"]["parameters"].items()}.items() >= (
        SECRETIVE.items()
    )
    connections = sum(
        count * (CommonSettings.model_fields["database_pool_size"].default + 2)
        for count in (addresses.COUNT, 3, 2)  # game, clock, matchmaking
    )
    assert connections < int(cluster["postgresql"]["parameters"]["max_connections"]) * 0.7


@pytest.mark.parametrize("role", SERVICES)
def test_probes_ask_what_the_code_answers(overlay: Manifests, role: str) -> None:
    container = overlay.ours()[role].container
    probes = {kind: container[f"{kind}Probe"]["grpc"] for kind in ("startup", "liveness", "readiness")}
    assert probes["startup"] == probes["liveness"] == {"port": 7620}
    assert probes["readiness"] == {"port": 7620, "service": host.READY}
    startup = container["startupProbe"]
    waits = float(shared(overlay)[f"{PREFIX}SCHEMA_WAIT_SECONDS"])
    # Health is served when the schema is there, and a process gives up by itself before it is killed for waiting.
    assert startup["failureThreshold"] * startup["periodSeconds"] >= waits + 20
    liveness = container["livenessProbe"]
    assert liveness["failureThreshold"] * liveness["periodSeconds"] >= 30


@pytest.mark.parametrize("role", SERVICES)
def test_the_grace_is_what_a_drain_may_take(
    production: Manifests, role: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, _ = loaded(production, role, tmp_path, monkeypatch)
    assert isinstance(settings, CommonSettings)
    pod = production.ours()[role]
    sleeps = pod.container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    needed = sleeps + host.drain_seconds_max(settings)
    # Enough, and not so much that a process that hangs keeps a node waiting.
    assert needed <= pod.spec["terminationGracePeriodSeconds"] <= needed + 20


def test_the_autoscaler_knows_the_metric_and_the_addresses(production: Manifests) -> None:
    registry = CollectorRegistry()
    GameMetrics(registry)
    scaler = production.of("HorizontalPodAutoscaler")["game"]["spec"]
    (metric,) = scaler["metrics"]
    series = metric["pods"]["metric"]["name"]
    adapter = (ROOT / "k8s" / "adapter-rules.yaml").read_text("utf-8")
    assert f"as: {series}\n" in adapter
    assert f"seriesQuery: {series}{{" in adapter
    game = (ROOT / "services/game/metrics.py").read_text("utf-8")
    assert f'"{series}"' in game
    env = production.environment(production.ours()["game"], SECRETS)
    capacity = int(env[f"{PREFIX}CAPACITY"])
    assert int(metric["pods"]["target"]["averageValue"]) <= 2 / 3 * capacity
    assert scaler["maxReplicas"] == addresses.COUNT
    assert "replicas" not in production.of("StatefulSet")["game"]["spec"], (
        "an update would undo the autoscaler"
    )


def test_what_is_scraped_has_the_port_and_the_name_of_its_job(production: Manifests) -> None:
    monitor = production.of("PodMonitor")["spectacular-bid"]["spec"]
    (selected,) = monitor["selector"]["matchExpressions"]
    assert set(selected["values"]) == {
        role for role, pod in production.ours().items() if "metrics" in pod.ports
    }
    assert monitor["jobLabel"] == selected["key"] == "app.kubernetes.io/name"
    assert monitor["podMetricsEndpoints"][0]["port"] == "metrics"


def test_the_image_has_the_version_of_the_package(production: Manifests) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert {pod.container["image"] for pod in production.ours().values()} == {f"spectacular-bid:{version}"}
    assert f'image.version="{version}"' in (ROOT / "k8s/image/Dockerfile").read_text("utf-8")
