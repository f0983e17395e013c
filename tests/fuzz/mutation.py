"""Mutations of bytes, of text and of lines of JSON. All of them are decided by the generator that is handed in."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

WORDS_FILE: Final = Path(__file__).with_name("words.dict")
"""Words that the formats know, as libFuzzer reads them."""

NUMBERS: Final = (
    *(0, 1, -1, 2, 3, 5, 6, 7, 20, 35, 63, 64, 150, 295, 300, 305, 10_000, 10**12),
    *(2**31 - 1, -(2**31), 2**31, 2**63 - 1, -(2**63), 2**63, 2**64, 10**30, 10**999),
)
TEXTS: Final = (
    *(
        "",
        "a",
        "\x00",
        "\x1b[2J",
        "\x1b]0;x\x07",
        "\u202eabc",
        "\ud800",
        "é",
        "\uffff",
        "\U0001f600",
        "x" * 70,
    ),
    *(
        "٣" * 32,
        "1" * 5000,
        "../../etc",
        "' or 1=1 --",
        "a\r\nb",
        "null",
        "NaN",
        "6|6",
        "1|6 far",
        "0|0 line_a",
    ),
    *("00000000-0000-0000-0000-000000000001", "{00000000000000000000000000000001}", "00-" + "1" * 32),
    *("i-klingon", "en-" + "a-" * 50, "player-abcdef", "eyJhbGciOiJub25lIn0.e30.", "://a:b@c"),
)
_ANYTHING: Final[tuple[Any, ...]] = (
    *(None, True, False, 1.5, -0.0, float("nan"), float("inf")),
    *(
        [],
        {},
        [[]],
        [{}],
        {"": None},
        ["0|0"],
        {"north": 150, "south": 150},
        {"winner": None, "cause": "void"},
    ),
)


@cache
def words() -> tuple[str, ...]:
    """The words of the dictionary, without the quotation marks that JSON puts around some."""
    lines = re.findall(r'^"(.*)"$', WORDS_FILE.read_text("ascii"), re.MULTILINE)
    return tuple(line.encode().decode("unicode_escape").strip('"') for line in lines)


def some_text(rng: random.Random) -> str:
    """A text that may be trouble; often a known word, so that others are reached."""
    return rng.choice(words() if rng.random() < 0.5 else TEXTS)


def mutate_bytes(data: bytes, rng: random.Random) -> bytes:
    """A few bytes changed, doubled, moved, dropped or put in."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(changed) + 1)
        length = rng.choice((1, 1, 2, 4, 16, 64))
        match rng.randrange(6):
            case 0 if changed:
                changed[at % len(changed)] = rng.randrange(256)
            case 1:
                del changed[at : at + length]
            case 2:
                changed[at:at] = rng.randbytes(min(length, 8))
            case 3:
                changed[at:at] = changed[at : at + length]
            case 4:
                changed[at:at] = some_text(rng).encode("utf-8", "surrogatepass")
            case 5 if changed:
                changed[at % len(changed)] ^= 1 << rng.randrange(8)
    return bytes(changed)


def mutate_text(text: str, rng: random.Random, letters: Callable[[random.Random], str]) -> str:
    """A few characters changed, doubled, dropped or put in; new ones come from `letters`."""
    changed = list(text)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(changed) + 1)
        match rng.randrange(4):
            case 0 if changed:
                changed[at % len(changed)] = letters(rng)
            case 1:
                del changed[at : at + 1]
            case 2:
                changed[at:at] = letters(rng)
            case 3:
                changed[at:at] = changed[max(0, at - 3) : at]
    return "".join(changed)


def mutate_json(value: Any, rng: random.Random) -> Any:
    """One place of a JSON value changed. The value that is handed in stays as it is."""
    return _in_place(json.loads(json.dumps(value)), rng)


def _in_place(value: Any, rng: random.Random) -> Any:
    holders = list(_holders(value))
    if not holders or rng.random() < 0.02:
        return _other(value, rng, holders)
    holder = rng.choice(holders)
    if isinstance(holder, dict):
        _change_object(holder, rng, holders)
    else:
        _change_list(holder, rng, holders)
    return value


