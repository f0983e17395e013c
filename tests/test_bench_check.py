"""Whether something became slower is decided by ratios and their tolerances, in the direction that is worse."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.bench import __main__ as bench
from tests.bench.check import KEPT, PARTS, TOLERANCE, Kept, compare, read_kept, updated
from tests.bench.report import ROOT, Report, markdown


@pytest.mark.parametrize(
    ("kept", "found", "failed"),
    [
        (Kept(0.5, "higher", 0.2), 0.41, False),
        (Kept(0.5, "higher", 0.2), 0.39, True),
        (Kept(0.5, "higher", 0.2), 5.0, False),
        (Kept(2.0, "lower", 0.1), 2.19, False),
        (Kept(2.0, "lower", 0.1), 2.21, True),
        (Kept(2.0, "lower", 0.1), 0.1, False),
    ],
)
def test_what_is_worse_beyond_the_tolerance_fails(kept: Kept, found: float, failed: bool) -> None:
    (compared,) = compare({"path: x": kept}, {"path: x": found})
    assert compared.failed is failed
    assert (compared.verdict == "worse") is failed


def test_what_was_to_be_measured_and_is_not_there_fails_and_what_is_new_does_not() -> None:
    missing, new = compare({"path: old": Kept(1.0, "higher")}, {"path: young": 1.0})
    assert (missing.failed, missing.verdict) == (True, "not measured")
    assert (new.failed, new.verdict) == (False, "new")


def test_an_update_keeps_tolerances_and_what_was_not_measured() -> None:
    kept = {"clock: z": Kept(3.0, "lower", 0.4), "path: x": Kept(0.5, "higher", 0.1)}
    found = {
        "path: x": {"value": 0.612345, "better": "higher"},
        "engine: y": {"value": 7.0, "better": "lower"},
    }
    assert updated(kept, found) == {
        "clock: z": Kept(3.0, "lower", 0.4),
        "engine: y": Kept(7.0, "lower", TOLERANCE),
        "path: x": Kept(0.6123, "higher", 0.1),
    }


def test_kept_ratios_are_read_as_they_were_written(tmp_path: Path) -> None:
    kept = {"path: x": Kept(0.5, "higher", 0.1)}
    file = tmp_path / "ratios.json"
    assert read_kept(file) == {}
    file.write_text(json.dumps({name: asdict(one) for name, one in kept.items()}), "utf-8")
    assert read_kept(file) == kept


def test_each_ratio_that_is_kept_belongs_to_a_part_that_is_run() -> None:
    assert {name.partition(":")[0] for name in read_kept(KEPT)} <= set(PARTS)


def test_a_report_keeps_tables_and_ratios_with_machine_versions_and_noise(tmp_path: Path) -> None:
    report = Report("part", folder=tmp_path)
    report.table("Some", ("matches", "moves/s"), [(100, 2345.6), (500, None)])
    report.ratio("ours over theirs", 0.5, better="higher")
    with pytest.raises(ValueError, match="columns"):
        report.table("Some", ("matches",), [(100, 2345.6)])
    found = json.loads(report.finish().read_text("utf-8"))
    assert "Some\n\n| matches | moves/s |\n|---|---|\n| 100 | 2,346 |\n| 500 |  |" in markdown(found)
    assert found["tables"] == [
        {"name": "Some", "columns": ["matches", "moves/s"], "rows": [[100, 2345.6], [500, None]]}
    ]
    assert found["ratios"] == {"part: ours over theirs": {"value": 0.5, "better": "higher"}}
    assert found["machine"]["cores"] >= 1
    assert set(found["versions"]) >= {"python", "grpcio", "protobuf", "asyncpg", "postgres", "revision"}
    assert found["noise"]["wall_spread_percent"] >= 0


def test_each_part_that_reports_is_run_by_make_bench() -> None:
    files = Path(bench.__file__).parent.glob("*.py")
    reported = {file.stem for file in files if f'Report("{file.stem}")' in file.read_text("utf-8")}
    assert reported <= set(bench.PARTS)
    assert {part for part in bench.PARTS if find_spec(f"tests.bench.{part}") is None} == set()


def test_the_parts_in_the_docs_are_those_of_make_bench() -> None:
    page = (ROOT / "docs" / "performance.md").read_text("utf-8")
    table = page.split("| part | what |")[1].split("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(bench.PARTS)
