"""How long a session may keep others waiting: limits of time by role, asked for with each connection.

Migrations give the roles the same limits where the owner may; asking for them besides makes them hold everywhere. None of
them ends a commit that waits for a standby: PostgreSQL stops that clock before it commits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Limits:
    """In seconds. What is cut off has changed nothing, and may be tried again."""

    statement: int
    """One statement, with its waits for locks. Without it the server works on for whoever has gone."""
    lock: int
    """One wait for a lock."""
    idle: int
    """In a transaction in which nothing is asked."""


LIMITS: Final[Mapping[str, Limits]] = {
    # A ruling that waits for longer is tried again; after 60 s of that its match is void.
    "game": Limits(5, 2, 15),
    "matchmaking": Limits(10, 5, 15),
    "clock": Limits(5, 2, 5),
    "archiver": Limits(60, 5, 60),
    "reader": Limits(60, 10, 60),
    "operator": Limits(120, 10, 60),
}
"""By role, as in `services.storage.privileges`."""

ONE_PLAN: Final = frozenset({"game", "clock"})
"""Roles whose statements all go by keys, the same few again and again: each is planned once in a session, not anew as
often as the server thinks that the values make a difference. To plan what they look for each second costs more than to
look for it."""

LADDER_SECONDS: Final = 120
"""One statement of whoever has the ladder to itself: everything later that a ruling reaches is decided again."""
WHOLE_SECONDS: Final = 3600
"""One statement over all rows there are, where a person waits for it."""


def session_settings(role: str, application: str) -> dict[str, str]:
    """What a connection of that role asks of the server. `application` is what the server calls it.

    Raises KeyError for a role that is not known.
    """
    limits = LIMITS[role]
    plans = {"plan_cache_mode": "force_generic_plan"} if role in ONE_PLAN else {}
    return plans | {
        "application_name": application,
        "statement_timeout": f"{limits.statement}s",
        "lock_timeout": f"{limits.lock}s",
        "idle_in_transaction_session_timeout": f"{limits.idle}s",
    }


def statement_seconds(seconds: int) -> str:
    """A statement that lets the others of its transaction take so long."""
    return f"set local statement_timeout = '{int(seconds)}s'"
