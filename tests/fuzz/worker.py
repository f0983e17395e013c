"""One process that fuzzes one target until its time is over: coverage-guided where atheris is installed.

libFuzzer ends the process by itself, so what was found is written down at once: the input and its traceback into a
folder, and one line to standard output.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.util
import json
import random
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.fuzz.target import Target

ROOT: Final = Path(__file__).parents[2]
CORPUS: Final = Path(__file__).with_name("corpus")
"""What is in the repository."""
GROWN: Final = ROOT / "build" / "fuzz" / "corpus"
"""What runs have added."""
FINDINGS: Final = ROOT / "build" / "fuzz" / "findings"
INSTRUMENTED: Final = ("engine", "services", "client", "jwt", "precis_i18n")
SLOW_SECONDS: Final = 5.0
"""Processor time; an input that takes longer is a finding. Instrumented code takes some three times as long as else."""


def guided() -> bool:
    """Whether the fuzzer that follows coverage is installed."""
    return importlib.util.find_spec("atheris") is not None


class Findings:
    """Kept once for each place at which something was raised."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._seen: set[str] = set()

    def run(self, data: bytes) -> None:
        """Run the target with these bytes, and keep them when they find something."""
        began = time.process_time()
        try:
            self._target.run(data)
        except Exception as error:  # noqa: BLE001  whatever it is, it is a finding
            self._keep(data, error)
        else:
            if time.process_time() - began > SLOW_SECONDS:
                self._keep(data, TimeoutError(f"{time.process_time() - began:.1f} s of processor time"))

    def _keep(self, data: bytes, error: Exception) -> None:
        where = place(error)
        if where in self._seen:
            return
        self._seen.add(where)
        name = f"{self._target.name}-{hashlib.sha256(where.encode()).hexdigest()[:8]}"
        FINDINGS.mkdir(parents=True, exist_ok=True)
        (FINDINGS / name).write_bytes(data)
        text = "".join(traceback.format_exception(error))
        (FINDINGS / f"{name}.txt").write_text(text, "utf-8", "backslashreplace")
        told = {"file": str((FINDINGS / name).relative_to(ROOT)), "where": where, "what": str(error)[:300]}
        print("FINDING " + json.dumps(told), flush=True)


def place(error: Exception) -> str:
    """What was raised where: two inputs with the same place are one finding."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_relative_to(ROOT) and ".venv" not in frame.filename
    ]
    ours = [frame for frame in frames if not Path(frame.filename).is_relative_to(Path(__file__).parent)]
    last = (ours or frames)[-1:]
    where = " ".join(f"{Path(frame.filename).relative_to(ROOT)}:{frame.lineno}" for frame in last)
    if isinstance(error, AssertionError) and frames:
        # Several are said of what one function returned.
        where += f" {Path(frames[-1].filename).name}:{frames[-1].lineno}"
    return f"{type(error).__name__} {where}"


def load(name: str) -> Target:
    """A target by its name."""
    from tests.fuzz.targets import TARGETS

    return TARGETS[name]


def _guided(name: str, seconds: int, seed: int) -> None:
    import atheris

    with atheris.instrument_imports(include=list(INSTRUMENTED)):
        target = load(name)
    findings = Findings(target)

    def mutate(data: bytes, size_max: int, seed: int) -> bytes:
        rng = random.Random(seed)
        # libFuzzer's own mutations know the dictionary and what was compared with what.
        if rng.random() < 0.2:
            return bytes(atheris.Mutate(data, size_max))
        return target.mutate(data, rng)[:size_max]

    grown = GROWN / name
    grown.mkdir(parents=True, exist_ok=True)
    FINDINGS.mkdir(parents=True, exist_ok=True)
    arguments = [
        sys.argv[0],
        str(grown),
        str(CORPUS / name),
        f"-max_total_time={seconds}",
        f"-seed={seed}",
        f"-max_len={target.size_max}",
        f"-dict={Path(__file__).with_name('words.dict')}",
        f"-artifact_prefix={FINDINGS}/{name}-",
        "-timeout=30",
        "-rss_limit_mb=2048",
        "-print_final_stats=1",
        "-verbosity=1",
    ]
    atheris.Setup(arguments, findings.run, custom_mutator=mutate)
    atheris.Fuzz()


def _blind(name: str, seconds: int, seed: int) -> None:
    """The same mutations without a guide, where there is no fuzzer for this Python or this machine."""
    target = load(name)
    findings, rng = Findings(target), random.Random(seed)
    inputs = [file.read_bytes() for file in sorted((CORPUS / name).iterdir())]
    executed, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        data = rng.choice(inputs)
        for _ in range(rng.choice((1, 1, 2, 4))):
            data = target.mutate(data, rng)[: target.size_max]
        findings.run(data)
        executed += 1
    print(f"stat::number_of_executed_units: {executed}", flush=True)


def main() -> None:
    """Fuzz one target."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("target")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    run: Callable[[str, int, int], None] = _guided if guided() else _blind
    with contextlib.suppress(KeyboardInterrupt):
        run(asked.target, max(1, asked.seconds), asked.seed)


if __name__ == "__main__":
    main()
