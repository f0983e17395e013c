"""A rulebook as lines for a terminal of any width, in scripts of any width."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.cells import cell_len

from engine.rules.book import Drawing, Example, Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.rules.book import Block, Chapter, Rulebook

WORDS: Final = "words"
"""What a reader may ask for besides chapters and rules: the words of the game."""
WIDTH_MAX: Final = 100
"""Longer lines are hard to read."""

_INDENT: Final = "     "
# Japanese breaks between any two characters, but no line begins with a closing one or ends with an opening one, and
# a number stays with what it counts. Everything else breaks at spaces, except for sums, which stay whole.
_OPENING: Final = "（「『"
_CLOSING: Final = "、。，．：；！？）」』・ーッャュョァィゥェォっゃゅょぁぃぅぇぉ々…"
_WIDE: Final = "\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef"
_SUM: Final = rf"[0-9]+(?: [-+=×] [0-9]+)+(?:[{_WIDE}]|[^\s{_WIDE}]*)"
_PIECE: Final = re.compile(rf"\s+|[{_OPENING}]*(?:{_SUM}|[0-9]*[{_WIDE}]|[^\s{_WIDE}]+)[{_CLOSING}]*")


class Line(NamedTuple):
    """One line of a page."""

    text: str
    heading: bool = False


def page(book: Rulebook, part: str = "", *, width: int = 80) -> list[Line]:
    """The book, or the part asked for: `words`, a chapter (`3`), or a rule with what illustrates it (`3.5`).

    ValueError, saying what there is, for any other part. No line is wider than `width` cells (up to `WIDTH_MAX`, and
    where single words and drawings permit).
    """
    width = min(width, WIDTH_MAX)
    if not part:
        return [*_opening(book, width), *_terms(book, width), *_chapters(book.chapters, width)]
    if part == WORDS:
        return _stripped(_terms(book, width))
    for chapter in book.chapters:
        if part == str(chapter.number):
            return _stripped(_chapters([chapter], width))
        blocks = _of_rule(chapter, part)
        if blocks:
            return _stripped(_blocks(blocks, width))
    numbers = [chapter.number for chapter in book.chapters]
    example = next(block.number for block in book.chapters[-1].blocks if isinstance(block, Rule))
    raise ValueError(
        f"no {part!r} in the rules: there are {WORDS}, chapters {min(numbers)} to {max(numbers)},"
        f" and single rules, for example {example}"
    )


def wrapped(text: str, width: int) -> list[str]:
    """A paragraph in lines of at most `width` cells; a piece that cannot be broken and is wider stands alone."""
    lines = [""]
    for piece in _PIECE.findall(text):
        if not piece.strip():
            lines[-1] += " " if lines[-1] else ""
        elif not lines[-1] or cells(lines[-1]) + cells(piece) <= width:
            lines[-1] += piece
        else:
            lines.append(piece)
    return [line.rstrip() for line in lines]


def cells(text: str) -> int:
    """How wide a terminal shows a text at most: terminals differ about the vowel signs of Hindi that stand beside their
    letter, which are counted here."""
    return cell_len(text) + sum(unicodedata.category(character) == "Mc" for character in text)


def _opening(book: Rulebook, width: int) -> Iterator[Line]:
    yield Line(book.title, heading=True)
    yield Line("=" * cells(book.title))
    for paragraph in book.introduction:
        yield Line("")
        yield from map(Line, wrapped(paragraph, width))


def _terms(book: Rulebook, width: int) -> Iterator[Line]:
    yield Line("")
    yield Line(book.words, heading=True)
    yield Line("")
    for term in book.terms:
        word = term.word if term.word == term.english else f"{term.word} ({term.english})"
        yield from _hanging("", f"{word}: {term.meaning}", width)


def _chapters(chapters: Iterable[Chapter], width: int) -> Iterator[Line]:
    for chapter in chapters:
        yield Line("")
        yield Line(f"{chapter.number}. {chapter.title}", heading=True)
        yield from _blocks(chapter.blocks, width)


def _of_rule(chapter: Chapter, number: str) -> list[Block]:
    """A rule and everything up to the next one."""
    found: list[Block] = []
    for block in chapter.blocks:
        if isinstance(block, Rule):
            if found:
                break
            if block.number != number:
                continue
            found.append(block)
        elif found:
            found.append(block)
    return found


def _blocks(blocks: Iterable[Block], width: int) -> Iterator[Line]:
    for block in blocks:
        yield Line("")
        match block:
            case Rule(number, text):
                yield from _hanging(number, text, width)
            case Example(name, text):
                yield from _hanging(f"{_INDENT}{name}", text, width)
            case Drawing(name, art, caption):
                yield from (Line(f"{_INDENT}{_INDENT}{line}".rstrip()) for line in art.splitlines())
                yield Line("")
                yield from _hanging(f"{_INDENT}{name}", caption, width)
            case _:
                yield from _hanging("", block.text, width)


def _hanging(label: str, text: str, width: int) -> Iterator[Line]:
    """A paragraph beside its label; all its lines begin in the same column."""
    column = (len(label) // len(_INDENT) + 1) * len(_INDENT)
    for number, line in enumerate(wrapped(text, max(1, width - column))):
        yield Line(f"{'' if number else label:<{column}}{line}")


def _stripped(lines: Iterable[Line]) -> list[Line]:
    """Without the blank line that a part would begin with."""
    kept = list(lines)
    return kept[1:] if kept and not kept[0].text else kept
