"""The rules on a terminal: of any width, in any of the scripts, from the service or from this program itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from typer.testing import CliRunner

from client.__main__ import app
from client.rules import ask, own
from client.rulescommand import language_of
from client.rulespage import cells, page, wrapped
from client.terminal.board import WIDTH_MIN
from client.terminal.rulesscreen import KEYS
from engine.rules.book import LANGUAGES, Remark, load
from services.wire.rules import answer_to_pb
from spectacularbid.rules.v1 import rules_service_pb2 as pb
from spectacularbid.rules.v1.rules_service_pb2_grpc import (
    RulesServiceServicer,
    add_RulesServiceServicer_to_server,
)
from tests.processes import free_port

NOBODY = "127.0.0.1:1"


@pytest.mark.parametrize("width", [40, 60, 80, 200])
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_page_fits_and_leaves_nothing_out(language: str, width: int) -> None:
    book = load(language)
    lines = [line.text for line in page(book, width=width)]
    assert max(map(cells, lines)) <= max(
        min(width, 100), 47
    )  # the widest drawing has 37 columns and stands in 10
    said = "".join("".join(lines).split())
    for chapter in book.chapters:
        for block in chapter.blocks:
            assert "".join(block[-1].split()) in said
            assert isinstance(block, Remark) or block[0] in said
    for term in book.terms:
        assert "".join(term.meaning.split()) in said


def test_the_keys_fit_the_smallest_screen() -> None:
    assert cells(KEYS) <= WIDTH_MIN


def test_lines_break_where_a_reader_would_break_them() -> None:
    """Spaces in English and Hindi; in Japanese anywhere but before a closing mark, after an opening one, in a number."""
    assert wrapped("count: 2 + 3 = 5. Points", 14) == ["count:", "2 + 3 = 5.", "Points"]
    assert wrapped("牌を「引く」。", 6) == ["牌を", "「引", "く」。"]
    assert wrapped("合計は15点。", 8) == ["合計は", "15点。"]
    assert wrapped("सिरों का योग", 10) == ["सिरों का", "योग"]
    assert cells("गोटी") == 4


@pytest.mark.parametrize(
    ("part", "first", "last"),
    [
        ("words", "Words", "     cancelled: not played, because somebody did not come"),
        ("7", "7. On this service", "     the match is over: 1.3 comes before 4.5."),
        (
            "3.7",
            "3.7  After that it is the opponent's turn, always: after a double and after a score",
            "     as well.",
        ),
        (
            "1.4",
            "1.4  A count is worth that many points; it is not divided by 5. All balances are",
            "          had 150 points, they now have 165 and 135.",
        ),
    ],
)
def test_a_part_is_shown_by_itself(part: str, first: str, last: str) -> None:
    lines = [line.text for line in page(load("en"), part, width=84 if part == "3.7" else 80)]
    assert (lines[0], lines[-1]) == (first, last)


@pytest.mark.parametrize("part", ["0", "8", "3.8", "3.", "wrods", "D01"])
def test_what_there_is_not_is_said_with_what_there_is(part: str) -> None:
    with pytest.raises(ValueError, match=r"words, chapters 1 to 7"):
        page(load("en"), part)


@pytest.mark.parametrize(
    ("environment", "language"),
    [
        ({"LANG": "ja_JP.UTF-8"}, "ja_JP"),
        ({"LANG": "ja_JP.UTF-8", "LC_ALL": "hi_IN"}, "hi_IN"),
        ({"LANG": "ja_JP", "LC_MESSAGES": "C.UTF-8"}, ""),
        ({"LANG": "de_DE@euro"}, ""),
        ({"LANG": "C"}, ""),
        ({"LC_ALL": "", "LANG": "hi"}, "hi"),
        ({}, ""),
    ],
)
def test_the_language_is_that_of_the_terminal(environment: dict[str, str], language: str) -> None:
    assert language_of(environment) == language


class Fake(RulesServiceServicer):
    """A service whose text is newer than ours, in a language we have not, with blocks of a kind we do not know."""

    def __init__(self) -> None:
        self.asked: list[pb.GetRulesRequest] = []
        self.answer = answer_to_pb(load("en"))
        self.answer.language, self.answer.version = "fr", "newer"
        self.answer.available.add(tag="fr", name="français")
        self.answer.rules.title = "Les règles"
        del self.answer.rules.chapters[1:]
        self.answer.rules.chapters[0].blocks.insert(0, pb.Block())

    async def GetRules(self, request: pb.GetRulesRequest, _context: Any) -> pb.GetRulesResponse:
        self.asked.append(request)
        return self.answer


@pytest.fixture
async def fake() -> AsyncIterator[tuple[Fake, str]]:
    service, address = Fake(), f"127.0.0.1:{free_port()}"
    server = grpc.aio.server()
    add_RulesServiceServicer_to_server(service, server)
    server.add_insecure_port(address)
    await server.start()
    yield service, address
    await server.stop(None)


async def test_what_the_service_serves_is_shown(fake: tuple[Fake, str]) -> None:
    service, address = fake
    found = await ask(address, "fr-CA")
    assert (found.book.language, found.book.version, found.book.title) == ("fr", "newer", "Les règles")
    assert found.book.chapters == load("en").chapters[:1]
    assert dict(found.available) == {**LANGUAGES, "fr": "français"}
    assert not found.fault
    assert [(asked.language, asked.known_version) for asked in service.asked] == [
        ("fr-CA", load("en").version)
    ]

    shown = await asyncio.to_thread(
        CliRunner().invoke, app, ["rules", "--language", "fr", "--server", address]
    )
    assert shown.stdout.startswith("Les règles\n==========\n")
    assert shown.stderr == ""


async def test_without_a_service_the_program_shows_its_own_and_says_so() -> None:
    found = await ask(NOBODY, "ja")
    assert found.book == own("ja").book == load("ja")
    assert found.fault
    command = ["rules", "6.1", "--language", "en", "--server", NOBODY]
    shown = await asyncio.to_thread(CliRunner().invoke, app, command)
    assert shown.stdout.startswith("6.1  Each player has a bank of 120 seconds")
    assert NOBODY in shown.stderr
    assert shown.exit_code == 0


async def test_a_service_that_knows_no_such_call_is_no_fault_of_the_reader() -> None:
    """An older service."""
    address, server = f"127.0.0.1:{free_port()}", grpc.aio.server()
    server.add_insecure_port(address)
    await server.start()
    found = await ask(address, "hi")
    await server.stop(None)
    assert found.book == load("hi")
    assert "UNIMPLEMENTED" in found.fault


def test_a_language_without_rules_gets_english_and_hears_which_there_are() -> None:
    shown = CliRunner().invoke(app, ["rules", "7.3", "--language", "fr", "--server", NOBODY])
    assert shown.stdout.startswith("7.3  You may resign")
    assert "no rules in 'fr'; there are en (English), hi (हिन्दी), ja (日本語)" in shown.stderr
    for wrong in (["--language", "!"], ["9"]):
        refused = CliRunner().invoke(app, ["rules", "--server", NOBODY, *wrong])
        assert refused.exit_code == 2
        assert "there are" in " ".join(refused.stderr.split())
