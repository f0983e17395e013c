"""A real Envoy, and the way to it for clients that know host names only."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from tests import processes
from tests.relay import HOST, relay
from tests.tools import tool

SECONDS_MAX = 30.0


class Envoy:
    """A running Envoy, asked through its admin port."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self._process = process
        self._folder = folder

    def _ask(self, path: str) -> Any:
        address = (self._folder / "admin").read_text().strip()
        with urllib.request.urlopen(f"http://{address}{path}", timeout=5) as answer:
            return json.loads(answer.read())

    async def config(self) -> dict[str, Any]:
        """What it runs by: the name of each part with the part."""
        dump = await asyncio.to_thread(self._ask, "/config_dump")
        found = {}
        for part in dump["configs"]:
            for listener in part.get("static_listeners", ()):
                found[f"listener {listener['listener']['name']}"] = listener["listener"]
            for cluster in part.get("static_clusters", ()):
                found[f"cluster {cluster['cluster']['name']}"] = cluster["cluster"]
            for routes in part.get("static_route_configs", ()):
                found[f"routes {routes['route_config']['name']}"] = routes["route_config"]
        return found

    async def ports(self) -> dict[str, int]:
        """The port of each listener."""
        listeners = await asyncio.to_thread(self._ask, "/listeners?format=json")
        return {
            status["name"]: status["local_address"]["socket_address"]["port_value"]
            for status in listeners["listener_statuses"]
        }

    async def until_live(self) -> None:
        """Waits until it serves. Raises AssertionError with the end of its log when it does not come to that."""
        give_up = time.monotonic() + SECONDS_MAX
        while True:
            with suppress(OSError, ValueError, urllib.error.URLError):
                if (await asyncio.to_thread(self._ask, "/server_info"))["state"] == "LIVE":
                    return
            log = self._folder / "envoy.log"
            assert self._process.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < give_up, log.read_text()[-3000:]
            await asyncio.sleep(0.02)


def _start(folder: Path, listeners: list[Any], clusters: list[Any]) -> subprocess.Popen[bytes]:
    program = tool("envoy")
    bootstrap = {
        "admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}}},
        "static_resources": {"listeners": listeners, "clusters": clusters},
    }
    (folder / "envoy.json").write_text(json.dumps(bootstrap, indent=1))
    command = [
        *(
            program,
            "--config-path",
            str(folder / "envoy.json"),
            "--admin-address-path",
            str(folder / "admin"),
        ),
        *("--concurrency", "1", "--disable-hot-restart", "--log-level", "warning"),
    ]
    starter = [sys.executable, "-I", "-S", processes.__file__, str(os.getpid())]
    with (folder / "envoy.log").open("wb") as log:
        return subprocess.Popen(
            [*starter, *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )


@asynccontextmanager
async def envoy(folder: Path, listeners: list[Any], clusters: list[Any]) -> AsyncIterator[Envoy]:
    """Runs Envoy with these, and ends it. Skips the test where there is no Envoy."""
    process = _start(folder, listeners, clusters)
    try:
        made = Envoy(process, folder)
        await made.until_live()
        yield made
    finally:
        process.terminate()
        try:
            await asyncio.to_thread(process.wait, 10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@asynccontextmanager
async def tunnel(ports: Mapping[int, int]) -> AsyncIterator[str]:
    """An HTTP proxy that takes a connection to any host to a port of this machine, by the port that is asked for.

    Set as grpc_proxy, it stands for DNS and the network between a client and the gateway: clients use the host names
    and ports that players are told. Its URL.
    """

    async def opening(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[str, int]:
        head = await reader.readuntil(b"\r\n\r\n")
        wanted = head.split()[1].decode()
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        return HOST, ports[int(wanted.rpartition(":")[2])]

    async with relay(opening) as port:
        yield f"http://{HOST}:{port}"
