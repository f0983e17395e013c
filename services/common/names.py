"""What a player may be called: names that are written one way, and that nobody can take for another player's.

A name is normalised as RFC 8266 says (nickname profile: NFKC, no runs of spaces), held to a few rules of our own, and
compared twice: by its key, which ignores case, and by its skeleton, which is the same for names that look alike
(Unicode technical standard 39, taken further where case is ignored).
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from confusable_homoglyphs import confusables
from confusable_homoglyphs.categories import alias
from precis_i18n import get_profile

LENGTH_MIN: Final = 2
LENGTH_MAX: Final = 20
"""Characters as people count them: marks above and below a letter are part of it."""
CODE_POINTS_MAX: Final = 32
MARKS_MAX: Final = 2
"""Marks on one letter that have no composed form."""
SEPARATORS: Final = " -_.'"
NEUTRAL_PREFIX: Final = "player-"

SKELETON_LENGTH_MAX: Final = 512
KEY_LENGTH_MAX: Final = 128
"""As the database has them."""

_RAW_LENGTH_MAX: Final = 64
# What one character may become: the longest stands for eighteen.
_NORMAL_LENGTH_MAX: Final = 200
# Whoever bears one of these as a word of the name seems to speak for the service.
_OFFICES: Final = (
    *(
        "admin",
        "admins",
        "administrator",
        "administrators",
        "sysadmin",
        "moderator",
        "moderators",
        "mod",
        "mods",
    ),
    *("operator", "operators", "official", "staff", "support", "gm", "webmaster", "canary"),
)
# And whoever is called by these alone; the last ones are the house bots.
_RESERVED: Final = (
    *("system", "server", "service", "services", "spectacular", "bid", "spectacularbid", "team", "the"),
    *("root", "anonymous", "nobody", "everyone", "guest", "bot", "bots", "house", "easy", "greedy", "strong"),
)
_MIXES: Final = (
    frozenset({"LATIN", "HAN", "HIRAGANA", "KATAKANA"}),
    frozenset({"LATIN", "HAN", "BOPOMOFO"}),
    frozenset({"LATIN", "HAN", "HANGUL"}),
)
_NO_SCRIPT: Final = frozenset({"COMMON", "INHERITED"})
_NICKNAME: Final = get_profile("NicknameCasePreserved")
# Typed by every telephone instead of the plain one.
_PLAIN: Final = str.maketrans({"\u2019": "'", "\u2018": "'", "\u02bc": "'"})
_CAPITAL: Final = "LATIN LETTER SMALL CAPITAL "
_SMALL_CAPITALS: Final = {
    code: name[-1].lower()
    for code in range(0x250, 0xAB70)
    if (name := unicodedata.name(chr(code), "")).startswith(_CAPITAL) and len(name) == len(_CAPITAL) + 1
}
# A dot above a letter that has one already cannot be seen.
_SOFT_DOT: Final = "\u0307"


class NameFaultError(ValueError):
    """Nobody may be called that; the message says what is wrong."""


@dataclass(frozen=True, slots=True)
class PlayerName:
    """A name that a player may have."""

    shown: str
    """As it was chosen, normalised."""
    key: str
    """Equal for names that differ in case only."""
    skeleton: str
    """Equal for names that look alike."""


def parse_name(text: str, *, house_bot: bool = False) -> PlayerName:
    """The name somebody wants to have. Raises NameFaultError.

    Spaces around it are dropped and runs of spaces become one. A house bot may have a name that is reserved.
    """
    shown = _normalised(text)
    _check_characters(shown)
    _check_length(shown)
    _check_scripts(shown)
    name = PlayerName(shown, _key(shown), skeleton(shown))
    if not name.skeleton:
        raise NameFaultError("a name has at least one letter that does not look like punctuation")
    if len(name.skeleton) > SKELETON_LENGTH_MAX or len(name.key) > KEY_LENGTH_MAX:
        raise NameFaultError(f"a name has at most {LENGTH_MAX} characters")
    if not house_bot and (_is_reserved(name) or _like_a_neutral_name(name.skeleton)):
        raise NameFaultError("this name is reserved")
    return name


def neutral_name(player_id: str) -> str:
    """What a player is called who has no name: nobody may choose a name like this."""
    return NEUTRAL_PREFIX + hashlib.sha256(player_id.encode()).hexdigest()[:12]


def skeleton(shown: str) -> str:
    """The same for all names that look alike to somebody who does not mind case, spaces and punctuation.

    Case alone is the key's affair: a few names of one key have two skeletons.
    """
    # Prototypes are found before case is folded, since names are shown with their case, and again afterwards, since
    # they are compared without it. Then i, I, l and 1 must be one: I is both a capital i and the picture of an l.
    plain = shown.translate(_SMALL_CAPITALS)
    seen = _prototypes(_prototypes(plain).casefold()).casefold().replace("i", "l")
    for dotted in "lj":
        seen = seen.replace(dotted + _SOFT_DOT, dotted)
    return "".join(filter(_is_seen, seen)).replace("vv", "w")


def _is_seen(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN"


def _is_reserved(name: PlayerName) -> bool:
    """Whether it speaks for the service, also in small capitals, with accents, or as a word among others."""
    parts = re.split(rf"[{re.escape(SEPARATORS)}]+|(?<=[a-z])(?=[A-Z])", name.shown)
    looks = [_bare(part) for part in (name.shown, *parts)]
    whole, words = looks[0], {look for look in looks[1:] if look}
    if whole in _OFFICE_LOOKS | _RESERVED_LOOKS or words & _OFFICE_LOOKS:
        return True
    return bool(words) and words <= _RESERVED_LOOKS


def _bare(shown: str) -> str:
    """What it looks like without its marks."""
    return "".join(each for each in skeleton(shown) if not unicodedata.category(each).startswith("M"))


def _normalised(text: str) -> str:
    if len(text) > _RAW_LENGTH_MAX:
        raise NameFaultError(f"a name has at most {LENGTH_MAX} characters")
    if not text or text.isspace():
        raise NameFaultError("a name must not be empty")
    try:
        # Before anything that does more with each of them: one character may stand for many.
        if len(unicodedata.normalize("NFKC", text)) > _NORMAL_LENGTH_MAX:
            raise NameFaultError(f"a name has at most {LENGTH_MAX} characters")
        return str(_NICKNAME.enforce(text)).translate(_PLAIN)
    except UnicodeEncodeError as error:
        wrong = str(error.object)[error.start : error.start + 1]
        raise NameFaultError(f"a name must not contain {_described(wrong)}") from None


def _check_characters(shown: str) -> None:
    marks = 0
    for before, character in zip(" " + shown, shown, strict=False):
        category = unicodedata.category(character)
        marks = marks + 1 if category in ("Mn", "Mc") else 0
        if marks > MARKS_MAX:
            raise NameFaultError(f"a letter has at most {MARKS_MAX} marks")
        if category.startswith("L") or category == "Nd":
            continue
        if marks and before in SEPARATORS:
            raise NameFaultError("a mark must stand on a letter")
        if not marks and character not in SEPARATORS:
            raise NameFaultError(
                f"a name has letters, digits, spaces, and - _ . ' only, not {_described(character)}"
            )
        if not marks and before in SEPARATORS and (before, character) != (".", " "):
            raise NameFaultError(
                "a name begins with a letter or digit, and never has two of - _ . ' together, nor a space before one"
            )
    if shown[-1] in SEPARATORS.replace(".", ""):
        raise NameFaultError("a name does not end with - _ or '")
    if not any(unicodedata.category(character).startswith("L") for character in shown):
        raise NameFaultError("a name has at least one letter")


def _check_length(shown: str) -> None:
    length = sum(not unicodedata.category(character).startswith("M") for character in shown)
    if length < LENGTH_MIN:
        raise NameFaultError(f"a name has at least {LENGTH_MIN} characters")
    if length > LENGTH_MAX or len(shown) > CODE_POINTS_MAX:
        raise NameFaultError(f"a name has at most {LENGTH_MAX} characters")


def _check_scripts(shown: str) -> None:
    scripts = frozenset(map(alias, shown)) - _NO_SCRIPT
    if len(scripts) > 1 and not any(scripts <= mix for mix in _MIXES):
        mixed = " and ".join(sorted(script.capitalize() for script in scripts))
        raise NameFaultError(f"a name does not mix the letters of {mixed}")


def _key(shown: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", shown.casefold()).casefold())


def _described(character: str) -> str:
    if not character:
        return "nothing but spaces"
    name = unicodedata.name(character, "no character that can be shown").lower()
    return f"U+{ord(character):04X} ({name})"


def _like_a_neutral_name(seen: str) -> bool:
    start = skeleton(NEUTRAL_PREFIX)
    rest = seen.removeprefix(start)
    return seen.startswith(start) and len(rest) >= 6 and set(rest) <= set(skeleton("0123456789abcdef"))


def _prototypes(text: str) -> str:
    decomposed = unicodedata.normalize("NFD", text)
    return unicodedata.normalize("NFD", "".join(_LOOKS.get(character, character) for character in decomposed))


def _table() -> dict[str, str]:
    """What every character looks like: one member of each set of characters that look alike stands for all of them."""
    looks: dict[str, set[str]] = {}
    for character, homoglyphs in confusables.confusables_data.items():
        for homoglyph in homoglyphs:
            # The data wraps what is written from right to left in direction marks.
            one, other = character.strip("\u200e"), homoglyph["c"].strip("\u200e")
            if one and other:
                looks.setdefault(one, set()).add(other)
                looks.setdefault(other, set()).add(one)
    table: dict[str, str] = {}
    for start in looks:
        if start not in table:
            alike = _reachable(start, looks)
            # The data are stars around a prototype. Of a pair, the one that is a sequence.
            ranked = sorted(alike, key=lambda each: (len(looks[each]), len(each), each.isascii(), each))
            table.update(dict.fromkeys(alike, ranked[-1]))
            if not any(unicodedata.category(each)[0] in "LN" for each in ranked[-1]):
                # Punctuation is not seen, but a letter that looks like it is: of these one stands for the others.
                marked = any(map(_is_seen, ranked[-1]))
                letters = [each for each in ranked if _is_letter(each, of_any_script=marked)]
                table.update(dict.fromkeys(letters, letters[-1] if letters else ""))
    return {one: prototype for one, prototype in table.items() if len(one) == 1}


def _is_letter(text: str, *, of_any_script: bool) -> bool:
    """Whether it is one by itself: of a script that does not mix with Latin, as Cyrillic E and yod, unless of any script,
    as eth. Latin ones that look like an apostrophe are taken for one."""
    others = _NO_SCRIPT if of_any_script else _NO_SCRIPT | {"LATIN"}
    return all(
        unicodedata.category(each) in ("Lo", "Lu", "Ll") and alias(each) not in others for each in text
    )


def _reachable(start: str, edges: dict[str, set[str]]) -> Iterable[str]:
    found, todo = {start}, [start]
    while todo:
        fresh = edges[todo.pop()] - found
        found |= fresh
        todo.extend(fresh)
    return found


# Made with the module: a tenth of a second that no process has to spare once it serves.
_LOOKS: Final = _table()
_OFFICE_LOOKS: Final = frozenset(map(skeleton, _OFFICES))
_RESERVED_LOOKS: Final = frozenset(map(skeleton, _RESERVED))
