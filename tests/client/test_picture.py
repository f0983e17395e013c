"""SVG pictures of the positions of a record."""

from __future__ import annotations

import random
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner

from client.picture import draw
from client.picture.__main__ import app
from client.positions import read
from engine.record import record_lines
from engine.seats import NORTH, SOUTH
from tests.engine.randomplay import whole_match

if TYPE_CHECKING:
    from client.positions import Study

SVG = "{http://www.w3.org/2000/svg}"
_NAMES = {"north": "Basil <&> \u0001", "south": "W" * 40}


@lru_cache
def recorded() -> str:
    """A timed match with auctions, draws and long layouts."""
    first, _, events = whole_match(random.Random(5), waits_ns_max=12 * 10**9)
    return "".join(f"{line}\n" for line in record_lines(first, events, {"names": _NAMES, "rated": True}))


@lru_cache
def study() -> Study:
    """The match, read."""
    return read(recorded().encode())


def titles(svg: str) -> list[str]:
    """What is read aloud of the parts of a picture."""
    root = ET.fromstring(svg)  # noqa: S314  our own
    return [each.text or "" for group in root.iter(f"{SVG}g") for each in group.iter(f"{SVG}title")]


def words(svg: str) -> list[tuple[str, float]]:
    """The visible texts with their sizes."""
    root = ET.fromstring(svg)  # noqa: S314  our own
    return [(each.text or "", float(each.attrib["font-size"])) for each in root.iter(f"{SVG}text")]


def test_every_position_shows_its_ends_balances_hands_and_clocks() -> None:
    """Each open end has a label with what it counts, and together they are the total that is written."""
    for position in study().positions:
        table = position.table
        svg = draw(study(), position)
        seen, told = titles(svg), [text for text, _ in words(svg)]
        for end in table.ends:
            assert any(f"{end.end}: takes a {end.value}, counts {end.counts}" in title for title in seen)
        for placed in table.placements:
            assert any(f"[{placed.tile}], tile" in title for title in seen)
        if table.placements:
            assert f"the ends count {sum(end.counts for end in table.ends)}" in told
            assert told.count(f"the ends count {table.count}") == 1
        for seat in (NORTH, SOUTH):
            assert f"{table.balances[seat]} points" in told
            assert any(f"{table.balances[seat] // 5} chip" in title for title in seen)
            assert all(f"[{tile}]" in seen for tile in position.hands[seat])
        assert sum(text.startswith("bank ") for text in told) == 2
        if table.last_transfer is not None:
            assert any(text.startswith(f"{table.last_transfer.moved} points") for text in told)
        if table.bidder is not None:
            assert any(f"bids {table.standing_bid} for the opening" in text for text in told)
        # Nothing runs over the edge, however wide the letters.
        assert all(len(text) * size * 0.62 < 940 for text, size in words(svg)), told


@pytest.mark.parametrize(
    ("shown", "hidden"), [((NORTH,), (SOUTH,)), ((SOUTH,), (NORTH,)), ((), (NORTH, SOUTH))]
)
def test_a_hand_that_is_not_shown_is_nowhere_in_the_picture(
    shown: tuple[str, ...], hidden: tuple[str, ...]
) -> None:
    """Not as pips, not in a title, not in the description, and a drawn tile is not named."""
    for position in study().positions:
        svg = draw(study(), position, [seat for seat in (NORTH, SOUTH) if seat in shown])
        assert svg.count('class="back"') == sum(
            len(position.hands[seat]) for seat in (NORTH, SOUTH) if seat in hidden
        )
        lying = {placed.tile for placed in position.table.placements}
        for seat in (NORTH, SOUTH):
            if seat in hidden:
                found = [tile for tile in position.hands[seat] if tile not in lying and f"[{tile}]" in svg]
                assert found == []


def run(*arguments: str, given: bytes = b"") -> tuple[int, str, str]:
    """The command: status, output, errors."""
    result = CliRunner().invoke(app, list(arguments), input=given)
    return result.exit_code, result.stdout, result.stderr


def test_the_command_draws_a_line_of_a_file(tmp_path: Path) -> None:
    """By default the last position, with both hands; into a file or to standard output."""
    file = tmp_path / "match.jsonl"
    file.write_text(recorded(), "utf-8")
    status, svg, _ = run(str(file), "--at", "30", "--seat", "public")
    at_30 = next(position for position in study().positions if position.line == 30)
    assert (status, svg) == (0, draw(study(), at_30, ()))
    out = tmp_path / "last.svg"
    assert run("-", "--out", str(out), given=recorded().encode()) == (0, "", "")
    assert out.read_text("utf-8") == draw(study(), study().positions[-1])


def test_the_picture_in_the_docs_is_drawn_from_the_record_beside_it() -> None:
    """And that record is sound."""
    docs = Path(__file__).resolve().parents[2] / "docs"
    example = docs / "example.jsonl"
    status, svg, warnings = run(str(example), "--at", "110")
    assert (status, warnings) == (0, "")
    assert svg == (docs / "position.svg").read_text("utf-8")


def test_what_cannot_be_drawn_is_said_in_one_line(tmp_path: Path) -> None:
    """No file, no record, no such line, damage at or before the line; damage further on is a warning."""
    lines = recorded().splitlines()
    broken = "\n".join([*lines[:40], '{"type":"command"', *lines[41:]]).encode()
    assert run(str(tmp_path / "none"))[0] == 2
    assert run("-", given=b"hello") == (
        2,
        "",
        "error: no match record: line 1: not JSON: Expecting value at column 1\n",
    )
    status, _, error = run("-", "--at", "9999", given=recorded().encode())
    assert (status, error) == (1, f"error: there is no line 9999: the record has lines 1 to {len(lines)}\n")
    for at in ((), ("--at", "41"), ("--at", "50")):
        status, svg, error = run("-", *at, given=broken)
        assert (status, svg) == (2, "")
        assert error.startswith("error: the record is damaged: line 41: not JSON")
    status, svg, error = run("-", "--at", "40", given=broken)
    assert (status, svg[:4]) == (0, "<svg")
    assert error.startswith("warning: line 41: not JSON")
