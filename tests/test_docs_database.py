"""The tables of the page on security about the database are those of the code."""

from __future__ import annotations

from services.storage.migrate import LOCK_ATTEMPTS, LOCK_SECONDS
from services.storage.privileges import ROLE_PREFIX, TABLES
from services.storage.sessions import LADDER_SECONDS, LIMITS, WHOLE_SECONDS
from tests.test_docs import name, table, text

SECURITY = "docs/security.md"


def test_the_privileges_are_those_of_the_code() -> None:
    roles = list(LIMITS)
    said = {
        name(row[0]): {role: cell for role, cell in zip(roles, row[1:], strict=True) if cell}
        for row in table(SECURITY, "Who may do what")
    }
    assert said == TABLES
    assert [name(row[0]) for row in table(SECURITY, "The database")] == [f"{ROLE_PREFIX}{r}" for r in roles]


def test_the_limits_of_time_are_those_of_the_code() -> None:
    said = {role: tuple(map(int, limits)) for role, *limits in table(SECURITY, "Limits of time")}
    assert said == {role: (each.statement, each.lock, each.idle) for role, each in LIMITS.items()}
    prose = " ".join(text(SECURITY).split())
    assert f"has {LADDER_SECONDS} s for a statement; `check` has an hour" in prose
    assert WHOLE_SECONDS == 3600
    assert f"waits {LOCK_SECONDS} s for a table" in prose
    assert f"{LOCK_ATTEMPTS} times in all" in prose
