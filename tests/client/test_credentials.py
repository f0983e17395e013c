"""TLS of the command line: whether, and whom to trust."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from typer.testing import CliRunner

from client.__main__ import app
from client.bots.__main__ import app as bots
from client.credentials import CA_VARIABLE, TLS_VARIABLE, CredentialsError, from_environment
from spectacularbid.rules.v1 import rules_service_pb2 as pb
from spectacularbid.rules.v1.rules_service_pb2_grpc import add_RulesServiceServicer_to_server
from tests.authority import Authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Nothing is left of what a command has put into the environment."""
    for variable in (TLS_VARIABLE, CA_VARIABLE, "SPECTACULAR_BID_SERVER"):
        monkeypatch.setenv(variable, "")
    return monkeypatch


@pytest.mark.parametrize(
    ("said", "tls"),
    [
        ({}, False),
        ({TLS_VARIABLE: "0"}, False),
        ({TLS_VARIABLE: "1"}, True),
        ({CA_VARIABLE: "authority.pem"}, True),
        ({TLS_VARIABLE: "1", CA_VARIABLE: "authority.pem"}, True),
    ],
)
def test_the_environment_says_whether_and_whom_to_trust(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, said: dict[str, str], tls: bool
) -> None:
    monkeypatch.chdir(authority.folder)
    assert (from_environment(said) is not None) is tls


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ({TLS_VARIABLE: "yes"}, "SPECTACULAR_BID_TLS is neither 0 nor 1"),
        (
            {TLS_VARIABLE: "0", CA_VARIABLE: "x"},
            "SPECTACULAR_BID_CA says whom to trust, and SPECTACULAR_BID_TLS that",
        ),
        ({CA_VARIABLE: "nowhere.pem"}, "SPECTACULAR_BID_CA: nowhere.pem: No such file"),
    ],
)
def test_what_makes_no_sense_is_said_in_one_line(
    environment: pytest.MonkeyPatch, said: dict[str, str], fault: str
) -> None:
    with pytest.raises(CredentialsError, match=re.escape(fault)):
        from_environment(said)
    for command, words in ((app, ["ladder"]), (bots, ["match", "--state", "none"])):
        done = CliRunner().invoke(command, words, env=said)
        assert (done.exit_code, done.output.startswith(f"error: {fault}")) == (1, True), done.output


class Rules:
    """Knows nothing that the caller has not."""

    def __init__(self) -> None:
        self.calls = 0

    def GetRules(self, request: pb.GetRulesRequest, _context: Any) -> pb.GetRulesResponse:
        self.calls += 1
        return pb.GetRulesResponse()


def test_a_command_speaks_tls_and_trusts_whom_it_is_told_to(
    authority: Authority, environment: pytest.MonkeyPatch
) -> None:
    """By options before the command, as by the environment; whom it does not trust is told nothing."""
    cert, key = authority.sign("127.0.0.1")
    rules = Rules()
    server = grpc.server(ThreadPoolExecutor(1))
    add: Any = add_RulesServiceServicer_to_server
    add(rules, server)
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, cert)]))
    server.start()
    try:
        command = ["rules", "--plain", "3.5", "--server", f"127.0.0.1:{port}"]
        trusted = CliRunner().invoke(app, ["--tls", "--ca", str(authority.file), *command])
        assert "no service answers there" not in trusted.output
        assert rules.calls == 1
        stranger = CliRunner().invoke(app, command, env={TLS_VARIABLE: "1", CA_VARIABLE: ""})
        assert "no service answers there" in stranger.output
        assert rules.calls == 1
    finally:
        server.stop(None).wait()
