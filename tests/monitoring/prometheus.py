"""A real Prometheus that scrapes given targets and works rules out, for tests and demonstrations."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlencode

import yaml

from tests import processes
from tests.monitoring import rules
from tests.processes import SECONDS_MAX

Targets: TypeAlias = Mapping[str, Mapping[str, str]]
"""What is scraped: by job the address, host:port, of each instance."""

_POLL_SECONDS = 0.05
_LISTENING = re.compile(rb'msg="Listening on" address=(\S+)')


class PrometheusError(AssertionError):
    """Prometheus did not start, or refused a query; the text says why in its own words."""


@dataclass(frozen=True)
class Sample:
    """One series of an answer with its value."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class Alert:
    """An alert that is not inactive."""

    name: str
    severity: str
    state: str
    """pending or firing."""
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    """Texts with their figures filled in."""


class Prometheus:
    """One running server; use it through `prometheus`, which always ends it."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes]) -> None:
        self._folder = folder
        self._process = process
        self._targets: dict[tuple[str, str], str] = {}
        self.address = ""
        """host:port of its pages."""

    def aim(self, targets: Targets) -> None:
        """Scrape these from now on and nothing else; seen within a second."""
        self._targets = {
            (job, name): address for job, found in targets.items() for name, address in found.items()
        }
        _write_targets(self._folder, targets)

    async def scraped(self, *, seconds_max: float = SECONDS_MAX) -> None:
        """Wait until every target has answered a scrape that began after this call.

        Raises PrometheusError when the time is up, with what each target said.
        """
        asked = time.time()
        give_up = time.monotonic() + seconds_max
        while True:
            found = await self._get("/api/v1/targets", state="active")
            seen = {
                (target["labels"]["job"], target["labels"]["instance"]): target
                for target in found["activeTargets"]
            }
            if seen.keys() == self._targets.keys() and all(
                target["health"] == "up" and _timestamp(target["lastScrape"]) > asked
                for target in seen.values()
            ):
                return
            if time.monotonic() > give_up:
                raise PrometheusError(f"not all were scraped: {json.dumps(found, indent=1)}")
            await asyncio.sleep(_POLL_SECONDS)

    async def query(self, expression: str, *, at: float | None = None) -> list[Sample]:
        """The answer now, or at a Unix time in seconds. Raises PrometheusError when the expression is wrong."""
        moment = {} if at is None else {"time": str(at)}
        found = await self._get("/api/v1/query", query=expression, **moment)
        if found["resultType"] == "scalar":
            return [Sample({}, float(found["result"][1]))]
        return [Sample(one["metric"], float(one["value"][1])) for one in found["result"]]

    async def alerts(self, *, state: str | None = None) -> list[Alert]:
        """Alerts that are pending or firing now, or only those in one of these states."""
        found = await self._get("/api/v1/alerts")
        made = [
            Alert(
                name=one["labels"]["alertname"],
                severity=one["labels"].get("severity", ""),
                state=one["state"],
                labels=one["labels"],
                annotations=one["annotations"],
            )
            for one in found["alerts"]
        ]
        return [alert for alert in made if state in (None, alert.state)]

    async def fired(self, seconds: float) -> dict[str, str]:
        """Every alert that fired at some time in the last so many seconds, by name, with its gravest severity."""
        span = f"[{max(1, round(1000 * seconds))}ms]"
        found = await self.query(
            'count by (alertname, severity) (max_over_time(ALERTS{alertstate="firing"}' + span + "))"
        )
        pairs = [(one.labels["alertname"], one.labels.get("severity", "")) for one in found]
        # "page" comes before "ticket".
        return dict(sorted(pairs, reverse=True))

    async def broken_rules(self) -> dict[str, str]:
        """Rules whose last evaluation failed, with the reason; empty when all is well."""
        found = await self._get("/api/v1/rules")
        return {
            rule["name"]: rule["lastError"]
            for group in found["groups"]
            for rule in group["rules"]
            if rule["health"] == "err"
        }

    async def evaluated(self, *, seconds_max: float = SECONDS_MAX) -> None:
        """Wait until every rule has been worked out once more. Raises PrometheusError when the time is up."""
        asked = time.time()
        give_up = time.monotonic() + seconds_max
        while True:
            found = await self._get("/api/v1/rules")
            if all(_timestamp(group["lastEvaluation"]) > asked for group in found["groups"]):
                return
            if time.monotonic() > give_up:
                raise PrometheusError("the rules were not worked out")
            await asyncio.sleep(_POLL_SECONDS)

    async def _started(self, log: Path) -> None:
        give_up = time.monotonic() + SECONDS_MAX
        while True:
            ended = self._process.poll() is not None
            said = await asyncio.to_thread(log.read_bytes)
            found = _LISTENING.search(said)
            if found is not None and b"Server is ready" in said:
                self.address = found[1].decode()
                return
            if ended or time.monotonic() > give_up:
                raise PrometheusError(f"Prometheus did not start:\n{said.decode('utf-8', 'replace')}")
            await asyncio.sleep(_POLL_SECONDS)

    async def _get(self, path: str, **parameters: str) -> Any:
        return await asyncio.to_thread(self._ask, f"{path}?{urlencode(parameters)}")

    def _ask(self, path: str) -> Any:
        connection = http.client.HTTPConnection(self.address, timeout=SECONDS_MAX)
        try:
            connection.request("GET", path)
            answer = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        if answer["status"] != "success":
            raise PrometheusError(f"{path}: {answer.get('error')}")
        return answer["data"]


@asynccontextmanager
async def prometheus(
    program: str,
    folder: Path,
    targets: Targets,
    *,
    spec: rules.Spec | None = None,
    interval_seconds: float = 0.5,
) -> AsyncIterator[Prometheus]:
    """Start `program`, the path of Prometheus, and end it whatever happens.

    It scrapes each target and works out each rule of `spec` every `interval_seconds`; its data and log are in `folder`.
    The kernel ends it when this process is killed.
    """
    process, log = _start(program, folder, targets, spec, interval_seconds)
    try:
        made = Prometheus(folder, process)
        made.aim(targets)
        await made._started(log)
        yield made
    finally:
        process.terminate()
        try:
            await asyncio.to_thread(process.wait, 10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _start(
    program: str, folder: Path, targets: Targets, spec: rules.Spec | None, interval_seconds: float
) -> tuple[subprocess.Popen[bytes], Path]:
    """The process and its log."""
    folder.mkdir(parents=True, exist_ok=True)
    _write_targets(folder, targets)
    interval = f"{round(1000 * interval_seconds)}ms"
    configuration: dict[str, Any] = {
        "global": {
            "scrape_interval": interval,
            "scrape_timeout": interval,
            "evaluation_interval": interval,
        },
        "scrape_configs": [
            {
                "job_name": "unnamed",  # each target says its job
                "file_sd_configs": [{"files": ["targets.json"], "refresh_interval": "1s"}],
            }
        ],
    }
    if spec is not None:
        rules.write(spec, folder / "rules.yaml")
        configuration["rule_files"] = ["rules.yaml"]
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(configuration), "utf-8")
    log_path = folder / "prometheus.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", processes.__file__, str(os.getpid()), program),
                f"--config.file={folder / 'prometheus.yaml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                "--web.listen-address=127.0.0.1:0",
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return process, log_path


def _write_targets(folder: Path, targets: Targets) -> None:
    found = [
        {"targets": [address], "labels": {"job": job, "instance": name}}
        for job, instances in targets.items()
        for name, address in instances.items()
    ]
    # Prometheus may read at any moment.
    (folder / "targets.json.new").write_text(json.dumps(found), "utf-8")
    (folder / "targets.json.new").replace(folder / "targets.json")


def _timestamp(text: str) -> float:
    """Unix time of what Go writes, which has up to nine digits of a second; 0 for never."""
    match = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)", text)
    assert match is not None, text
    if match[1].startswith("0001"):
        return 0.0
    return datetime.fromisoformat(match[1] + match[3].replace("Z", "+00:00")).timestamp() + float(
        match[2] or 0
    )
