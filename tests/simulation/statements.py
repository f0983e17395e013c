"""What the statements of services.storage do to the rows of matches and their logs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from services.storage import endings, entry, incidents
from tests.simulation.database import Backend, Row, Tables, says

NUMBERS = tuple(name for name, kind in entry.COLUMNS if kind == "bigint")
TEXTS = tuple(name for name, kind in entry.COLUMNS if kind != "bigint")
ENDED = tuple(name for name, _ in endings.OUTCOME + endings.EVIDENCE)
EVIDENCE = ("evidence_id", "match_id", *(name for name, _ in endings.EVIDENCE[:-1]))
INCIDENT = tuple(name for name, _ in incidents.INCIDENT)
TOUCHED = tuple(name for name, _ in incidents.TOUCHED)
ENDING = len(ENDED) + 2
"""Columns of an end: with those that did not come."""
_STORED = "with stored as (select * from unnest($1::uuid[]) as s (match_id)), "


# The log.


@says("with input as (")
def append(backend: Backend, tables: Tables, engine_id: str, rulings: str, *more: Sequence[Any]) -> list[Row]:
    """Rows of owned matches, on conflict do nothing; the incidents that they rest on and the ends that come with them."""
    database, stored = backend.database, []
    for row in map(_ruling, rulings.split(entry.ROW_ENDS)):
        match_id = row["match_id"]
        owner = tables.owner.get(match_id)
        if owner is None or owner["released_at"] is not None:
            continue
        backend.lock("owner", match_id, shared=True)
        backend.lock("log", f"{match_id} {row['revision']}")
        if database.checks_fences and (owner["engine_id"], owner["fence"]) != (engine_id, row["fence"]):
            continue
        log = tables.log[match_id]
        if row["revision"] > max((known["revision"] for known in log), default=0) + 1:
            continue
        if any(
            known["revision"] == row["revision"]
            or known["first_sequence"] == row["first_sequence"]
            or (
                row["request_id"] is not None
                and (known["seat"], known["request_id"]) == (row["seat"], row["request_id"])
            )
            for known in log
        ):
            continue
        backend.later(lambda log=log, row=row: _insert(backend, log, row))  # type: ignore[misc]
        stored.append({"match_id": UUID(match_id)})
    now = [row["match_id"] for row in stored]
    if len(more) not in (0, ENDING):
        put_touched(backend, tables, now, *more[: len(TOUCHED + INCIDENT)])
        more = more[len(TOUCHED + INCIDENT) :]
    if more:
        end(backend, tables, now, *more)
    return stored


def _ruling(text: str) -> Row:
    """A row of the log as its writer describes it."""
    numbers, *texts = (None if field == entry.NULL else field for field in text.split(entry.FIELD_ENDS))
    assert numbers is not None
    row: Row = {
        name: None if number == entry.NULL else int(number)
        for name, number in zip(NUMBERS, numbers[1:-1].split(","), strict=True)
    }
    row |= zip(TEXTS, texts, strict=True)
    if row["request_id"] is not None:
        row |= {"request_id": row["request_id"][1:], "request_hash": bytes.fromhex(row["request_hash"])}
    return row


def _insert(backend: Backend, log: list[Row], row: Row) -> None:
    row["at"] = backend.database.wall()
    row["true_at"] = backend.database.world.now
    log.append(row)
    log.sort(key=lambda known: int(known["revision"]))


@says("select fence, events = $3::jsonb as same")
def read_back(backend: Backend, tables: Tables, match_id: UUID, revision: int, events: str) -> list[Row]:
    """Whether a ruling is there."""
    return [
        {"fence": row["fence"], "same": json.loads(row["events"]) == json.loads(events)}
        for row in tables.log[str(match_id)]
        if row["revision"] == revision
    ]


@says("select pg_logical_emit_message")
def safe(_backend: Backend, _tables: Tables) -> None:
    """There is one server here, and what it has is safe."""


@says("select engine_id, fence from match_owner")
def owner_for_update(backend: Backend, tables: Tables, match_id: UUID) -> list[Row]:
    """Who may put rulings of a match back. Nothing is ever lost here: what is written then is no statement of ours."""
    owner = tables.owner.get(str(match_id))
    if owner is None:
        return []
    backend.lock("owner", str(match_id))
    return [{"engine_id": owner["engine_id"], "fence": owner["fence"]}]


@says("select exists (select from match_archive")
def is_archived(_backend: Backend, _tables: Tables, _match_id: UUID) -> list[Row]:
    """No match of a world is over for so long that its log was moved."""
    return [{"exists": False}]


@says("select count(*) from match_log where match_id")
def count_before(backend: Backend, tables: Tables, match_id: UUID, first: int) -> list[Row]:
    """How many rulings there are before one."""
    return [{"count": sum(row["revision"] < first for row in tables.log[str(match_id)])}]


@says("select k.revision, l.fence = k.fence")
def compare(
    backend: Backend,
    tables: Tables,
    match_id: UUID,
    revisions: Sequence[int],
    fences: Sequence[int],
    events: Sequence[str],
) -> list[Row]:
    """Which of these rulings are there, and are the same."""
    wanted = {
        revision: (fence, json.loads(text))
        for revision, fence, text in zip(revisions, fences, events, strict=True)
    }
    return [
        {
            "revision": row["revision"],
            "same": (row["fence"], json.loads(row["events"])) == wanted[row["revision"]],
        }
        for row in tables.log[str(match_id)]
        if row["revision"] in wanted
    ]


@says(_STORED + "ended as (")
def end(backend: Backend, tables: Tables, stored: Sequence[UUID], *columns: Sequence[Any]) -> None:
    """END: evidence, the outcome (the first one stands), and nobody owns a match that is over."""
    wall = backend.database.wall_ns()
    for values in zip(*columns[: len(ENDED)], strict=True):
        row: Row = dict(zip(ENDED, values, strict=True))
        if row["match_id"] not in stored:
            continue
        match_id, proof = str(row["match_id"]), row["evidence_id"]
        evidence = {**{name: row[name] for name in EVIDENCE}, "detail": row["evidence"]}
        outcome = {name: row[name] for name, _ in endings.OUTCOME}
        outcome |= {"match_id": match_id, "ended_at": backend.database.wall()}
        backend.lock("outcome", match_id)
        backend.lock("owner", match_id)
        if proof is not None:
            backend.later(lambda proof=proof, row=evidence: tables.evidence.setdefault(str(proof), row))  # type: ignore[misc]
        backend.later(lambda key=match_id, row=outcome: tables.outcome.setdefault(key, row))  # type: ignore[misc]
        backend.later(lambda key=match_id: tables.owner[key].update(released_at=wall))  # type: ignore[misc]


@says("insert into incident (")
def put_incident(backend: Backend, tables: Tables, *values: Any) -> None:
    """An incident."""
    row = dict(zip(INCIDENT, values, strict=True))
    row["incident_id"] = str(row["incident_id"])
    backend.later(lambda: tables.incident.setdefault(row["incident_id"], row))


@says("insert into incident_match (incident_id, match_id, effect) select")
def put_touches(backend: Backend, tables: Tables, incident_id: UUID, match_id: UUID, effect: str) -> None:
    """What a stored incident did to a match without crediting it."""
    key = (str(incident_id), str(match_id))
    if key[0] in tables.incident and key[1] in tables.match:
        backend.later(lambda: tables.touched.setdefault(key, {"effect": effect, "credited_ns": 0}))


@says(_STORED + "touching as (")
def put_touched(backend: Backend, tables: Tables, stored: Sequence[UUID], *columns: Sequence[Any]) -> None:
    """What incidents did to matches, once more is added; and the incidents."""
    matches = {str(match_id) for match_id in stored}
    touches = [
        dict(zip(TOUCHED, map(str, values[:3]), strict=False)) | {"credited_ns": values[3]}
        for values in zip(*columns[: len(TOUCHED)], strict=True)
        if str(values[1]) in matches
    ]
    rested_on = {touch["incident_id"] for touch in touches}
    for values in zip(*columns[len(TOUCHED) :], strict=True):
        if str(values[0]) in rested_on:
            put_incident(backend, tables, *values)
    for touch in touches:
        backend.later(lambda touch=touch: _touch(tables, touch))  # type: ignore[misc]


def _touch(tables: Tables, touch: Row) -> None:
    key, effect = (touch["incident_id"], touch["match_id"]), touch["effect"]
    before = tables.touched.get(key, {"effect": effect, "credited_ns": 0})
    did = before["effect"] if effect == "continued" else effect
    tables.touched[key] = {"effect": did, "credited_ns": before["credited_ns"] + touch["credited_ns"]}


@says("select m.match_id, (extract(epoch from clock_timestamp() - coalesce(l.at")
def open_turns(backend: Backend, tables: Tables, match_ids: Sequence[UUID]) -> list[Row]:
    """How old each turn is, and the changes of owner in it."""
    names = ("kind", "noticed_by", "began_at", "ended_at", "policy_version", "engine_id", "reason", "detail")
    rows: list[Row] = []
    for match_id in sorted(match_ids):
        log, wall = tables.log[str(match_id)], backend.database.wall()
        since = log[-1]["at"] if log else tables.match[str(match_id)].created_at
        age = (wall - since) // timedelta(microseconds=1) * 1000
        found = [
            {"incident_id": UUID(incident_id), **{name: tables.incident[incident_id][name] for name in names}}
            for incident_id, touched in tables.touched
            if touched == str(match_id) and tables.incident[incident_id]["kind"] in ("takeover", "handoff")
        ]
        turn = [row for row in found if not log or row["ended_at"] > since]
        turn = sorted(turn, key=lambda row: row["ended_at"]) or [dict.fromkeys(("incident_id", *names))]
        rows += [{"match_id": match_id, "age": age, **row} for row in turn]
    return rows


# Matches.


@says("insert into match_seed")
def put_seeds(
    backend: Backend, tables: Tables, match_ids: Sequence[UUID], seeds: Sequence[bytes]
) -> list[Row]:
    """The first one of each match stands."""
    stored: list[Row] = []
    for match_id, seed in zip(match_ids, seeds, strict=True):
        backend.lock("seed", str(match_id))
        if str(match_id) not in tables.seed:
            backend.later(lambda key=str(match_id), seed=seed: tables.seed.setdefault(key, seed))  # type: ignore[misc]
            stored.append({"match_id": match_id, "seed": seed})
    return stored


@says("select match_id, seed from match_seed")
def read_seeds(_backend: Backend, tables: Tables, match_ids: Sequence[UUID]) -> list[Row]:
    """What the deals of matches are drawn from."""
    return [
        {"match_id": match_id, "seed": tables.seed[str(match_id)]}
        for match_id in match_ids
        if str(match_id) in tables.seed
    ]


@says("select clock_timestamp() as read_at, d.seed, m.match_id, m.mode")
def openings(backend: Backend, tables: Tables, match_ids: Sequence[UUID]) -> list[Row]:
    """Live matches with what their deals are drawn from."""
    read_at = backend.database.wall()
    return [
        {"read_at": read_at, "seed": tables.seed.get(str(match_id)), **row}
        for match_id in match_ids
        for row in get_match(backend, tables, match_id)
    ]


@says("select match_id, revision, first_sequence")
def get_logs(backend: Backend, tables: Tables, match_ids: Sequence[UUID]) -> list[Row]:
    """The logs of live matches as far as replay needs them."""
    return [
        {"match_id": match_id, **row}
        for match_id in sorted(match_ids)
        for row in get_log(backend, tables, match_id)
    ]


@says("select m.match_id, m.mode")
def get_match(backend: Backend, tables: Tables, match_id: UUID) -> list[Row]:
    """A match with its players."""
    match = tables.match.get(str(match_id))
    if match is None:
        return []
    row: Row = {
        name: getattr(match, name)
        for name in (
            *("mode", "rated", "bank_ns", "delay_ns", "start_limit_ns", "continue_limit_ns", "script"),
            *("created_at", "created_by"),
        )
    }
    for seat in ("north", "south"):
        player = getattr(match, seat)
        row |= {seat: player.player_id, f"{seat}_name": player.name, f"{seat}_bot": player.bot}
    return [{"match_id": match_id, **row}]


@says("select revision, first_sequence")
def get_log(backend: Backend, tables: Tables, match_id: UUID) -> list[Row]:
    """The log as far as replay needs it."""
    names = (
        *("revision", "first_sequence", "last_sequence", "events", "seat", "request_id", "request_hash"),
        *("credited_ns", "at"),
    )
    return [{name: row[name] for name in names} for row in tables.log[str(match_id)]]


@says("select data, checksum, rulings from match_archive")
def archived(_backend: Backend, _tables: Tables, _match_id: UUID) -> list[Row]:
    """No match of a world is over for so long that its log was moved."""
    return []


@says("select bank_ns, delay_ns, script")
def conditions(backend: Backend, tables: Tables, match_id: UUID) -> list[Row]:
    """For explain."""
    match = tables.match[str(match_id)]
    return [
        {
            "bank_ns": match.bank_ns,
            "delay_ns": match.delay_ns,
            "script": match.script,
            "same_device": match.same_device,
        }
    ]


@says("select revision, fence, at, events")
def timed_log(backend: Backend, tables: Tables, match_id: UUID) -> list[Row]:
    """For explain."""
    names = (
        *("revision", "fence", "at", "events", "seat", "request_id", "turn", "start_ns", "arrive_ns"),
        *("timeline_id", "carried_ns", "elapsed_ns", "consumed_ns", "charge_ns", "bank_after_ns"),
        *("credited_ns", "clock_id", "policy_version"),
    )
    return [{name: row[name] for name in names} for row in tables.log[str(match_id)]]


@says("select i.incident_id, i.kind")
def touches(backend: Backend, tables: Tables, match_id: UUID) -> list[Row]:
    """For explain."""
    names = ("kind", "noticed_by", "began_at", "ended_at", "reason")
    return [
        {
            "incident_id": incident_id,
            **{name: tables.incident[incident_id][name] for name in names},
            "effect": touched["effect"],
            "credited_ns": touched["credited_ns"],
        }
        for (incident_id, touched_match), touched in tables.touched.items()
        if touched_match == str(match_id)
    ]


@says("select o.winner, o.cause")
def outcome(backend: Backend, tables: Tables, match_id: UUID) -> list[Row]:
    """For explain."""
    row = tables.outcome.get(str(match_id))
    if row is None:
        return []
    evidence = tables.evidence.get(str(row["evidence_id"]))
    return [
        {
            **{name: row[name] for name in ("winner", "cause", "detail", "ended_at", "evidence_id")},
            "kind": None if evidence is None else evidence["kind"],
            "evidence": None if evidence is None else evidence["detail"],
        }
    ]
