"""The pods of the production overlay without Kubernetes: a part of `make image-rehearsal`.

Each pod is a process of the image in a network of its own, with the very environment of its manifest: true names, true
ports, mutual TLS, a database that must show its certificate. /etc/hosts stands in for the names of Services; the leader
of matchmaking is added when it is ready, as an endpoint would be. PostgreSQL is the embedded one, behind a front that
speaks TLS, since that build of it does not. What is not here: policies, the gateway, and everything that Kubernetes does.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import asyncpg
import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from services.common.auth import TokenIssuer, write_new_keys
from services.common.production import LOCAL_KEY_MARK
from services.common.settings import PREFIX
from services.local.postgres import EmbeddedPostgres
from services.storage.logins import ROLES
from services.storage.privileges import ROLE_PREFIX
from spectacularbid.identity.v1 import player_service_pb2, player_service_pb2_grpc
from spectacularbid.match.v1 import match_service_pb2, match_service_pb2_grpc
from tests.authority import CLIENT, SERVER, Authority
from tests.k8s.manifests import Manifests, Pod, production
from tests.k8s.rehearsal import SECONDS_MAX, Stage, build

MARK = os.environ.get("REHEARSAL_MARK", f"rh{os.getpid()}")
DRIVER = "database-0"
NAMES = {
    DRIVER: 10,
    "clock-0": 11,
    "clock-1": 12,
    "matchmaking-0": 13,
    "matchmaking-1": 14,
    "game-0": 15,
    "game-1": 16,
    "ops-0": 17,
}
"""The pods, and the last number of the address of each."""
SSL_REQUEST = bytes.fromhex("0000000804d2162f")


def ip(name: str) -> str:
    """The address of a pod."""
    return f"10.77.7.{NAMES[name]}"


def network(name: str) -> str:
    """The network of a pod, for `ip netns`."""
    return f"{MARK}-{name}"


@contextmanager
def networks() -> Iterator[None]:
    """A network for each pod, all on one bridge, which is in the driver's."""

    def run(*arguments: str) -> None:
        subprocess.run(["ip", *arguments], check=True)

    with ExitStack() as made:
        for name in NAMES:
            run("netns", "add", network(name))
            made.callback(subprocess.run, ["ip", "netns", "del", network(name)], check=False)
            run("-n", network(name), "link", "set", "lo", "up")
        driver = network(DRIVER)
        run("-n", driver, "link", "add", "pods", "type", "bridge")
        run("-n", driver, "addr", "add", f"{ip(DRIVER)}/24", "dev", "pods")
        run("-n", driver, "link", "set", "pods", "up")
        for name in NAMES.keys() - {DRIVER}:
            here = f"p{NAMES[name]}"
            run(
                "-n",
                driver,
                "link",
                "add",
                here,
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                network(name),
            )
            run("-n", driver, "link", "set", here, "master", "pods", "up")
            run("-n", network(name), "addr", "add", f"{ip(name)}/24", "dev", "eth0")
            run("-n", network(name), "link", "set", "eth0", "up")
        yield


