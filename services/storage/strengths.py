"""What pairing knows of a player: the rating, and whom she has just met."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from matchmaker.rating import NEW, Rating
from services.storage.pool import Connection

RECENT_MATCHES: Final = 3
RECENT: Final = timedelta(hours=1)
"""Recent opponents are those of a player's last RECENT_MATCHES matches of matchmaking, if not older than this."""


@dataclass(frozen=True, slots=True)
class Strength:
    """One player as pairing sees her."""

    rating: Rating
    """That of a new player without a rated match."""
    shown: int
    """Shown rating in whole points; 0 without a rated match."""
    recent: frozenset[str]
    """Recent opponents."""


async def strength_of(connection: Connection, player_id: str) -> Strength:
    """What pairing knows of a player who has a row in `player`."""
    row = await connection.fetchrow(
        """
        select r.mu, r.sigma, r.shown, array(
            select case when m.north = $1 then m.south else m.north end
            from (
                (select * from match where north = $1 and mode in ('rated', 'casual') and created_at > statement_timestamp() - $3::interval
                 order by created_at desc, match_id desc limit $2)
                union all
                (select * from match where south = $1 and mode in ('rated', 'casual') and created_at > statement_timestamp() - $3::interval
                 order by created_at desc, match_id desc limit $2)
            ) m
            order by m.created_at desc limit $2
        ) as recent
        from player p left join rating r on r.player_id = p.player_id and r.rated_matches > 0
        where p.player_id = $1
        """,
        player_id,
        RECENT_MATCHES,
        RECENT,
    )
    assert row is not None, "a player without a row"
    if row["mu"] is None:
        return Strength(NEW, 0, frozenset(row["recent"]))
    return Strength(Rating(row["mu"], row["sigma"]), row["shown"], frozenset(row["recent"]))
