"""How much of the parsers the corpus reaches: lines inside the functions of a target's modules that were executed.

Standard library only: a trace function that leaves every frame alone that is of no interest.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import sys
from collections.abc import Iterable, Iterator
from types import CodeType, FrameType
from typing import Any, Final

from tests.fuzz.target import Target
from tests.fuzz.worker import CORPUS, GROWN, load

_COROUTINE: Final = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR

Line = tuple[str, int]
"""File and number."""


def functions(module: str) -> Iterator[CodeType]:
    """The code of every function of a module that may read something, inner ones too. Not what runs at import, nor
    coroutines, nor what writes messages."""
    path = inspect.getsourcefile(importlib.import_module(module))
    assert path is not None
    with open(path, encoding="utf-8") as file:
        yield from _inside(compile(file.read(), path, "exec"))


def _inside(code: CodeType) -> Iterator[CodeType]:
    at_import = not code.co_flags & inspect.CO_OPTIMIZED
    for inner in code.co_consts:
        if not isinstance(inner, CodeType) or inner.co_flags & _COROUTINE or inner.co_name.endswith("_to_pb"):
            continue
        if inner.co_flags & inspect.CO_OPTIMIZED and not (at_import and inner.co_name.startswith("<")):
            yield inner
        yield from _inside(inner)


def lines_of(modules: Iterable[str]) -> set[Line]:
    """The lines that could be executed."""
    return {
        (code.co_filename, line)
        for module in modules
        for code in functions(module)
        # The first is the `def`.
        for _, _, line in code.co_lines()
        if line is not None and line != code.co_firstlineno
    }


def reached(target: Target, inputs: Iterable[bytes]) -> tuple[int, int]:
    """How many of the lines the inputs execute, and how many there are."""
    wanted = lines_of(target.covers)
    seen: set[Line] = set()
    for data in inputs:
        seen |= _executed(target, data, wanted)
    return len(seen), len(wanted)


def newcomers(target: Target, known: Iterable[bytes], others: Iterable[bytes]) -> Iterator[bytes]:
    """Those of the others that execute lines which nothing before them does, smallest first."""
    wanted = lines_of(target.covers)
    seen: set[Line] = set()
    for data in known:
        seen |= _executed(target, data, wanted)
    for data in sorted(others, key=len):
        executed = _executed(target, data, wanted)
        if not executed <= seen:
            seen |= executed
            yield data


def _executed(target: Target, data: bytes, wanted: set[Line]) -> set[Line]:
    files = {file for file, _ in wanted}
    seen: set[Line] = set()

    def local(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            seen.add((frame.f_code.co_filename, frame.f_lineno))
        return local

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        return local if frame.f_code.co_filename in files else None

    sys.settrace(trace)
    # What raises here has been reported by the run itself.
    with contextlib.suppress(Exception):
        target.run(data)
    sys.settrace(None)
    return seen & wanted


def inputs_of(name: str, *, grown: bool) -> Iterator[bytes]:
    """The corpus of a target, with what runs have added or without."""
    for folder in (CORPUS / name, *([GROWN / name] if grown else [])):
        if folder.is_dir():
            yield from (file.read_bytes() for file in sorted(folder.iterdir()))


def main() -> None:
    """For each target that is named: one line of JSON, name and the two numbers."""
    for name in sys.argv[1:]:
        print(json.dumps([name, *reached(load(name), inputs_of(name, grown=True))]), flush=True)


if __name__ == "__main__":
    main()
