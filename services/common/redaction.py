"""What never gets into a log, whoever hands it over: tiles, deals and salts, tokens and passwords.

Two nets. By type: only plain values are written, everything else is named by its type alone, so no tile, hand, deal or
message prints itself. By shape: what looks like a tile, a token or a secret is taken out of the finished line, so it does
not matter whether it came as a value or in the text of an exception. However long the text, its time is that of its length.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from functools import lru_cache
from pathlib import PurePath
from typing import Any, Final
from urllib.parse import unquote, urlsplit
from uuid import UUID

HIDDEN: Final = "[hidden]"
SECRET_LENGTH_MIN: Final = 12
"""Shorter secrets are not looked for: they would be found in words that are none."""

TEXT_MAX: Final = 16 * 1024
"""Characters of one text of a line: what others can make long must not fill our logs."""

HIDDEN_KEYS: Final = frozenset(
    (
        *("authorization", "cookie", "token", "operator_token", "jwt", "password", "passfile", "secret"),
        *("internal_secret", "private_key", "database_url", "dsn", "salt", "shuffle", "deal", "deals"),
        *(
            "boneyard",
            "hand",
            "hands",
            "tile",
            "tiles",
            "script",
            "payload",
            "seed",
            "contribution",
            "contributions",
        ),
    )
)
"""Keys whose values are never written. A hand may be a plain number, which no shape gives away."""

_CONTAINERS: Final = (dict, list, tuple)
_SAFE: Final = (UUID, datetime, date, PurePath)

# A piece of text without which a shape cannot be in a line, and the shape. Looking for the piece is cheap, and in nearly
# every line there is none. A shape takes what it has looked at even where that is no secret, and then puts it back: else
# it would look again from each of its beginnings.
_SHAPES: Final[tuple[tuple[str, re.Pattern[str], str | Callable[[re.Match[str]], str]], ...]] = (
    (
        "eyJ",
        re.compile(r"eyJ[\w-]{4,}(\.[\w.-]*)?"),
        lambda found: found[0] if found[1] is None else "[token]",
    ),
    ("earer", re.compile(r"([Bb])earer\s+(?!\[)[^\s\"'\\,)]+"), r"\1earer [token]"),
    (
        "://",
        re.compile(r"://([^\s:/@\"']*):[^\s\"'@]+(@?)"),
        lambda found: f"://{found[1]}:[password]@" if found[2] else found[0],
    ),
    (
        "assword",
        re.compile(r"([Pp]assword(?:\\?[\"'])?\s*[=:]\s*\\?[\"'])(?!\[hidden)[^\"'\\]+"),
        r"\1[hidden]",
    ),
    ("assword", re.compile(r"([Pp]assword\s*[=:]\s*)(?![\\\"'\[\s])[^\s\"',)\\]+"), r"\1[hidden]"),
    ("|", re.compile(r"(?<![\w|])[0-6]\|[0-6](?![\w|])"), "[tile]"),
    ("high", re.compile(r"(\blow\b\W{1,6})\d(\W{0,4}n?\W{0,16}high\b\W{1,6})\d"), r"\1null\2null"),
    (
        "salt",
        re.compile(r"(salt\W{1,6})(?:b(\\*['\"])(?:(?!\2)(?:\\.|.))*(?:\2)?|[0-9a-f]{16,})", re.DOTALL),
        r"\1[hidden]",
    ),
)
# Salts and hashes of deals, as they are stored. Names and traces have 32 digits.
_DIGEST: Final = re.compile(r"(?<![0-9A-Za-z])[0-9a-f]{64}(?![0-9A-Za-z])")
_HEXADECIMAL: Final = re.compile(r"[0-9a-f]{64}")

_LAST_WORD: Final = re.compile(r"[\w|.+/=\\-]{1,512}\Z")

_secrets: set[str] = set()


def hide(secrets: Iterable[str]) -> None:
    """From now on these texts are in no line of this process; of a URL, its password is not either."""
    quoted.cache_clear()
    for secret in secrets:
        password = _password(secret) if "://" in secret else ""
        for text in (secret, password, unquote(password)):
            if len(text) >= SECRET_LENGTH_MIN:
                # As it is, and as it is written in JSON.
                _secrets.update((text, json.dumps(text)[1:-1]))


def _password(url: str) -> str:
    try:
        return urlsplit(url).password or ""
    except ValueError:
        # No URL after all: what stands where its password would be.
        return url.partition("://")[2].rpartition("@")[0].partition(":")[2]


def clean(line: str) -> str:
    """A text without what has the shape of something secret, and not longer than TEXT_MAX."""
    for secret in _secrets:
        if secret in line:
            line = line.replace(secret, HIDDEN)
    if len(line) > TEXT_MAX:
        line = _cut(line)
    for piece, shape, instead in _SHAPES:
        if piece in line:
            line = shape.sub(instead, line)
    return _DIGEST.sub(HIDDEN, line)


@lru_cache(maxsize=4096)
def quoted(text: str) -> str:
    """A text as it may stand in a line, in JSON: without what has the shape of something secret."""
    return json.dumps(clean(text))


def _cut(text: str) -> str:
    # Not in the middle of a word: half a secret has no shape any more.
    kept = _LAST_WORD.sub("", text[: TEXT_MAX - 64])
    return f"{kept}… [{len(text) - len(kept)} characters more]"


def _may_hold_secrets(line: str) -> bool:
    pieces = (piece for piece, _, _ in _SHAPES)
    return any(piece in line for piece in (*pieces, *_secrets)) or _HEXADECIMAL.search(line) is not None


def _cleaned(value: Any) -> Any:
    """A value of JSON in which every text is clean, and no object is a tile."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        halves = dict.fromkeys(("low", "high")) if {"low", "high"} <= value.keys() else {}
        return {clean(key): _cleaned(each) for key, each in (value | halves).items()}
    return [_cleaned(each) for each in value] if isinstance(value, list) else value


