"""A ruling as it is stored: one row of the log, and what goes with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Final

from services.storage.endings import Ending
from services.storage.incidents import Touched


@dataclass(frozen=True, slots=True)
class Judged:
    """The stamps and figures behind a timed ruling. Nanoseconds."""

    turn: int
    start_ns: int | None = None
    arrive_ns: int | None = None
    start_raw_ns: int | None = None
    read_raw_ns: int | None = None
    timeline_id: str | None = None
    carried_ns: int | None = None
    elapsed_ns: int | None = None
    consumed_ns: int | None = None
    charge_ns: int | None = None
    bank_after_ns: int | None = None
    credited_ns: int | None = None
    clock_id: str | None = None
    policy_version: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One ruling to be stored."""

    match_id: str
    revision: int
    first_sequence: int
    last_sequence: int
    fence: int
    events: str
    """JSON array."""
    seat: str | None = None
    request_id: str | None = None
    request_hash: bytes | None = None
    judged: Judged | None = None
    ending: Ending | None = None
    touched: tuple[Touched, ...] = ()
    """Incidents that this ruling's figures rest on; stored before them."""


_JUDGED = tuple(field.name for field in fields(Judged))
COLUMNS: Final = (
    ("match_id", "uuid"),
    ("revision", "bigint"),
    ("first_sequence", "bigint"),
    ("last_sequence", "bigint"),
    ("fence", "bigint"),
    ("events", "text"),
    ("seat", "text"),
    ("request_id", "text"),
    ("request_hash", "bytea"),
    *(
        (name, "text" if name in ("timeline_id", "clock_id", "policy_version") else "bigint")
        for name in _JUDGED
    ),
)
NAMES: Final = ", ".join(name for name, _ in COLUMNS)
VALUES: Final = ", ".join("i.events::jsonb" if name == "events" else f"i.{name}" for name, _ in COLUMNS)


_PLAIN: Final = attrgetter(*(name for name, _ in COLUMNS[: -len(_JUDGED)]))
_FIGURES: Final = attrgetter(*_JUDGED)
_NOT_JUDGED: Final = (None,) * len(_JUDGED)


def arrays(entries: Sequence[Entry]) -> list[tuple[Any, ...]]:
    """The parameters of a statement that takes `COLUMNS`, one array each. There must be an entry."""
    rows = (
        _PLAIN(entry) + (_NOT_JUDGED if entry.judged is None else _FIGURES(entry.judged)) for entry in entries
    )
    return list(zip(*rows, strict=True))
