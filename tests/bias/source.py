"""Shuffles as the service makes them, and shuffles with mistakes in them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from engine.seats import BySeat
from engine.shuffle import shuffled
from services.game import shuffle
from services.game.shuffle import Seeds

ROUNDS: Final = 10
"""Of a match, to see whether one deal says anything about the next."""

Source = Callable[[int], NDArray[Any]]
"""So many matches: tiles by match, round and place."""


def ours(matches: int) -> NDArray[Any]:
    """Through the very functions that deal: a secret of the operating system for each match, seeds, contributions.

    A third of the matches has none, a third the same ones in each round, as of a client that does not care, and a third
    random ones.
    """
    made = np.empty((matches, ROUNDS, 28), np.uint8)
    for number in range(matches):
        match_id = str(uuid.uuid4())
        seeds = Seeds(match_id, shuffle.secret())
        for round_no in range(1, ROUNDS + 1):
            order = shuffled(match_id, round_no, seeds.of(round_no), _given(number))
            made[number, round_no - 1] = [tile.id for tile in order]
    return made


def _given(number: int) -> BySeat[bytes]:
    kind = number % 3
    if kind == 0:
        return BySeat(b"", b"")
    return BySeat(bytes(32), b"\xff") if kind == 1 else BySeat(shuffle.secret(), shuffle.secret())


def without_rejection(matches: int) -> NDArray[Any]:
    """A byte modulo the number of choices: what comes of it when no byte is skipped."""
    return _made(matches, lambda dice, choices, size: dice.integers(0, 256, size) % choices)


def one_too_few(matches: int) -> NDArray[Any]:
    """A tile never stays where it is: the best known slip in this shuffle."""
    return _made(matches, lambda dice, choices, size: dice.integers(0, choices - 1, size))


def _made(matches: int, choose: Callable[[np.random.Generator, int, int], NDArray[Any]]) -> NDArray[Any]:
    dice = np.random.default_rng(5)
    orders = np.tile(np.arange(28, dtype=np.uint8), (matches * ROUNDS, 1))
    every = np.arange(len(orders))
    for last in range(27, 0, -1):
        places = choose(dice, last + 1, len(orders))
        kept = orders[:, last].copy()
        orders[:, last] = orders[every, places]
        orders[every, places] = kept
    return orders.reshape(matches, ROUNDS, 28)


def fair(matches: int, seed: int = 7) -> NDArray[Any]:
    """Somebody else's shuffle without a mistake."""
    dice = np.random.default_rng(seed)
    return dice.permuted(np.tile(np.arange(28, dtype=np.uint8), (matches, ROUNDS, 1)), axis=2)


def one_tile_favoured(matches: int) -> NDArray[Any]:
    """In one deal of ten, the heaviest tile is north's if it was south's; it is then north's in 27.5 of 100 deals."""
    made = fair(matches)
    for order in made.reshape(-1, 28)[::10]:
        (place,) = np.flatnonzero(order == 27)
        if 7 <= place < 14:
            order[[place, place - 7]] = order[[place - 7, place]]
    return made


def half_remembered(matches: int) -> NDArray[Any]:
    """In one match of 20 the second deal has the boneyard of the first; each deal by itself is fair."""
    made = fair(matches)
    for match in made[::20]:
        rest = [tile for tile in match[1] if tile not in set(match[0][14:])]
        match[1] = [*rest, *match[0][14:]]
    return made
