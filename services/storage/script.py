"""Start positions and deals of a test configuration, as stored with a match."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.deal import Deal
from engine.match import RANKED, Auctioned, Match
from engine.seats import BySeat, Seat
from engine.tiles import Tile
from services.storage.matches import MatchRow


@dataclass(frozen=True, slots=True)
class Script:
    """What a test decides instead of the rules' defaults and the shuffle."""

    balances: tuple[int, int] | None = None
    jockey: Seat | None = None
    deals: tuple[Deal, ...] = ()

    def dump(self) -> str | None:
        """JSON, or None when nothing is scripted."""
        if self == Script():
            return None
        return json.dumps(
            {
                "balances": self.balances,
                "jockey": self.jockey,
                "deals": [_texts((*deal.north, *deal.south, *deal.boneyard)) for deal in self.deals],
            }
        )

    @staticmethod
    def load(text: str | None) -> Script:
        """What `dump` wrote. Raises ValueError for anything else."""
        if text is None:
            return Script()
        try:
            data: dict[str, Any] = json.loads(text)
            balances = data["balances"]
            return Script(
                balances=None if balances is None else (balances[0], balances[1]),
                jockey=None if data["jockey"] is None else Seat(data["jockey"]),
                deals=tuple(Deal.from_shuffle([Tile.parse(tile) for tile in deal]) for deal in data["deals"]),
            )
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise ValueError(f"the stored script makes no sense: {error!r}") from error


def _texts(tiles: Sequence[Tile]) -> list[str]:
    return [str(tile) for tile in tiles]


def first_state(row: MatchRow) -> Match:
    """The match before its first event."""
    return start_of(row.script, row.bank_ns, row.delay_ns, same_device=row.same_device)


def start_of(script: str | None, bank_ns: int, delay_ns: int, *, same_device: bool) -> Match:
    """The match before its first event, from its stored conditions."""
    wanted = Script.load(script)
    return Match.start(
        balances=None if wanted.balances is None else BySeat(*wanted.balances),
        opening=RANKED if wanted.jockey is None else Auctioned(wanted.jockey),
        banks_ns=BySeat(bank_ns, bank_ns),
        delay_ns=delay_ns,
        mode="same_device" if same_device else "online",
    )
