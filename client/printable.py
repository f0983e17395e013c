"""Text of others, fit for a terminal: a name or a message may hold anything, and a terminal obeys much of it."""

from __future__ import annotations


def printable(text: str) -> str:
    """The same text with every character escaped that is not seen but does something, half a surrogate pair too."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escaped(each) for each in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