class Cluster:
    """What would be in the namespace: secrets, names, pods."""

    def __init__(self, folder: Path, image: Stage, database: str) -> None:
        self.folder = folder
        self.image = image
        self.manifests: Manifests = production()
        self.authority = Authority(folder / "authority")
        self.database = database
        self.values = {
            ("database-app", "username"): "owner",
            ("database-app", "password"): secrets.token_hex(16),
            ("internal", "secret"): secrets.token_urlsafe(33),
            **{(f"database-{role}", "username"): f"{ROLE_PREFIX}{role}" for role in ROLES},
            **{(f"database-{role}", "password"): secrets.token_hex(16) for role in ROLES},
        }
        self.running: dict[str, subprocess.Popen[str]] = {}
        write_new_keys(folder / "signing.pem", folder / "jwks.json")
        issuer = self.manifests.environment(self.manifests.ours()["game"], self.values)[
            f"{PREFIX}TOKEN_ISSUER"
        ]
        self.issuer = TokenIssuer(folder / "signing.pem", issuer, "spectacular-bid")
        self.hosts = folder / "hosts"
        names: dict[str, list[str]] = {"database-rw": [DRIVER]}
        for service in self.manifests.of("Service"):
            if service != "matchmaking-internal":
                role = self.manifests.behind(service)[0].role
                names[service] = [name for name in NAMES if name.rpartition("-")[0] == role]
        lines = [f"{ip(pod)} {name}" for name, pods in names.items() for pod in pods]
        self.hosts.write_text("127.0.0.1 localhost\n" + "\n".join(lines) + "\n", "ascii")

    def said(self, name: str) -> str:
        """What a pod has said."""
        return (self.folder / f"{name}.log").read_text("utf-8", "replace")

    def leads(self, name: str) -> None:
        """From now on the leader's Service has an endpoint."""
        with self.hosts.open("a") as file:
            file.write(f"{ip(name)} matchmaking-internal\n")

    def _content(self, source: dict[str, Any]) -> dict[str, bytes]:
        match source:
            case {"configMap": {"name": "identity"}}:
                keys = json.loads((self.folder / "jwks.json").read_text("ascii"))
                for key in keys["keys"]:
                    key.pop(LOCAL_KEY_MARK, None)
                return {"jwks.json": json.dumps(keys).encode()}
            case {"secret": {"secretName": "database-ca"}}:
                return {"ca.crt": self.authority.pem}
            case {"secret": {"secretName": name}}:
                (spec,) = (
                    found["spec"]
                    for found in self.manifests.of("Certificate").values()
                    if found["spec"]["secretName"] == name
                )
                usage = CLIENT if "client auth" in spec["usages"] else SERVER
                certificate, key = self.authority.sign(*spec["dnsNames"], usage=usage)
                return {"tls.crt": certificate, "tls.key": key, "ca.crt": self.authority.pem}
        raise AssertionError(source)

    def start(
        self, name: str, *, arguments: list[str] | None = None, role: str = ""
    ) -> subprocess.Popen[str]:
        """Run a pod as its manifest says, or another command in it."""
        pod: Pod = self.manifests.ours()[role or name.rpartition("-")[0]]
        volumes = {"/etc/hosts": self.hosts}
        sources = {volume["name"]: volume for volume in pod.spec.get("volumes", [])}
        for mount in pod.container.get("volumeMounts", []):
            place = self.folder / name / mount["name"]
            if not place.exists():
                place.mkdir(parents=True)
                for file, content in self._content(sources[mount["name"]]).items():
                    (place / file).write_bytes(content)
                    os.chown(place / file, 0, pod.spec["securityContext"]["fsGroup"])
                    (place / file).chmod(0o440)
            volumes[mount["mountPath"]] = place
        env = self.manifests.environment(pod, self.values, number=int(name.rpartition("-")[2]))
        command = arguments or [*self.image.entrypoint, *pod.container["args"]]
        process = self.image.process(
            command,
            env,
            volumes=volumes,
            before=("ip", "netns", "exec", network(name)),
            log=self.folder / f"{name}.log",
        )
        self.running[name] = process
        return process


