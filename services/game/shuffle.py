"""Deals from the operating system's randomness. Nothing a player knows predicts one."""

from __future__ import annotations

import secrets
from typing import Final

from engine.deal import SALT_SIZE, Deal
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
