"""A ruling as it is stored: one row of the log, and what goes with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Final

from services.common.values import value
from services.storage.endings import Ending
from services.storage.incidents import Touched


@value
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


@value
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


_NUMBERS: Final = tuple(name for name, kind in COLUMNS if kind == "bigint")
_TEXTS: Final = tuple(name for name, kind in COLUMNS if kind != "bigint")
ROW_ENDS: Final = "\x1e"
FIELD_ENDS: Final = "\x1f"
"""JSON writes such characters in another way, and nothing else that is stored has them."""
NULL: Final = "None"
"""As Python writes it. A request id that is the same has something before it."""
_CASTS: Final = {
    "match_id": "{}::uuid",
    "events": "{}::jsonb",
    "request_id": "substr({}, 2)",
    "request_hash": "decode({}, 'hex')",
}


def rows_sql(parameter: int) -> str:
    """A query for what `rows` has put into the text that is this parameter: columns with the names of `COLUMNS`."""
    fields = {name: f"numbers[{place}]" for place, name in enumerate(_NUMBERS, 1)} | {
        name: _CASTS.get(name, "{}").format(f"field[{place}]") for place, name in enumerate(_TEXTS, 2)
    }
    # With `offset 0` a row is taken to pieces once, and not once for each column.
    return f"""
        select {", ".join(f"{fields[name]} as {name}" for name, _ in COLUMNS)} from (
            select field, replace(field[1], '{NULL}', 'NULL')::bigint[] as numbers from (
                select string_to_array(line, '{FIELD_ENDS}', '{NULL}') as field
                from string_to_table(${parameter}::text, '{ROW_ENDS}') as line offset 0
            ) as taken offset 0
        ) as divided"""  # noqa: S608 - made of the constants above


_IDENTITY: Final = attrgetter(*(name for name in _NUMBERS if name not in _JUDGED))
_FIGURES: Final = attrgetter(*(name for name in _NUMBERS if name in _JUDGED))
_MARKS: Final = attrgetter(*(name for name in _TEXTS if name in _JUDGED))
_NO_FIGURES: Final = (None,) * sum(name in _JUDGED for name in _NUMBERS)
_NO_MARKS: Final = (None,) * sum(name in _JUDGED for name in _TEXTS)
_ROW: Final = FIELD_ENDS.join(("{" + ",".join(["%s"] * len(_NUMBERS)) + "}", *(["%s"] * len(_TEXTS))))


def rows(entries: Sequence[Entry]) -> str:
    """All of it in one text, for `rows_sql`: the driver looks at each element of an array, which is 24 times as many."""
    return ROW_ENDS.join(map(_row, entries))


def _row(entry: Entry) -> str:
    judged, asked, payload = entry.judged, entry.request_id, entry.request_hash
    texts = (
        entry.match_id,
        entry.events,
        entry.seat,
        None if asked is None else f"={asked}",
        None if payload is None else payload.hex(),
    )
    if judged is None:
        return _ROW % (*_IDENTITY(entry), *_NO_FIGURES, *texts, *_NO_MARKS)
    return _ROW % (*_IDENTITY(entry), *_FIGURES(judged), *texts, *_MARKS(judged))
