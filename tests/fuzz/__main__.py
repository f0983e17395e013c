"""`make fuzz`: every target for its share of the time, two at once, then the API; a table; status 1 on any finding."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import importlib.util
import json
import os
import re
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.fuzz.worker import CORPUS, GROWN, ROOT, guided, load

AT_ONCE: Final = 2
API_SHARE: Final = 0.2
"""Of all the time there is: two slots for so many minutes."""
START_SECONDS: Final = 4
"""What a process takes before it begins; off its share."""
LOGS: Final = ROOT / "build" / "fuzz" / "logs"


@dataclass(slots=True)
class Result:
    """What became of a target."""

    name: str
    executions: int = 0
    edges: int = 0
    inputs: int = 0
    lines: str = ""
    findings: list[dict[str, str]] = field(default_factory=list)


async def _process(*arguments: str, log: Path) -> tuple[int, str]:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, cwd=ROOT, stdout=out, stderr=asyncio.subprocess.STDOUT
        )
        try:
            status = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    return status, _said(log)


def _said(log: Path) -> str:
    return log.read_text("utf-8", "replace")


async def fuzz(name: str, seconds: float, seed: int) -> Result:
    """One target in a process of its own."""
    arguments = ("-m", "tests.fuzz.worker", name, "--seconds", str(int(seconds)), "--seed", str(seed))
    status, said = await _process(*arguments, log=LOGS / f"{name}.log")
    result = Result(name)
    result.findings = [json.loads(line) for line in re.findall(r"^FINDING (.*)$", said, re.MULTILINE)]
    if executed := re.search(r"stat::number_of_executed_units: (\d+)", said):
        result.executions = int(executed[1])
    if edges := re.findall(r"cov: (\d+) .*corp: (\d+)/", said):
        result.edges, result.inputs = map(int, edges[-1])
    if status != 0 or not executed:
        # A hang, too much memory, or the process itself broke.
        result.findings.append(
            {"where": f"status {status}", "what": said.strip()[-300:], "file": f"{LOGS / name}.log"}
        )
    return result


async def fuzz_api(seconds: float, seed: int) -> Result:
    """The stateful fuzzer of the whole API on a real stack."""
    arguments = ("-m", "tests.fuzz", "api", "--seconds", str(int(seconds)), "--seed", str(seed))
    status, said = await _process(*arguments, log=LOGS / "api.log")
    result = Result("api")
    summary = re.search(r"^SUMMARY (.*)$", said, re.MULTILINE)
    if summary is None or status not in (0, 1):
        result.findings.append(
            {"where": f"status {status}", "what": said.strip()[-300:], "file": str(LOGS / "api.log")}
        )
        return result
    found: dict[str, Any] = json.loads(summary[1])
    result.executions = int(found.get("calls", 0))
    result.findings = [{"where": "api", "what": str(each), "file": ""} for each in found.get("findings", ())]
    return result


async def all_of(names: list[str], seconds: float, seed: int, *, with_api: bool) -> list[Result]:
    """Everything, each for its share, longest first."""
    slots = asyncio.Semaphore(AT_ONCE)
    total = AT_ONCE * seconds
    api = total * API_SHARE if with_api else 0.0
    weights = {name: load(name).weight for name in names}
    each = (total - api) / max(1, sum(weights.values()))

    async def in_turn(work: Any) -> Result:
        async with slots:
            result: Result = await work
            print(
                f"  {result.name}: {result.executions} executions, {len(result.findings)} findings",
                flush=True,
            )
            return result

    works = [fuzz_api(api, seed)] if with_api else []
    works += [
        fuzz(name, max(1.0, each * weights[name] - START_SECONDS), seed)
        for name in sorted(names, key=lambda name: -weights[name])
    ]
    return list(await asyncio.gather(*map(in_turn, works)))


async def measure(results: list[Result]) -> None:
    """Puts in how many lines of the parsers the corpora reach."""
    names = [result.name for result in results if result.name != "api"]
    halves = [part for part in (names[::2], names[1::2]) if part]
    said = await asyncio.gather(
        *(
            _process("-m", "tests.fuzz.lines", *part, log=LOGS / f"lines-{n}.log")
            for n, part in enumerate(halves)
        )
    )
    found = {}
    for _, text in said:
        for line in re.findall(r"^\[.*\]$", text, re.MULTILINE):
            name, reached, there = json.loads(line)
            found[name] = f"{100 * reached // max(1, there)} % of {there}"
    for result in results:
        result.lines = found.get(result.name, "")


def table(results: list[Result]) -> str:
    """For people."""
    rows = [("target", "executions", "edges", "inputs", "lines of its modules", "findings")]
    rows += [
        (r.name, f"{r.executions}", f"{r.edges or ''}", f"{r.inputs or ''}", r.lines, f"{len(r.findings)}")
        for r in results
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


def run(asked: argparse.Namespace) -> int:
    """Fuzz for some minutes."""
    if not guided():
        print("atheris has no wheel for this Python: the same mutations without coverage to guide them")
    from tests.fuzz.targets import TARGETS

    names = asked.target or list(TARGETS)
    with_api = not asked.target and importlib.util.find_spec("tests.fuzz.api") is not None
    began = time.monotonic()
    results = asyncio.run(all_of(names, asked.minutes * 60, asked.seed, with_api=with_api))
    asyncio.run(measure(results))
    print(table(results))
    findings = [(result.name, each) for result in results for each in result.findings]
    for name, each in findings:
        print(f"\n{name}: {each['where']}\n  {each['what']}\n  {each['file']}")
    print(f"{len(findings)} findings in {time.monotonic() - began:.0f} s (seed {asked.seed})")
    return 1 if findings else 0


def api(asked: argparse.Namespace) -> int:
    """The stateful fuzzer alone."""
    from tests.fuzz.api import main as fuzz_it

    summary = asyncio.run(fuzz_it(asked.seconds, asked.seed))
    print(summary.text())
    print("SUMMARY " + json.dumps({"calls": summary.calls, "findings": summary.findings}), flush=True)
    return 1 if summary.findings else 0


def replay(asked: argparse.Namespace) -> int:
    """Run one input again; the traceback is the answer."""
    file = Path(asked.file).resolve()
    name = asked.as_target or (
        file.parent.name if file.parent.parent in (CORPUS, GROWN) else file.name.partition("-")[0]
    )
    load(name).run(file.read_bytes())
    print(f"{name}: nothing found")
    return 0


def seeds(asked: argparse.Namespace) -> int:
    """Write the inputs to begin with into the corpus."""
    from tests.fuzz.targets import TARGETS

    for name in asked.target or TARGETS:
        folder = CORPUS / name
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("seed-*"):
            old.unlink()
        for number, data in enumerate(TARGETS[name].seeds()):
            (folder / f"seed-{number:03}").write_bytes(data)
    return 0


def keep(asked: argparse.Namespace) -> int:
    """Take into the repository what runs have found to reach lines that nothing there does."""
    from tests.fuzz.lines import newcomers

    for name in asked.target or sorted(folder.name for folder in GROWN.iterdir()):
        known = [file.read_bytes() for file in (CORPUS / name).iterdir()]
        grown = [file.read_bytes() for file in (GROWN / name).iterdir()]
        for data in newcomers(load(name), known, grown):
            (CORPUS / name / f"grown-{hashlib.sha256(data).hexdigest()[:12]}").write_bytes(data)
    return 0


def main() -> int:
    """Fuzz every parser and the API, or run one input again."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=main.__doc__)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("run", help=run.__doc__)
    command.add_argument("--minutes", type=float, default=10.0)
    command.add_argument("--seed", type=int, default=int(time.time()) % 10**6)
    command.add_argument("--target", action="append", help="only this one; may be repeated")
    command.set_defaults(carry_out=run)
    command = commands.add_parser("api", help=api.__doc__)
    command.add_argument("--seconds", type=float, default=60.0)
    command.add_argument("--seed", type=int, default=1)
    command.set_defaults(carry_out=api)
    command = commands.add_parser("replay", help=replay.__doc__)
    command.add_argument("file")
    command.add_argument("--as-target", help="when neither its folder nor its name says whose it is")
    command.set_defaults(carry_out=replay)
    command = commands.add_parser("seeds", help=seeds.__doc__)
    command.add_argument("--target", action="append")
    command.set_defaults(carry_out=seeds)
    command = commands.add_parser("keep", help=keep.__doc__)
    command.add_argument("--target", action="append")
    command.set_defaults(carry_out=keep)
    asked = parser.parse_args()
    return int(asked.carry_out(asked))


if __name__ == "__main__":
    os.chdir(ROOT)
    with contextlib.suppress(KeyboardInterrupt):
        raise SystemExit(main())
