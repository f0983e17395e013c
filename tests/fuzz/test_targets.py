"""The fuzz targets look at everything there is, and see what is wrong."""

from __future__ import annotations

import importlib
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from services.common.errors import ServiceError
from tests.fuzz import plain, worker
from tests.fuzz.lines import lines_of, reached
from tests.fuzz.readers import OPERATIONS, PUBLIC, STREAMS
from tests.fuzz.targets import TARGETS
from tests.fuzz.worker import CORPUS, ROOT, Findings

GENERATED = ROOT / "build" / "protos"


def requests() -> Iterator[tuple[str, str]]:
    """Every rpc that is served, and the full name of what it is sent."""
    for path in sorted(GENERATED.glob("spectacularbid/**/*_service_pb2.py")):
        module = ".".join(path.relative_to(GENERATED).with_suffix("").parts)
        for service in importlib.import_module(module).DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                yield f"{service.full_name}.{method.name}", method.input_type.full_name


def test_the_requests_of_every_rpc_are_read_by_a_target() -> None:
    read = {kind.DESCRIPTOR.full_name for readers in (PUBLIC, OPERATIONS, STREAMS) for kind in readers}
    served = dict(requests())
    assert len(served) > 30
    assert {rpc: kind for rpc, kind in served.items() if kind not in read} == {}


@pytest.mark.parametrize("name", TARGETS)
def test_a_mutation_is_decided_by_its_seed_and_is_another_input(name: str) -> None:
    target = TARGETS[name]
    made = set()
    for file in sorted((CORPUS / name).iterdir())[:5]:
        data = file.read_bytes()
        for seed in range(10):
            once, again = (target.mutate(data, random.Random(seed)) for _ in range(2))
            assert once == again
            made.add(once)
    assert len(made) > 10


def test_the_tokens_to_begin_with_are_good_ones() -> None:
    """Or only the refusal of tokens would be looked at."""
    good = 0
    for data in plain.token_seeds():
        try:
            plain._verifier().verify(plain.token_of(data))
        except ServiceError:
            continue
        good += 1
    assert good >= 3


def test_a_finding_is_kept_once_with_its_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(data: bytes) -> None:
        if data:
            int(data)

    monkeypatch.setattr(worker, "FINDINGS", tmp_path)
    monkeypatch.setattr(worker, "ROOT", tmp_path.parent)
    findings = Findings(replace(TARGETS["name"], run=run))
    for data in (b"", b"1", b"x", b"y"):
        findings.run(data)
    kept, text = sorted(tmp_path.iterdir())
    assert kept.read_bytes() == b"x"
    assert "invalid literal" in text.read_text("utf-8")
    assert capsys.readouterr().out.count("FINDING") == 1


def test_lines_are_counted_that_an_input_reaches() -> None:
    target = TARGETS["event"]
    seen, there = reached(target, [])
    assert (seen, there) == (0, len(lines_of(target.covers)))
    seen, _ = reached(target, [file.read_bytes() for file in (CORPUS / "event").iterdir()])
    assert seen > there // 2
