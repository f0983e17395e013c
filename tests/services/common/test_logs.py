"""Lines of the log: JSON that anybody may see, whatever was handed to a log call or stands in an exception."""

from __future__ import annotations

import ast
import asyncio
import gc
import json
import logging
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any, NoReturn

import pytest
import structlog

from engine.command import Play
from engine.deal import Deal, commitment
from engine.event import RoundDealt, TileDrawn
from engine.eventjson import event_to_json
from engine.seats import NORTH, SOUTH
from engine.tiles import DOUBLE_SIX, Tile
from services.common import logs, redaction
from services.common.auth import TokenIssuer, write_new_keys
from services.common.settings import CommonSettings, load
from spectacularbid.match.v1 import match_service_pb2 as pb

SERVICES = Path(__file__).resolve().parents[3] / "services"
LEVELS = ("debug", "info", "warning", "error", "exception", "critical")
SECRET = "the secret of these tests"
PASSWORD = "correct%20horse%20battery"
URL = f"postgresql://ladder:{PASSWORD}@db.example:5432/bid"
TILE = Tile.parse("3|5")
DEAL = Deal.from_shuffle(DOUBLE_SIX)
SALT = bytes(range(32))
HASH = commitment(DEAL, SALT)


@dataclass(frozen=True)
class LogCall:
    """One place that logs."""

    where: str
    level: str
    event: str
    keys: tuple[str, ...]


@cache
def log_calls() -> tuple[LogCall, ...]:
    """Every log call of the services, found by reading them."""
    found = []
    for path in sorted(SERVICES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr=level, value=logger), args=[event, *_], keywords=keywords
                ) if level in LEVELS and "log" in ast.unparse(logger):
                    # What is spread out has keys of its own; any will do.
                    keys = tuple(keyword.arg or f"spread_{n}" for n, keyword in enumerate(keywords))
                    name = event.value if isinstance(event, ast.Constant) else ast.unparse(event)
                    found.append(
                        LogCall(f"{path.relative_to(SERVICES)}:{node.lineno}", level, str(name), keys)
                    )
    return tuple(found)


