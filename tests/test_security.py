"""Every threat, limit and finding of docs/security.md names tests that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "security.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
ROW = re.compile(r"^\|(.+)\|$")


def rows() -> list[tuple[str, list[str]]]:
    """Every row of a table whose last column is Tests: under which heading it stands, and its cells."""
    found, heading, inside = [], "", False
    for line in PAGE.read_text("utf-8").splitlines():
        if line.startswith("#"):
            heading, inside = line.lstrip("# "), False
        match = ROW.match(line)
        if match is None:
            inside = inside and bool(line.strip())
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", match[1])]
        if cells[-1] == "Tests":
            inside = True
        elif inside and not set(line) <= set("|-: "):
            found.append((heading, cells))
    return found


@cache
def named_tests(path: str) -> frozenset[str]:
    """Names of the test functions and methods of a file; state machines of hypothesis are `TestCase` attributes."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    functions = {
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assigned = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return frozenset(name for name in functions | assigned if name.lower().startswith("test"))


@pytest.mark.parametrize(("heading", "cells"), rows(), ids=lambda value: str(value)[:60])
def test_a_row_names_tests_that_exist(heading: str, cells: list[str]) -> None:
    assert all(cells), f"an empty cell under {heading}"
    named = NAMED.findall(cells[-1])
    assert named, f"no test is named under {heading}: {cells[0]}"
    for path, name in named:
        assert (ROOT / path).is_file(), path
        assert name in named_tests(path), f"{path} has no {name}"
