"""What a command says that finds nobody who carries it out."""

from __future__ import annotations

import socket

import pytest
import typer

from services.ops import leader
from spectacularbid.internal.operations.v1 import operations_service_pb2 as pb


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(leader.TOKEN_VARIABLE, "anything")
    monkeypatch.setattr(leader, "PATIENCE_SECONDS", 0.1)


def said(address: str, capsys: pytest.CaptureFixture[str]) -> str:
    """On standard error, with the status of an order that nobody has taken."""
    request = pb.SetPoolModeRequest(mode=pb.POOL_MODE_PAUSED, reason="x")
    with pytest.raises(typer.Exit) as left:
        leader.ask(address, lambda service, options: service.SetPoolMode(request, **options), seconds=0.2)
    assert left.value.exit_code == 2
    return capsys.readouterr().err


def test_an_order_that_was_not_answered_may_have_been_carried_out(capsys: pytest.CaptureFixture[str]) -> None:
    """Somebody listens and is silent. Where nobody listens, nothing can have happened."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert "whether it was carried out is not known" in said(address, capsys)
    heard = said(address, capsys)
    assert "nobody leads, or nobody answers" in heard
    assert "carried out" not in heard
