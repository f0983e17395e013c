"""The flood bench leaves no public call out."""

from __future__ import annotations

import re
from pathlib import Path

from tests.bench.attacks import ASKED, Kind, attacks, public_methods

PROTOS = Path(__file__).resolve().parent.parent / "protos"
RPC = re.compile(r"^  rpc (\w+)\(", re.MULTILINE)


def test_every_public_call_is_flooded() -> None:
    """Those of every proto that is not internal, each with a message of its own, after the row that compares."""
    public = sorted(
        name
        for path in PROTOS.rglob("*_service.proto")
        if "internal" not in path.parts
        for name in RPC.findall(path.read_text("utf-8"))
    )
    assert len(public) > 15
    assert sorted(method.name for _, method in public_methods()) == public == sorted(ASKED)
    first, *rest = attacks()
    assert first.kind is Kind.SPIN
    assert {attack.method.rpartition("/")[2] for attack in rest} >= set(public)
