"""What a result says about the strength of two players (openskill, Thurstone-Mosteller).

A rating is a belief: a mean and an uncertainty, both in rating points. The ladder shows and orders by what the player
is very probably at least worth, so that uncertainty does not look like strength.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from openskill.models import ThurstoneMostellerFull

MU: Final = 1500.0
"""Mean of a new player."""
SIGMA: Final = 350.0
"""Uncertainty of a new player."""
BETA: Final = 175.0
"""How much luck and form move a player in a single match."""
TAU: Final = 2.0
"""How much uncertainty every match adds, so that a rating can follow a player who changes."""
SHOWN_SIGMAS: Final = 2.0
"""The ladder orders by mu minus so many sigma: what a player is very probably at least worth."""
PROVISIONAL_SIGMA: Final = 100.0
"""A rating whose uncertainty is above this is provisional. It falls below after 11 to 15 matches."""

MODEL_VERSION: Final = "openskill-6.2 ThurstoneMostellerFull v2"
"""Stored with every decision. A new model, release or parameter is a new version."""

_V1: Final = "openskill-6.2 ThurstoneMostellerFull v1"
_V1_MODEL: Final = ThurstoneMostellerFull(mu=MU, sigma=SIGMA, beta=BETA, tau=TAU)


def _undamped(*_: object) -> float:
    """What share of the uncertainty that a result takes away is really taken.

    openskill's default is sigma / c, which is small just when much is known: ratings stay more uncertain than the
    results justify, and go on moving too far. All of it is what the model itself says for two players.
    """
    return 1.0


_MODEL: Final = ThurstoneMostellerFull(mu=MU, sigma=SIGMA, beta=BETA, tau=TAU, gamma=_undamped)

Rate = Callable[[Mapping[str, "Rating"], str], "dict[str, Rating]"]


class UnknownModelError(ValueError):
    """This release cannot compute with that model: the release that decided with it can."""


class UnknownWinnerError(ValueError):
    """The winner is not one of the two players: there is nothing to rate."""


@dataclass(frozen=True, slots=True)
class Rating:
    """A belief about a player's strength, in rating points."""

    mu: float = MU
    sigma: float = SIGMA

    @property
    def shown(self) -> int:
        """The whole points that the ladder shows and orders by: mu - 2 sigma, rounded down. May be negative."""
        return math.floor(self.mu - SHOWN_SIGMAS * self.sigma)

    @property
    def provisional(self) -> bool:
        """Whether too little is known of the player to take the place on the ladder for more than a guess."""
        return self.sigma > PROVISIONAL_SIGMA


NEW: Final = Rating()
"""The rating of a player without a rated match."""


def expected(player: Rating, opponent: Rating) -> float:
    """The chance that the player wins, as far as the two ratings know."""
    spread = math.sqrt(2 * BETA**2 + player.sigma**2 + opponent.sigma**2)
    return 0.5 * (1 + math.erf((player.mu - opponent.mu) / spread / math.sqrt(2)))


def rate(before: Mapping[str, Rating], winner: str) -> dict[str, Rating]:
    """The ratings of both players after one match.

    `before` names exactly two players; `winner` is one of them. The result does not depend on their order. Raises
    UnknownWinnerError when the winner is nobody of the two: a label that is not understood must never become a
    result of any kind.
    """
    return _rate(_MODEL, before, winner)


def _rate(model: ThurstoneMostellerFull, before: Mapping[str, Rating], winner: str) -> dict[str, Rating]:
    if len(before) != 2:
        raise ValueError(f"a match has two players, not {len(before)}")
    if winner not in before:
        raise UnknownWinnerError(f"the winner is none of the two players: {winner!r}")
    (loser,) = (player for player in before if player != winner)
    # The model always sees the winner first, so that not even rounding depends on who is listed first.
    [[won], [lost]] = model.rate(
        [[model.rating(mu=before[player].mu, sigma=before[player].sigma)] for player in (winner, loser)],
        ranks=[1, 2],
    )
    after = {winner: Rating(won.mu, won.sigma), loser: Rating(lost.mu, lost.sigma)}
    return {player: after[player] for player in before}


def _rate_v1(before: Mapping[str, Rating], winner: str) -> dict[str, Rating]:
    return _rate(_V1_MODEL, before, winner)


_MODELS: Final[Mapping[str, Rate]] = {_V1: _rate_v1, MODEL_VERSION: rate}
"""Every model that decisions were made with and that can still be computed exactly."""


def model(version: str) -> Rate:
    """How decisions of that version come from the ratings before and the winner. Raises UnknownModelError."""
    found = _MODELS.get(version)
    if found is None:
        raise UnknownModelError(f"this release does not know the rating model {version!r}")
    return found
