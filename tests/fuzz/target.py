"""What is fuzzed: a function that takes any bytes and raises only where something is wrong."""

from __future__ import annotations

import atexit
import random
import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

Mutate = Callable[[bytes, random.Random], bytes]
"""Other bytes of the same format, most of them: what a parser refuses at once teaches little."""


@cache
def scratch() -> Path:
    """A folder for what a parser wants as a file; gone with the process."""
    folder = Path(tempfile.mkdtemp(prefix="spectacular-bid-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@dataclass(frozen=True, slots=True)
class Target:
    """One parser, or a few that belong together."""

    name: str
    """Of its folder in the corpus, too."""
    run: Callable[[bytes], None]
    """Raises nothing that its parsers document, and everything else: each exception is a finding."""
    mutate: Mutate
    seeds: Callable[[], Iterable[bytes]]
    """Where to begin. `python -m tests.fuzz seeds` writes them into the corpus."""
    covers: tuple[str, ...]
    """The modules whose functions it is there to reach."""
    size_max: int = 4096
    """Bytes; longer ones are not tried."""
    weight: int = 1
    """Its share of the time."""