@pytest.fixture(scope="module")
def token(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A player's token, as services see them."""
    folder = tmp_path_factory.mktemp("keys")
    write_new_keys(folder / "key.pem", folder / "jwks.json")
    return TokenIssuer(folder / "key.pem", "issuer", "audience").issue("ann", "Ann")[0]


@pytest.fixture
def output(monkeypatch: pytest.MonkeyPatch) -> Iterator[StringIO]:
    """Logs as a process has them, on the output of this test."""
    written = StringIO()
    monkeypatch.setattr(sys, "stdout", written)
    monkeypatch.setattr(sys, "stderr", written)
    before = structlog.get_config()
    hooks = sys.excepthook, threading.excepthook, sys.unraisablehook
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    secrets = set(redaction._secrets)
    logs.configure("debug")
    redaction.hide([SECRET, URL])
    yield written
    redaction._secrets.clear()
    redaction._secrets.update(secrets)
    root.handlers[:] = handlers
    root.setLevel(level)
    sys.excepthook, threading.excepthook, sys.unraisablehook = hooks
    structlog.configure(**before)
    logs._frequent.output = None


def secrets_of(token: str) -> dict[str, Any]:
    """Everything that must not be seen, in every form in which it is about."""
    drawn = TileDrawn(NORTH, TILE)
    dealt = RoundDealt(1, DEAL, SALT, HASH)
    message = pb.SubmitRequest(match_id="m")
    message.command.play.tile.low, message.command.play.tile.high = 3, 5
    return {
        "a token": token,
        "a header": f"Bearer {token}",
        "metadata": (("authorization", f"Bearer {SECRET}"), ("user-agent", "x")),
        "headers": {"authorization": "Bearer abc.def", "n": [token]},
        "the internal secret": f"it is {SECRET}!",
        "the database": f"cannot reach {URL}",
        "its password": PASSWORD.replace("%20", " "),
        "a tile": TILE,
        "a tile in words": f"the tile {TILE!r} or {TILE}",
        "tiles": [TILE, TILE.text],
        "a hand": DEAL.hand(SOUTH),
        "a deal": DEAL,
        "a command": Play(NORTH, TILE, None),
        "its text": repr(Play(NORTH, TILE, None)),
        "an event": drawn,
        "a stored event": event_to_json(drawn),
        "a stored deal": json.dumps(event_to_json(dealt)),
        "events": (drawn, dealt),
        "a message": message,
        "its text as well": f"cannot read {message}",
        "its fields": "{'low': 3, 'high': 5}",
        "fields": {"low": 3, "high": 5},
        "a connection": {"user": "ann", "password": "horse", "host": "db"},
        "a connection in words": "user=ann password=horse host=db",
        "a connection as an object": repr({"user": "ann", "password": "horse power"}),
        "a salt": SALT,
        "a stored salt": SALT.hex(),
        "a key that is a tile": {TILE: 1, TILE.text: 2},
        "something that prints itself": Talkative(),
    }


class Talkative:
    def __repr__(self) -> str:
        return f"{TILE.text} {SECRET}"


def fail(error: Exception) -> NoReturn:
    raise error


LEAKS = re.compile(
    r"[0-6]\|[0-6]|low\W{1,6}3\W{1,20}n?\W*high|\.[A-Za-z0-9_-]{40}|abc\.def|horse"
    f"|{SECRET}|{SALT.hex()}|{HASH}|three-five"
)


def shown(output: StringIO, token: str) -> list[dict[str, Any]]:
    """The lines that were written, once it is sure that they give nothing away."""
    text = output.getvalue()
    output.seek(0)
    output.truncate()
    assert token not in text
    leak = LEAKS.search(text)
    assert leak is None, f"{leak[0]} in {text[max(0, leak.start() - 200) : leak.end() + 100]}"
    return [json.loads(line) for line in text.splitlines()]


def test_the_log_calls_are_found() -> None:
    assert len(log_calls()) > 50
    assert {"match_over", "call_failed", "settings", "readiness"} <= {call.event for call in log_calls()}


def test_no_log_call_shows_a_tile_or_a_token_whatever_it_is_given(output: StringIO, token: str) -> None:
    for call in log_calls():
        for what, secret in secrets_of(token).items():
            write = getattr(logs.get_logger(), call.level)
            try:
                fail(ValueError(f"{what}: {secret}"))
            except ValueError:
                write(call.event, **dict.fromkeys(call.keys, secret))
            (line,) = shown(output, token)
            assert line["event"] == call.event, call.where
            assert {"at", "level"} <= line.keys(), call.where
            if call.level == "exception":
                assert "ValueError" in line["exception"], call.where


@pytest.mark.parametrize("key", sorted(redaction.HIDDEN_KEYS))
def test_some_keys_show_nothing_at_all(output: StringIO, token: str, key: str) -> None:
    logs.get_logger().info(
        "event", **{key: 123456789}, inside={"n": [{key: 123456789}]}, beside=({key: 7}, 8)
    )
    (line,) = shown(output, token)
    assert line[key] == redaction.HIDDEN
    assert line["inside"] == {"n": [{key: redaction.HIDDEN}]}
    assert line["beside"] == [{key: redaction.HIDDEN}, 8]


def test_what_is_bound_is_looked_at_as_well(output: StringIO, token: str) -> None:
    logs.get_logger().bind(match_id="m", held=TILE, by=token).warning("event")
    (line,) = shown(output, token)
    assert line["match_id"] == "m"


def test_harmless_values_are_written_as_they_are(output: StringIO) -> None:
    values = {
        "match_id": "c1ae8cd5-2c75-49f4-830e-4c71504e98c2",
        "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
        "player_id": "guest-0123456789abcdef0123",
        "address": "10.0.0.7:7601",
        "seconds": 0.25,
        "missing": ["clock", "lease"],
        "jwks_file": "/etc/bid/jwks.json",
        "internal_secret": "**********",
        "database_url": "**********",
        "winner": NORTH,
        "nothing": None,
    }
    logs.get_logger().info("event", **values)
    line = json.loads(output.getvalue())
    assert {key: line[key] for key in values} == values


class Words:
    """What no shape gives away."""

    def __repr__(self) -> str:
        return "three-five"


def test_what_is_no_plain_value_is_named_by_its_type(output: StringIO, token: str) -> None:
    logs.get_logger().info("event", one=Words(), some=[Words(), 1], by={"name": Words()})
    (line,) = shown(output, token)
    hidden = "[Words hidden]"
    assert (line["one"], line["some"], line["by"]) == (hidden, [hidden, 1], {"name": hidden})


def test_exceptions_say_where_they_come_from_and_no_secret(output: StringIO, token: str) -> None:
    for secret in secrets_of(token).values():
        try:
            try:
                fail(KeyError(secret))
            except KeyError as first:
                raise ExceptionGroup(
                    f"{secret}", [ValueError(secret), RuntimeError(f"{secret!r}")]
                ) from first
        except ExceptionGroup:
            logs.get_logger().exception("call_failed", method="/a/B", error_id="1")
    for line in shown(output, token):
        assert "test_logs.py" in line["exception"]


def test_lines_of_libraries_are_looked_at_as_well(output: StringIO, token: str) -> None:
    for secret in secrets_of(token).values():
        try:
            fail(ValueError(secret))
        except ValueError:
            logging.getLogger("asyncpg").exception("bad: %s", secret)
    assert {line["level"] for line in shown(output, token)} == {"error"}


async def _forgotten(text: str) -> None:
    async def fail() -> None:
        raise ValueError(text)

    task = asyncio.create_task(fail())
    await asyncio.wait({task})


def test_a_task_that_nobody_asks_about_tells_no_secret(output: StringIO, token: str) -> None:
    asyncio.run(_forgotten(f"Bearer {token} holds {TILE}"))
    gc.collect()
    assert any("never retrieved" in line["event"] for line in shown(output, token))


CRASH = """
import sys, threading
from services.common import logs
from services.common.host import run_service
logs.configure("info")
def crash(): raise ValueError(sys.argv[1])
thread = threading.Thread(target=crash)
thread.start()
thread.join()
async def main(): crash()
run_service(main)
"""


def test_what_ends_a_process_is_logged_without_secrets(token: str) -> None:
    text = f"Bearer {token} holds {TILE!r}"
    ended = subprocess.run([sys.executable, "-c", CRASH, text], capture_output=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (1, b"")
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [line["event"] for line in lines] == ["crashed", "crashed"]
    for line in lines:
        assert "ValueError: Bearer [token] holds [[tile]]" in line["exception"]


GOAWAY = """
import socket, threading
import services, grpc
heard = threading.Event()
listening = socket.create_server(("127.0.0.1", 0))
def serve():
    peer, _ = listening.accept()
    settings, goaway = "000000040000000000", "000008070000000000" + "00000000" + "0000000b"
    peer.sendall(bytes.fromhex(settings + goaway))
    peer.shutdown(socket.SHUT_WR)
    while peer.recv(4096): pass
    heard.set()
threading.Thread(target=serve, daemon=True).start()
channel = grpc.insecure_channel(f"127.0.0.1:{listening.getsockname()[1]}")
channel.subscribe(lambda _: None, try_to_connect=True)
assert heard.wait(30)
"""


def test_the_core_of_grpc_writes_no_lines_of_its_own() -> None:
    """It would tell that a peer sent a connection away, for a silence for example."""
    ended = subprocess.run(
        [sys.executable, "-c", GOAWAY], capture_output=True, timeout=60, check=False, text=True
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_nobody_writes_past_the_log() -> None:
    """Command lines talk to people; what serves has one way to say something, and one word when it cannot start."""
    found = set()
    for path in sorted(SERVICES.rglob("*.py")):
        if path.parent.name in ("ops", "local"):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Import(names=names) if {alias.name for alias in names} & {"logging", "structlog"}:
                    found.add(str(path.relative_to(SERVICES)))
                case ast.ImportFrom(module=str(module)) if module.split(".")[0] in ("logging", "structlog"):
                    found.add(str(path.relative_to(SERVICES)))
    assert found == {"common/logs.py"}


def test_the_secrets_of_the_settings_are_shown_nowhere(
    output: StringIO, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {
        "DATABASE_URL": URL,
        "INTERNAL_SECRET": "another secret here",
        "JWKS_FILE": "jwks.json",
        "LISTEN": "a:1",
    }
    for name, value in values.items():
        monkeypatch.setenv(f"SPECTACULAR_BID_{name}", value)
    redaction._secrets.clear()
    load(CommonSettings)
    logs.get_logger().info("event", a="correct horse battery", b="xanother secret herex", c=f"at {PASSWORD}")
    text = output.getvalue()
    assert "horse" not in text
    assert "another secret" not in text