def _change_object(holder: dict[str, Any], rng: random.Random, holders: list[Any]) -> None:
    key = rng.choice(list(holder)) if holder and rng.random() < 0.85 else some_text(rng)
    match rng.randrange(8):
        case 0:
            holder.pop(key, None)
        case 1:
            holder[some_text(rng)] = holder.pop(key, None)
        case _:
            holder[key] = _other(holder.get(key), rng, holders)


def _change_list(holder: list[Any], rng: random.Random, holders: list[Any]) -> None:
    at = rng.randrange(len(holder) + 1)
    match rng.randrange(5):
        case 0:
            del holder[at : at + 1]
        case 1:
            holder[at:at] = holder[max(0, at - 1) : at]
        case 2:
            rng.shuffle(holder)
        case _:
            holder[at : at + 1] = [_other(holder[at] if at < len(holder) else None, rng, holders)]


def _other(value: Any, rng: random.Random, holders: list[Any]) -> Any:
    if type(value) is int and rng.random() < 0.4:
        return value + rng.choice((1, -1, 5, -5, value, -value, 10**6, -(10**6)))
    match rng.randrange(4):
        case 0:
            return rng.choice(NUMBERS)
        case 1:
            return some_text(rng)
        case 2 if holders:
            # What stands elsewhere: a value of another key, or a whole object in place of one of its parts.
            found = rng.choice(holders)
            members = list(found.values() if isinstance(found, dict) else found)
            return json.loads(json.dumps(rng.choice(members or [found])))
        case _:
            return rng.choice(_ANYTHING)


def _holders(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield value
        for member in value.values():
            yield from _holders(member)
    elif isinstance(value, list):
        yield value
        for member in value:
            yield from _holders(member)


def dumped(value: Any, rng: random.Random) -> bytes:
    """JSON in one of its spellings. A lone surrogate of the value may become bytes that are no UTF-8."""
    text = json.dumps(
        value, ensure_ascii=rng.random() < 0.3, separators=rng.choice(((",", ":"), (", ", ": ")))
    )
    return text.encode("utf-8", "surrogatepass")


def mutate_json_bytes(data: bytes, rng: random.Random) -> bytes:
    """One JSON document, changed as a value most of the time and as bytes otherwise."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return mutate_bytes(data, rng)
    if rng.random() < 0.1:
        return mutate_bytes(data, rng)
    for _ in range(rng.choice((1, 1, 2))):
        value = mutate_json(value, rng)
    return dumped(value, rng)


def mutate_lines(data: bytes, rng: random.Random) -> bytes:
    """Lines of JSON: lines dropped, doubled, exchanged, cut off, or one of them changed."""
    lines = data.split(b"\n")
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(lines) + 1)
        match rng.randrange(10):
            case 0:
                del lines[at : at + 1]
            case 1:
                lines[at:at] = lines[max(0, at - 1) : at]
            case 2:
                other = rng.randrange(len(lines) + 1)
                lines[at : at + 1], lines[other : other + 1] = lines[other : other + 1], lines[at : at + 1]
            case 3 if rng.random() < 0.2:
                del lines[at:]
            case 4:
                lines[at:at] = [_command(rng)]
            case _ if at < len(lines):
                lines[at] = mutate_json_bytes(lines[at], rng)
        lines = lines or [b""]
    return b"\n".join(lines)


_COMMANDS: Final = (
    "start",
    "continue",
    "reveal",
    "bid",
    "accept",
    "decline",
    "play",
    "draw",
    "pass",
    "resign",
)


def _command(rng: random.Random) -> bytes:
    line: dict[str, Any] = {
        "type": "command",
        "seat": rng.choice(("north", "south")),
        "command": rng.choice(_COMMANDS),
    }
    if line["command"] == "bid":
        line["amount"] = rng.choice((5, 20, 25, 40, 150, 300, -5))
    if rng.random() < 0.4:
        line["at_ms"] = rng.choice((0, 1, 1000, 130_000, 10**12))
    return json.dumps(line).encode()
