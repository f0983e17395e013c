"""The rules as players read them: complete, the same in every language, their figures and numbers those of the engine."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from engine.refusal import Refusal
from engine.rules.book import (
    LANGUAGES,
    Block,
    Drawing,
    Example,
    Remark,
    Rule,
    Rulebook,
    load,
    matching,
    parse,
)
from engine.rules.figures import FIGURES, draw, laid
from tests.engine.test_vectors import EXAMPLES, steps_of
from tests.engine.test_vectors import FIGURES as VECTORS

BOOKS = {language: load(language) for language in LANGUAGES}
# The numbered rules of the game, chapter by chapter: 1.1 to 1.4, and so on.
RULES = {1: 4, 2: 4, 3: 7, 4: 6, 5: 8, 6: 9, 7: 8}
every_language = pytest.mark.parametrize("book", BOOKS.values(), ids=lambda book: str(book.language))


def blocks(book: Rulebook) -> list[Block]:
    return [block for chapter in book.chapters for block in chapter.blocks]


def figures(book: Rulebook) -> list[Drawing]:
    return [block for block in blocks(book) if isinstance(block, Drawing)]


def numbers(text: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", text)]


@every_language
def test_every_rule_is_explained_in_its_chapter_in_order(book: Rulebook) -> None:
    found = {
        chapter.number: [block.number for block in chapter.blocks if isinstance(block, Rule)]
        for chapter in book.chapters
    }
    assert found == {
        chapter: [f"{chapter}.{n + 1}" for n in range(count)] for chapter, count in RULES.items()
    }
    assert all(refusal.rule in itertools.chain(*found.values()) for refusal in Refusal)


@every_language
def test_every_worked_figure_and_number_is_there_once(book: Rulebook) -> None:
    assert sorted(figure.name for figure in figures(book)) == sorted(vector["id"] for vector in VECTORS)
    examples = [block.name for block in blocks(book) if isinstance(block, Example)]
    assert sorted(examples) == sorted(example["id"] for example in EXAMPLES)


def test_all_languages_tell_the_same_in_the_same_order() -> None:
    """Kinds, names, words of the API, and all numbers above two (these are sometimes words)."""
    told = {
        language: [
            [term.english for term in book.terms],
            [
                (
                    type(block).__name__,
                    "" if isinstance(block, Remark) else block[0],
                    sorted({number for number in numbers(block[-1]) if number > 2}),
                )
                for block in blocks(book)
            ],
        ]
        for language, book in BOOKS.items()
    }
    assert told["hi"] == told["en"]
    assert told["ja"] == told["en"]
    assert len({book.version for book in BOOKS.values()}) == len(BOOKS)
    assert all(term.word == term.english for term in BOOKS["en"].terms)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["id"]))
def test_a_figure_is_the_one_of_the_worked_examples_with_its_count(vector: dict[str, Any]) -> None:
    """Rules 3.1 to 3.6: the layout the engine makes of the figure has the stated ends, count and points."""
    figure = FIGURES[vector["id"]]
    assert figure.layout == laid(steps_of(vector))
    assert {(a["tile"], a["port"]): a["value"] for a in vector["attachments"]} == {
        (end.tile.text, end.port.value): end.value for end, _ in figure.layout.open_ends
    }
    assert sorted(figure.counted) == sorted(counted["value"] for counted in vector["counted"])
    assert list(figure.counted) == vector.get("summands", list(figure.counted))
    assert figure.layout.total == sum(figure.counted) == vector["total"]
    assert figure.points == vector["points"]


@every_language
def test_a_figure_is_drawn_as_it_lies_and_explained_with_its_count_and_points(book: Rulebook) -> None:
    for drawing in figures(book):
        figure = FIGURES[drawing.name]
        assert drawing.art == draw(figure.layout), drawing.name
        assert drawing.art.isascii()
        assert max(map(len, drawing.art.splitlines())) <= 78
        *_, points = numbers(drawing.caption)
        assert points == figure.points, drawing.name
        if len(figure.counted) > 1:
            assert f"{' + '.join(map(str, figure.counted))} = {figure.layout.total}" in drawing.caption
        assert f"[{figure.layout.placements[-1].tile}]" in drawing.caption


def test_in_a_drawing_each_end_stands_where_it_is() -> None:
    """Every arm with its tiles from the middle outwards; a counted end with its number, any other with an o."""
    steps = [("2|2", None), ("2|5", "2|2 line_a"), ("5|5", "2|5 high"), ("2|3", "2|2 line_b")]
    steps += [("2|6", "2|2 branch_b"), ("6|6", "2|6 high")]
    assert draw(laid(steps)).splitlines() == [
        "                o",
        "                ^",
        "     [5]       (2)",
        "10 <  -  [5|2]  -  [2|3] > 3",
        "     [5]       (2)",
        "               [2]",
        "                -",
        "               [6]",
        "              [6|6]",
        "                v",
        "                12",
        "",
        "3 + 10 + 12 = 25",
    ]
    with pytest.raises(ValueError, match="BRANCH_CLOSED"):
        laid([("2|2", None), ("2|5", "2|2 branch_a")])


def _stated(example: dict[str, Any]) -> set[int]:
    """The numbers that an example must name, times in seconds."""
    found: set[int] = set()
    for key, value in [*example.items(), *example["expect"].items()]:
        values = value if isinstance(value, list) else [value]
        if key in {"jockey", "scorer", "winner", "winning_bidder", "opener", "loser", "tokens"}:
            continue
        found |= {
            number // 1000 if "ms" in key.split("_") else number
            for number in values
            if isinstance(number, int) and not isinstance(number, bool)
        }
    return found


@every_language
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: str(example["id"]))
def test_an_example_names_the_numbers_that_the_engine_works_out(
    book: Rulebook, example: dict[str, Any]
) -> None:
    """`test_vectors` holds the vectors to the engine; this holds the texts to the vectors."""
    (text,) = (
        block.text for block in blocks(book) if isinstance(block, Example) and block.name == example["id"]
    )
    assert _stated(example) - set(numbers(text)) == set()


@pytest.mark.parametrize(
    ("tag", "language"),
    [
        *(
            ("en", "en"),
            ("ja", "ja"),
            ("ja-JP", "ja"),
            ("HI", "hi"),
            ("hi_IN", "hi"),
            ("en-GB-oxendict", "en"),
        ),
        *(("fr", None), ("jav", None), ("zh-Hant-TW", None)),
    ],
)
def test_a_language_is_found_by_any_tag_of_it(tag: str, language: str | None) -> None:
    assert matching(tag) == language


@pytest.mark.parametrize("tag", ["", "e", "english please", "ja-", "../en", "日本語", "en" + "-x" * 17])
def test_what_is_no_language_tag_is_not_guessed_at(tag: str) -> None:
    with pytest.raises(ValueError, match="language tag"):
        matching(tag)


GOOD = "# T\n\nI\n\n## W\n\n| a | b |\n|---|---|\n| x | y |\n\n## 1. C\n\n**1.1** R\ngoes on\n\n```D01\nx\n```\n\n**D01** F\n"


def test_a_text_is_read_as_it_is_meant() -> None:
    book = parse("en", GOOD)
    assert book.chapters[0].blocks == (Rule("1.1", "R goes on"), Drawing("D01", "x", "F"))
    assert (book.title, book.introduction, book.words) == ("T", ("I",), "W")
    assert parse("en", GOOD + " ").version != book.version


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("**D01** F", ""),
        ("```D01\nx\n```", ""),
        ("**1.1** R", "**1** R"),
        ("**1.1** R", "> **1.1** R"),
        ("## 1. C", "## C"),
        ("# T", "T"),
        ("| x | y |", "| x |"),
    ],
)
def test_a_text_without_the_form_is_not_read(wrong: str, right: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse("en", GOOD.replace(wrong, right, 1))


def test_the_vectors_are_complete() -> None:
    path = Path(__file__).parent.parent / "vectors" / "diagrams.json"
    data = json.loads(path.read_text("utf-8"))
    assert len(FIGURES) == len(data["diagrams"]) + len(data["derived"])