def _unwritten(value: Any) -> Any:
    """In place of what is no plain value."""
    if isinstance(value, _SAFE):
        return str(value)
    if isinstance(value, set | frozenset):
        return list(value)
    return f"[{type(value).__name__} hidden]"


def _hidden(value: object) -> str:
    # Settings show by stars that something is set.
    return value if isinstance(value, str) and not value.strip("*") else HIDDEN


def _without_hidden(fields: Mapping[Any, Any]) -> dict[Any, Any]:
    return {
        key: _hidden(value)
        if key in HIDDEN_KEYS
        else (_inside(value) if isinstance(value, _CONTAINERS) else value)
        for key, value in fields.items()
    }


def _inside(value: Any) -> Any:
    """Hidden keys are hidden wherever they stand."""
    if isinstance(value, dict):
        return _without_hidden(value)
    return [_inside(each) if isinstance(each, _CONTAINERS) else each for each in value]


_ENCODER: Final = json.JSONEncoder(default=_unwritten, skipkeys=True)


def render(_logger: object, _level: str, line: Mapping[str, Any]) -> str:
    """The last processor of structlog: one JSON object that can be shown to anybody. Never raises."""
    try:
        text = _ENCODER.encode(_without_hidden(line))
        # Few lines hold anything like a secret. They are cleaned text by text: in the line itself, what is escaped hides
        # what stands beside it (the tile of `\n6|6` follows a letter), and a shape could run past the end of its text.
        if len(text) > TEXT_MAX or _may_hold_secrets(text):
            return _ENCODER.encode(_cleaned(json.loads(text)))
        return text
    except (TypeError, ValueError, RecursionError):
        kept = {key: clean(str(line.get(key))) for key in ("event", "at", "level")}
        return json.dumps(kept | {"unwritten": True})
