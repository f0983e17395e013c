"""Whom the number of waiting players is told to before the clock says so."""

from __future__ import annotations

import uuid

from matchmaker.ticket import Ticket
from services.matchmaking.seekers import NOTABLE_SHARE, Seeker, Seekers
from services.storage.matches import PlayerRow


def crowd(size: int) -> tuple[Seekers, Seeker]:
    """So many who wait, and the first of them, who was told how many they are."""
    seekers = Seekers()
    for number in range(size):
        join(seekers, f"p{number}")
    first = next(iter(seekers))
    first.told_waiting = size
    return seekers, first


def join(seekers: Seekers, player_id: str) -> None:
    """One more."""
    player = PlayerRow(player_id, player_id, bot=False)
    seekers.add(Seeker(player, "rated", uuid.uuid4(), Ticket(player_id, 1500.0, 0), 0))


async def is_nudged(seeker: Seeker, seekers: Seekers) -> bool:
    """Whether an announcement reaches the seeker."""
    seekers.announce()
    return seeker._news.is_set()


async def test_among_few_each_change_is_told_at_once() -> None:
    for size in (1, 2, NOTABLE_SHARE):
        seekers, first = crowd(size)
        assert not await is_nudged(first, seekers)
        join(seekers, "late")
        assert await is_nudged(first, seekers)


async def test_in_a_crowd_a_change_that_says_little_waits_for_the_next_news() -> None:
    """Each change would be a message to everybody, as often as anybody comes."""
    seekers, first = crowd(NOTABLE_SHARE * 100)
    for number in range(99):
        join(seekers, f"late-{number}")
    assert not await is_nudged(first, seekers)
    join(seekers, "late")
    assert await is_nudged(first, seekers)


async def test_who_was_told_nothing_yet_is_about_to_be() -> None:
    seekers, first = crowd(3)
    first.told_waiting = 0
    assert not await is_nudged(first, seekers)