async def database_front(authority: Authority, port: int) -> asyncio.Server:
    """TLS before a PostgreSQL that has none: the certificate of `database-rw`, and bytes both ways."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("database-rw", "database-rw"))

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except (ConnectionError, ssl.SSLError):
            pass
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.readexactly(8) != SSL_REQUEST:
            writer.close()  # in plain text nobody comes in
            return
        writer.write(b"S")
        await writer.drain()
        await writer.start_tls(context)
        inner, outer = await asyncio.open_connection("127.0.0.1", port)
        with suppress(asyncio.CancelledError):  # the end of the rehearsal
            await asyncio.gather(pipe(reader, outer), pipe(inner, writer))

    return await asyncio.start_server(serve, ip(DRIVER), 5432)


async def ready(name: str, *, service: str = "ready", patience: float = SECONDS_MAX) -> bool:
    """Whether the probe of a pod succeeds within this time, asked as the kubelet asks."""
    give_up = time.monotonic() + patience
    async with grpc.aio.insecure_channel(f"{ip(name)}:7620") as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        while time.monotonic() < give_up:
            try:
                answer = await stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=2)
                if answer.status == health_pb2.HealthCheckResponse.SERVING:
                    return True
            except grpc.aio.AioRpcError:
                pass
            await asyncio.sleep(0.1)
    return False


async def leader() -> str:
    """Which of the two is ready; exactly one."""
    give_up = time.monotonic() + SECONDS_MAX
    pair = [name for name in NAMES if name.startswith("matchmaking")]
    found: list[str] = []
    while time.monotonic() < give_up:
        found = [name for name in pair if await ready(name, patience=0.3)]
        if len(found) == 1 and all([await ready(name, service="") for name in pair]):
            return found[0]
    raise TimeoutError(f"not one leads, but {found}")


async def play(cluster: Cluster, lead: str) -> str:
    """What a gateway does for two players: calls over TLS, the names of pods checked. Makes a match on the last process."""
    trusted = grpc.ssl_channel_credentials(cluster.authority.pem)

    def channel(name: str, port: int) -> grpc.aio.Channel:
        override = f"{name.rpartition('-')[0]}.spectacular-bid.svc"
        return grpc.aio.secure_channel(
            f"{ip(name)}:{port}", trusted, options=[("grpc.ssl_target_name_override", override)]
        )

    tokens = {name: cluster.issuer.issue(name, name)[0] for name in ("ada", "bo")}
    async with channel(lead, 7600) as front, channel("game-1", 7601) as game:
        players: Any = player_service_pb2_grpc.PlayerServiceStub(front)
        matches: Any = match_service_pb2_grpc.MatchServiceStub(game)
        for name, token in tokens.items():
            call = {"metadata": (("authorization", f"Bearer {token}"),), "timeout": 10}
            await players.Register(player_service_pb2.RegisterRequest(name=name), **call)
        call = {"metadata": (("authorization", f"Bearer {tokens['ada']}"),), "timeout": 10}
        request = match_service_pb2.CreateMatchRequest(request_id=secrets.token_hex(8), player_id="bo")
        made = await matches.CreateMatch(request, **call)
        return str(made.match_id)


def confined(process: subprocess.Popen[str]) -> str:
    """Says that a process is what its pod may be at most. Raises AssertionError when it is more."""
    status = Path(f"/proc/{process.pid}/status").read_text("ascii")
    facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    found = facts["Uid"].split(), facts["CapBnd"].strip("0"), facts["CapEff"].strip("0"), facts["NoNewPrivs"]
    assert found == (["65532"] * 4, "", "", "1"), found
    return "user 65532, no capabilities"


async def rehearse(folder: Path) -> None:
    """Start the pods in the order in which Kubernetes may, which is none, and look at each."""
    image = build(folder, made=True)
    with EmbeddedPostgres(folder / "pods-postgres") as postgres:
        cluster = Cluster(folder / "pods", image, postgres.url)
        await _own_role(postgres.url, cluster)
        port = int(postgres.url.rpartition(":")[2].partition("/")[0])
        front = await database_front(cluster.authority, port)
        try:
            for name in NAMES.keys() - {DRIVER, "ops-0"}:
                cluster.start(name)
            migrate = cluster.start("ops-0", role="migrate")
            assert await asyncio.to_thread(migrate.wait) == 0, cluster.said("ops-0")
            print("migrate:", cluster.said("ops-0").strip())
            lead = await leader()
            print(f"matchmaking: {lead} leads and is ready, the other one is alive and not ready")
            cluster.leads(lead)
            for name in ("clock-0", "clock-1", "game-0", "game-1"):
                assert await ready(name), f"{name} does not get ready:\n{cluster.said(name)[-3000:]}"
                print(
                    f"{name}: ready, over mutual TLS by the names of Services; {confined(cluster.running[name])}"
                )
            print("a match over TLS as the gateway does:", await play(cluster, lead))
            looked = cluster.start("ops-0", arguments=["python", "-m", "services", "ops", "status", "--json"])
            await asyncio.to_thread(looked.wait)
            seen = json.loads(cluster.said("ops-0").partition("\n")[2])
            names = [f"{one['role']} {one['state']}" for one in seen["processes"]]
            print(f"ops status: {', '.join(names)}; wrong: {'; '.join(seen['problems']) or 'nothing'}")
            began = time.monotonic()
            cluster.running["game-1"].terminate()
            status = await asyncio.to_thread(cluster.running["game-1"].wait)
            print(f"game-1: SIGTERM, status {status} after {time.monotonic() - began:.1f} s")
            cluster.running[lead].terminate()
            await asyncio.to_thread(cluster.running[lead].wait)
            (next_one,) = (name for name in NAMES if name.startswith("matchmaking") and name != lead)
            assert await ready(next_one)
            print(f"matchmaking: {lead} has left, {next_one} leads")
        except BaseException:
            for name in cluster.running:
                print(f"--- {name}\n{cluster.said(name)[-3000:]}")
            raise
        finally:
            for process in cluster.running.values():
                process.kill()
                process.wait()
            front.close()


async def _own_role(url: str, cluster: Cluster) -> None:
    """The users and the database that CloudNativePG would have made: one owns it, and is nobody besides."""
    user, password = (cluster.values["database-app", key] for key in ("username", "password"))
    connection = await asyncpg.connect(url)
    try:
        for role in ROLES:
            mine, secret = (cluster.values[f"database-{role}", key] for key in ("username", "password"))
            await connection.execute(f"create role {mine} login password '{secret}'")
        await connection.execute(f"create role {user} login password '{password}'")
        await connection.execute(f"alter database spectacular_bid owner to {user}")
    finally:
        await connection.close()


def main(folder: str) -> int:
    """Make the networks, and go on in the database's."""
    if "REHEARSAL_MARK" in os.environ:
        asyncio.run(rehearse(Path(folder)))
        return 0
    with networks():
        command = [
            "ip",
            "netns",
            "exec",
            network(DRIVER),
            sys.executable,
            "-m",
            "tests.k8s.podsrehearsal",
            folder,
        ]
        return subprocess.run(command, check=False, env=os.environ | {"REHEARSAL_MARK": MARK}).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
