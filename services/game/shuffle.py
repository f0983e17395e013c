"""Where deals come from: the operating system's randomness. Nothing a player knows predicts one."""

from __future__ import annotations

import hashlib
import secrets
from typing import Final

from engine.deal import SALT_SIZE, Deal
from engine.shuffle import SEED_SIZE, seed_commitment
from engine.tiles import DOUBLE_SIX

_RANDOM: Final = secrets.SystemRandom()


def shuffled() -> Deal:
    """A fresh deal (rule 2.1)."""
    order = list(DOUBLE_SIX)
    _RANDOM.shuffle(order)
    return Deal.from_shuffle(order)


def salt() -> bytes:
    """Salt of a commitment."""
    return secrets.token_bytes(SALT_SIZE)


def secret() -> bytes:
    """What the seeds of one match come from."""
    return secrets.token_bytes(SEED_SIZE)


class Seeds:
    """The seeds of the rounds of one match, all from one secret of 32 bytes.

    Each is as good as random to whoever does not know the secret, and says nothing about another one: a record shows
    those of the rounds that were dealt. Every process that plays the match comes to the same ones.
    """

    __slots__ = ("_match_id", "_secret")

    def __init__(self, match_id: str, secret: bytes) -> None:
        self._match_id = match_id
        self._secret = secret

    def of(self, round_no: int) -> bytes:
        """The seed of a round, from 1."""
        text = f"spectacular-bid round seed 2\nmatch {self._match_id}\nround {round_no}\n"
        return hashlib.shake_256(self._secret + text.encode("ascii")).digest(SEED_SIZE)

    def commitment(self, round_no: int) -> str:
        """What players are told before they press for this round."""
        return seed_commitment(self._match_id, round_no, self.of(round_no))
