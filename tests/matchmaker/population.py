"""Tickets for tests: made by chance, and made by hand."""

from __future__ import annotations

from random import Random

from hypothesis import settings
from hypothesis import strategies as st

from matchmaker.ticket import SECOND, Ticket

NOW = 1_000 * SECOND

timeless = settings(deadline=None)
"""For properties: how long an example takes on a busy machine says nothing."""

NAMES = st.integers(0, 60).map(str)

# Many coincide or lie on a bound, so that ties and limits are met often.
RATINGS = st.one_of(
    st.sampled_from([1500.0, 1600.0, 1650.0]), st.floats(0, 3000), st.integers(1400, 1700).map(float)
)


def tickets(most: int = 40) -> st.SearchStrategy[list[Ticket]]:
    """Any players, each waiting once."""
    return st.lists(
        st.builds(
            Ticket,
            player_id=NAMES,
            rating=RATINGS,
            since=st.one_of(st.integers(0, 4), st.integers(0, 120)).map(lambda waited: NOW - waited * SECOND),
            sigma=st.sampled_from([60.0, 350.0]),
            recent=st.frozensets(NAMES, max_size=4),
            lowest=st.one_of(st.none(), st.none(), RATINGS),
            highest=st.one_of(st.none(), st.none(), RATINGS),
            blocked=st.frozensets(NAMES, max_size=3),
        ),
        max_size=most,
        unique_by=lambda ticket: ticket.player_id,
    )


def ticket(name: str, rating: float = 1500.0, waited: float = 0.0) -> Ticket:
    """A player without wishes who has waited so many seconds."""
    return Ticket(name, rating, NOW - int(waited * SECOND))


def evening(size: int, random: Random) -> list[Ticket]:
    """A crowd as it may be waiting: most came just now, few set limits, some have just met."""
    crowd = []
    for number in range(size):
        rating = random.gauss(1500, 300)
        limited = random.random() < 0.1
        crowd.append(
            Ticket(
                player_id=str(number),
                rating=rating,
                since=NOW - int(random.expovariate(0.5) * SECOND),
                sigma=random.choice([50.0, 60.0, 70.0, 350.0]),
                recent=frozenset(str(random.randrange(size)) for _ in range(3)),
                lowest=rating - random.choice([50, 100, 200]) if limited else None,
                highest=rating + random.choice([50, 100, 200]) if limited else None,
                blocked=frozenset({str(random.randrange(size))}) if limited else frozenset(),
            )
        )
    return crowd
