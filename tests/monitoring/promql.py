"""What a query asks for: its series with their labels, found by reading it word by word.

Whether a query is correct is for Prometheus to say; here it only has to be one, of the kinds that rules and dashboards
use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_WORDS = re.compile(
    r"""(?P<space>\s+|\#[^\n]*)
    | (?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    | (?P<brackets>\[[^\]]*\])
    | (?P<variable>\$\w+|\$\{\w+\})
    | (?P<number>\d[\w.]*)
    | (?P<name>[a-zA-Z_:][\w:]*)
    | (?P<sign>=~|!~|!=|==|>=|<=|[-+*/%^<>=(){},@])""",
    re.VERBOSE,
)
_LISTS = {"by", "without", "on", "ignoring", "group_left", "group_right"}
"""Words before a list of labels."""
_OPERATORS = {"and", "or", "unless", "bool", "offset", "inf", "nan"}


@dataclass(frozen=True)
class Matcher:
    """One condition on a label: `op` is one of = != =~ !~."""

    label: str
    op: str
    value: str

    def accepts(self, value: str) -> bool:
        """Does a series with this value of the label pass?"""
        same = re.fullmatch(self.value, value) is not None if "~" in self.op else value == self.value
        return same is not self.op.startswith("!")


@dataclass(frozen=True)
class Selector:
    """Series that a query asks for."""

    series: str
    matchers: tuple[Matcher, ...] = ()


@dataclass(frozen=True)
class Query:
    """What a query names."""

    selectors: tuple[Selector, ...]
    grouping: frozenset[str]
    """Labels in `by (...)` and its like."""


def parse(text: str) -> Query:
    """What a query names. Raises ValueError where a character cannot belong to one."""
    words = list(_words(text))
    selectors: list[Selector] = []
    grouping: set[str] = set()
    position = 0
    while position < len(words):
        kind, word = words[position]
        following = words[position + 1][1] if position + 1 < len(words) else ""
        position += 1
        if kind != "name" or word.lower() in _OPERATORS:
            continue
        if word.lower() in _LISTS:
            if following == "(":
                end = words.index(("sign", ")"), position)
                grouping.update(name for part, name in words[position:end] if part == "name")
                position = end + 1
        elif following == "{":
            end = words.index(("sign", "}"), position)
            selectors.append(Selector(word, tuple(_matchers(words[position + 1 : end]))))
            position = end + 1
        # What is called is a function, also when its labels come first: sum by (pool) (...).
        elif following != "(" and following.lower() not in _LISTS:
            selectors.append(Selector(word))
    return Query(tuple(selectors), frozenset(grouping))


def _matchers(words: list[tuple[str, str]]) -> Iterator[Matcher]:
    parts = [part for part in words if part != ("sign", ",")]
    for (_, label), (_, op), (_, value) in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        yield Matcher(label, op, value[1:-1])


def _words(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(text):
        found = _WORDS.match(text, position)
        if found is None:
            raise ValueError(f"no query: {text[position : position + 20]!r} in {text!r}")
        position = found.end()
        if found.lastgroup != "space":
            yield str(found.lastgroup), found[0]
