"""Tables of the operator's commands fit the terminal that they are shown in."""

from __future__ import annotations

import io

from rich.console import Console

from services.ops.tables import table

MATCH = "c2e51fdf-b181-48df-8947-e3904a48e0a6"
OTHER = "7aba6119-9bc3-406e-817f-a48db9ddc40c"


def shown(width: int) -> list[str]:
    """Two rows of ids, times and words, one of which has nothing to say in a column."""
    made = table("match", "ended", "incident", "reason")
    made.add_row(MATCH, "2026-11-30 12:15:42", OTHER, "switch 3 was down, and it took a while to find out")
    made.add_row(OTHER, "2026-11-30 12:15:43", "", "looked at")
    out = io.StringIO()
    Console(file=out, width=width).print(made)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_a_wide_terminal_shows_a_table() -> None:
    header, first, second = shown(200)
    assert header.split() == ["match", "ended", "incident", "reason"]
    assert first.startswith(f"{MATCH}  2026-11-30 12:15:42  {OTHER}  switch 3")
    assert second.startswith(f"{OTHER}  2026-11-30 12:15:43")


def test_reasons_are_broken_between_words_before_anything_else() -> None:
    lines = shown(120)
    assert lines[0].split() == ["match", "ended", "incident", "reason"]
    assert len(lines) > 3
    assert f"{MATCH}  2026-11-30 12:15:42  {OTHER}  switch 3" in lines[1]


def test_a_narrow_terminal_shows_a_paragraph_a_row_with_ids_in_one_piece() -> None:
    assert shown(80) == [
        f"match {MATCH}  ended 2026-11-30 12:15:42",
        f"  incident {OTHER}",
        "  reason switch 3 was down, and it took a while to find out",
        f"match {OTHER}  ended 2026-11-30 12:15:43",
        "  reason looked at",
    ]
