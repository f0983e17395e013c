"""Rated matches with who played whom, what the ratings expected, and how long it lasted: what shows players who collude."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from matchmaker.rating import Rating, expected
from services.storage.matchlog import LENGTH_OF, LENGTHS
from services.storage.pool import Connection


@dataclass(frozen=True, slots=True)
class RatedMatch:
    """One match that changed ratings."""

    match_id: UUID
    winner: str
    loser: str
    chance: float
    """That the winner would win, by the ratings before."""
    cause: str
    turns: int


_RATED: Final = f"""
select o.match_id, o.winner, o.cause, m.north, m.south,
       d.north_mu_before, d.north_sigma_before, d.south_mu_before, d.south_sigma_before, {LENGTH_OF}
from match_outcome o
join match m on m.match_id = o.match_id
join rating_decision d on d.match_id = o.match_id and d.rated
{LENGTHS}
where o.ended_at >= $1
order by o.ended_no
"""  # noqa: S608 - made of constants


async def get_rated_matches(connection: Connection, since: datetime) -> list[RatedMatch]:
    """All that ended since then and count, in the order in which they ended."""
    return [
        RatedMatch(
            row["match_id"],
            row[row["winner"]],
            row["south" if row["winner"] == "north" else "north"],
            _chance(row["winner"], dict(row)),
            row["cause"],
            row["turns"],
        )
        for row in await connection.fetch(_RATED, since)
    ]


def _chance(winner: str, row: dict[str, float]) -> float:
    loser = "south" if winner == "north" else "north"
    ratings = [Rating(row[f"{seat}_mu_before"], row[f"{seat}_sigma_before"]) for seat in (winner, loser)]
    return expected(*ratings)
