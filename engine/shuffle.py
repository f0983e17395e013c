"""Deals that neither the service nor a player chooses alone.

Before anybody may press Start or Continue, the service has told a commitment to a secret seed for the round. With the
press, each player may send bytes of its own. The deal follows from the seed and both contributions, so the service
could not choose it (the seed was fixed before, and it did not know what the players would send), and no player could
foresee it (nobody but the service knows the seed). When the match is over its record shows the seed, and anybody can
deal again: `python -m engine verify`.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from engine.deal import Deal
from engine.event import Continued, RoundDealt, Started
from engine.seats import BySeat
from engine.tiles import DOUBLE_SIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.event import Event
    from engine.tiles import Tile

SEED_SIZE: Final = 32
"""Bytes of a round's seed."""
CONTRIBUTION_MAX: Final = 32
"""The most bytes a player can add to a deal."""
NOTHING: Final = BySeat(b"", b"")
"""Nobody has added anything."""

_BLOCK: Final = 256
"""Bytes squeezed at first; a shuffle of 28 takes 30 of them on average."""


def seed_commitment(match_id: str, round_no: int, seed: bytes) -> str:
    """The SHA-256 of a round's seed, as 64 lower-case hexadecimal digits: told before anybody presses for that round.

    What is hashed: the 32 bytes of the seed, then this text in ASCII, where each line ends with one newline::

        spectacular-bid seed 2
        match 8b96c3f0-…
        round 3

    ValueError when the seed does not have 32 bytes.
    """
    text = f"spectacular-bid seed 2\nmatch {match_id}\nround {round_no}\n"
    return hashlib.sha256(_checked(seed) + text.encode("ascii")).hexdigest()


def drawn(match_id: str, round_no: int, seed: bytes, contributions: BySeat[bytes]) -> Deal:
    """The deal of a round: of the shuffled tiles the first seven are north's, the next seven south's, the rest is the
    boneyard. ValueError as `shuffled`."""
    return Deal.from_shuffle(shuffled(match_id, round_no, seed, contributions))


def shuffled(match_id: str, round_no: int, seed: bytes, contributions: BySeat[bytes]) -> list[Tile]:
    """The 28 tiles, shuffled by what SHAKE-256 gives of everything that is known when the round is dealt.

    What goes in: the 32 bytes of the seed, then this text, with contributions in lower-case hexadecimal digits (nothing
    stands behind the space when there is none)::

        spectacular-bid deal 2
        match 8b96c3f0-…
        round 3
        north 00ff…
        south 3a…

    The shuffle is that of Fisher and Yates, of the tiles in order of their ids, from the last place to the second: for a
    place with n tiles to choose from, the next byte below the largest multiple of n up to 256 counts, modulo n; bytes
    that are not below it are skipped, so that each tile is exactly as likely. ValueError when the seed does not have 32
    bytes or a contribution more than 32.
    """
    if any(len(given) > CONTRIBUTION_MAX for given in contributions):
        msg = f"a contribution has more than {CONTRIBUTION_MAX} bytes"
        raise ValueError(msg)
    text = (
        f"spectacular-bid deal 2\nmatch {match_id}\nround {round_no}\n"
        f"north {contributions.north.hex()}\nsouth {contributions.south.hex()}\n"
    )
    stream = _stream(_checked(seed) + text.encode("ascii"))
    order = list(DOUBLE_SIX)
    for last in range(len(order) - 1, 0, -1):
        choices = last + 1
        fair = 256 - 256 % choices
        byte = next(stream)
        while byte >= fair:
            byte = next(stream)
        place = byte % choices
        order[last], order[place] = order[place], order[last]
    return order


def offered(before: BySeat[bytes], events: Iterable[Event]) -> BySeat[bytes]:
    """What the players have added to the next deal after these events; a deal uses it up."""
    for event in events:
        if isinstance(event, Started | Continued):
            before = before.put(event.seat, event.contribution)
        elif isinstance(event, RoundDealt):
            before = NOTHING
    return before


def _checked(seed: bytes) -> bytes:
    if len(seed) != SEED_SIZE:
        msg = f"the seed has {len(seed)} bytes instead of {SEED_SIZE}"
        raise ValueError(msg)
    return seed


def _stream(data: bytes) -> Iterator[int]:
    """The bytes that SHAKE-256 gives of `data`, without end."""
    given, size = 0, _BLOCK
    while True:
        # A longer output begins with the shorter one.
        block = hashlib.shake_256(data).digest(size)
        yield from block[given:]
        given, size = size, 2 * size
