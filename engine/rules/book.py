"""A rulebook: the whole game in one language, chapter by chapter, read from the Markdown beside this module.

The form of the texts: `# title`, paragraphs of introduction; `## words` with a table of terms; `## 1. title` for each
chapter. In a chapter `**1.1** text` is a rule, `> **E03** text` a worked example, a fenced block named `D01` the drawing
of a figure, which `**D01** text` then explains, and every other paragraph a remark. A paragraph that goes on in the
next line has a space in between.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

LANGUAGES: Final = {"en": "English", "hi": "हिन्दी", "ja": "日本語"}
"""The languages there are, by their tags, as they call themselves. The first is the one for everybody else."""
TAG_LENGTH_MAX: Final = 35
"""Longest language tag that is understood (what RFC 5646 asks for)."""

_TAG: Final = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*")
_CHAPTER: Final = re.compile(r"(\d+)\. (.+)")
_LABELLED: Final = re.compile(r"\*\*(?:(\d+\.\d+)|([DE]\d+\w?))\*\* (.+)", re.DOTALL)
_FENCE: Final = "```"


class Term(NamedTuple):
    """A word of the game."""

    word: str
    english: str
    """The same word in the English text, in code and in the API."""
    meaning: str


class Rule(NamedTuple):
    """A numbered rule, for example 3.5."""

    number: str
    text: str


class Example(NamedTuple):
    """A worked example in numbers."""

    name: str
    text: str


class Drawing(NamedTuple):
    """A worked figure as it is shown."""

    name: str
    """As in `figures.FIGURES`."""
    art: str
    """Lines of ASCII."""
    caption: str


class Remark(NamedTuple):
    """Something to know that is no rule."""

    text: str


Block = Rule | Example | Drawing | Remark


class Chapter(NamedTuple):
    """The rules N.1, N.2 and so on, with what illustrates each behind it."""

    number: int
    title: str
    blocks: tuple[Block, ...]


class Rulebook(NamedTuple):
    """The game explained in one language."""

    language: str
    """A key of `LANGUAGES`."""
    version: str
    """Changes with every change of the text: 16 hexadecimal digits of its SHA-256."""
    title: str
    introduction: tuple[str, ...]
    words: str
    """The title above the terms."""
    terms: tuple[Term, ...]
    chapters: tuple[Chapter, ...]


def matching(tag: str) -> str | None:
    """The language to show to somebody who asks for this one, `ja-JP` or `hi_IN` too; None when there is no such text.

    ValueError, naming what there is, when it is no language tag.
    """
    if len(tag) > TAG_LENGTH_MAX or not _TAG.fullmatch(tag):
        there = ", ".join(f"{own} ({name})" for own, name in LANGUAGES.items())
        raise ValueError(f"not a language tag: {tag[:TAG_LENGTH_MAX]!r}; there are {there}")
    language = re.split("[-_]", tag)[0].lower()
    return language if language in LANGUAGES else None


@cache
def load(language: str) -> Rulebook:
    """The rulebook in one of `LANGUAGES`."""
    assert language in LANGUAGES, language
    return parse(language, (Path(__file__).parent / f"{language}.md").read_text("utf-8"))


def parse(language: str, text: str) -> Rulebook:
    """Read a text. ValueError, with the paragraph, where it does not have the form."""
    sections = re.split(r"^## ", text, flags=re.MULTILINE)
    title, *introduction = _paragraphs(sections[0])
    if not title.startswith("# ") or len(sections) < 3:
        raise ValueError("a text begins with its title and has terms and chapters")
    words, _, terms = sections[1].partition("\n")
    return Rulebook(
        language=language,
        version=hashlib.sha256(text.encode()).hexdigest()[:16],
        title=title.removeprefix("# "),
        introduction=tuple(introduction),
        words=words,
        terms=tuple(_terms(terms)),
        chapters=tuple(map(_chapter, sections[2:])),
    )


def _terms(text: str) -> Iterator[Term]:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|")
    ]
    for row in rows[2:]:
        if len(row) not in (2, 3):
            raise ValueError(f"a term is word and meaning, with the English word between: {row}")
        # In English the word is the English word.
        yield Term(row[0], row[-2], row[-1])


def _chapter(text: str) -> Chapter:
    heading, _, body = text.partition("\n")
    found = _CHAPTER.fullmatch(heading)
    if found is None:
        raise ValueError(f"a chapter has a number and a title: {heading!r}")
    return Chapter(int(found[1]), found[2], tuple(_blocks(body)))


def _blocks(text: str) -> Iterator[Block]:
    drawn: dict[str, str] = {}
    for paragraph in _paragraphs(text):
        if paragraph.startswith(_FENCE):
            name, _, art = paragraph.removeprefix(_FENCE).partition("\n")
            drawn[name] = art
            continue
        is_quote = paragraph.startswith("> ")
        label = _LABELLED.fullmatch(paragraph.removeprefix("> "))
        if label is None:
            if paragraph.startswith(("**", "> ")):
                raise ValueError(f"neither a rule nor an example nor a figure: {paragraph[:40]!r}")
            yield Remark(paragraph)
        elif label[1] and not is_quote:
            yield Rule(label[1], label[3])
        elif is_quote and label[2] and label[2].startswith("E"):
            yield Example(label[2], label[3])
        elif label[2] in drawn:
            yield Drawing(label[2], drawn.pop(label[2]), label[3])
        else:
            raise ValueError(f"there is no drawing above {paragraph[:40]!r}")
    if drawn:
        raise ValueError(f"drawings without explanation: {', '.join(drawn)}")


def _paragraphs(text: str) -> Iterator[str]:
    """What blank lines separate, each in one line; a fenced block stays as it is, without its last line."""
    for number, part in enumerate(re.split(rf"^{_FENCE}", text, flags=re.MULTILINE)):
        if number % 2:
            yield _FENCE + part.rstrip("\n")
            continue
        for paragraph in re.split(r"\n\s*\n", part.strip()):
            if paragraph:
                yield " ".join(
                    line.removeprefix("> ") if n else line for n, line in enumerate(paragraph.splitlines())
                )
