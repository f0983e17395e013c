"""What the statements of services.storage do to owners of matches and to leases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import UUID

from engine.clock import SECOND
from tests.simulation.database import Backend, Row, Tables, live, says


def lease_holds(backend: Backend, tables: Tables, engine_id: str) -> bool:
    """Whether the lease has not run out."""
    lease = tables.lease.get(engine_id)
    return lease is not None and lease["lease_until"] > backend.database.wall_ns()


def _ownership(backend: Backend, tables: Tables, match_id: str, owner: Row) -> Row:
    lease = tables.lease.get(owner["engine_id"])
    return {
        "match_id": UUID(match_id),
        "engine_id": owner["engine_id"],
        "fence": owner["fence"],
        "address": None if lease is None else lease["address"],
        "alive": owner["handed_over_at"] is None and lease_holds(backend, tables, owner["engine_id"]),
    }


@says("select o.engine_id, o.fence, l.address")
def get_owner(backend: Backend, tables: Tables, match_id: UUID) -> list[Row]:
    """The owner of a live match."""
    rows: list[Row] = owners_of(backend, tables, [match_id])
    return rows


@says("select o.match_id, o.engine_id, o.fence")
def owners_of(backend: Backend, tables: Tables, match_ids: Sequence[UUID]) -> list[Row]:
    """The owners of those that are live."""
    wanted = {str(match_id) for match_id in match_ids}
    return [
        _ownership(backend, tables, match_id, owner) for match_id, owner in live(tables) if match_id in wanted
    ]


@says("with before as (select renewed_at")
def begin_lease(
    backend: Backend,
    tables: Tables,
    engine_id: str,
    incarnation: str,
    address: str,
    seconds: float,
    capacity: int,
    standing: str,
) -> list[Row]:
    """A new incarnation's lease."""
    backend.lock("lease", engine_id)
    wall, before = backend.database.wall_ns(), tables.lease.get(engine_id)
    _lease(backend, tables, engine_id, incarnation, address, seconds, standing)
    backend.later(lambda: tables.lease[engine_id].update(capacity=capacity))
    return [{"gap": None if before is None else wall - before["renewed_at"]}]


def _lease(
    backend: Backend,
    tables: Tables,
    engine_id: str,
    incarnation: str,
    address: str,
    seconds: float,
    standing: str,
) -> None:
    wall = backend.database.wall_ns()
    row = {
        **tables.lease.get(engine_id, {}),
        "standing": standing,
        "incarnation": incarnation,
        "address": address,
        "renewed_at": wall,
        "lease_until": wall + int(seconds * SECOND),
    }
    backend.later(lambda: tables.lease.update({engine_id: row}))


@says("update engine_lease set renewed_at")
def renew_lease(
    backend: Backend,
    tables: Tables,
    engine_id: str,
    incarnation: str,
    address: str,
    seconds: float,
    standing: str,
) -> list[Row]:
    """The same incarnation's, prolonged."""
    backend.lock("lease", engine_id)
    lease = tables.lease.get(engine_id)
    if lease is None or lease["incarnation"] != incarnation:
        return []
    _lease(backend, tables, engine_id, incarnation, address, seconds, standing)
    return [{"renewed": True}]


@says("update engine_lease set standing")
def say_standing(backend: Backend, tables: Tables, engine_id: str, incarnation: str, standing: str) -> None:
    """What it says of itself has changed."""
    backend.lock("lease", engine_id)
    lease = tables.lease.get(engine_id)
    if lease is not None and lease["incarnation"] == incarnation:
        backend.later(lambda: tables.lease[engine_id].update(standing=standing))


@says("update engine_lease set lease_until")
def end_lease(backend: Backend, tables: Tables, engine_id: str, incarnation: str) -> None:
    """Given up."""
    backend.lock("lease", engine_id)
    lease, wall = tables.lease.get(engine_id), backend.database.wall_ns()
    if lease is not None and lease["incarnation"] == incarnation:
        backend.later(lambda: tables.lease[engine_id].update(lease_until=wall))


@says("with mine as (")
def take_upown(backend: Backend, tables: Tables, engine_id: str) -> list[Row]:
    """What an earlier incarnation owned."""
    rows, wall = [], backend.database.wall_ns()
    for match_id, owner in live(tables):
        if owner["engine_id"] == engine_id:
            backend.lock("owner", match_id)
            handed = owner["handed_over_at"]
            rows.append(
                {
                    "match_id": UUID(match_id),
                    "fence": owner["fence"] + 1,
                    "planned": handed is not None,
                    "handed_ns": None if handed is None else wall - handed,
                    "at": backend.database.wall(),
                }
            )
            own(backend, owner, engine_id)
    return rows


def own(backend: Backend, owner: Row, engine_id: str) -> None:
    """It owns the match from then on, under the next fencing number."""
    fence = owner["fence"] + 1
    backend.later(lambda: owner.update(engine_id=engine_id, fence=fence, handed_over_at=None))


def _left(backend: Backend, tables: Tables, engine_id: str, room: bool) -> Iterator[tuple[str, Row]]:
    for match_id, owner in live(tables):
        last = owner["engine_id"]
        leaving = tables.lease.get(last, {}).get("standing") == "leaving"
        offered = owner["handed_over_at"] is not None and (room or leaving)
        if last != engine_id and (offered or not lease_holds(backend, tables, last)):
            yield match_id, owner


@says("select exists ( with recursive owner as (")
def are_left(backend: Backend, tables: Tables, engine_id: str, room: bool) -> list[Row]:
    """Whether others left anything."""
    return [{"exists": any(True for _ in _left(backend, tables, engine_id, room))}]


@says("with recursive owner as (")
def take_up_orphans(
    backend: Backend,
    tables: Tables,
    engine_id: str,
    limit: int,
    room: bool,
) -> list[Row]:
    """What others left."""
    rows: list[Row] = []
    wall = backend.database.wall_ns()
    for match_id, owner in _left(backend, tables, engine_id, room):
        handed, last = owner["handed_over_at"], owner["engine_id"]
        if len(rows) == limit or not backend.lock("owner", match_id, skip=True):
            continue
        since = handed if handed is not None else tables.lease.get(last, {}).get("renewed_at")
        rows.append(
            {
                "match_id": UUID(match_id),
                "fence": owner["fence"] + 1,
                "from_engine": last,
                "planned": handed is not None,
                "gap": None if since is None else wall - since,
                "at": backend.database.wall(),
            }
        )
        own(backend, owner, engine_id)
    return rows


@says("with offered as (select *")
def hand_over(
    backend: Backend,
    tables: Tables,
    engine_id: str,
    match_ids: Sequence[UUID],
    fences: Sequence[int],
    agos_ns: Sequence[int],
) -> None:
    """Offered to whoever comes first."""
    wall = backend.database.wall_ns()
    for match_id, fence, ago_ns in zip(map(str, match_ids), fences, agos_ns, strict=True):
        owner = tables.owner[match_id]
        backend.lock("owner", match_id)
        if (owner["engine_id"], owner["fence"], owner["released_at"]) == (engine_id, fence, None):
            at = owner["handed_over_at"] if owner["handed_over_at"] is not None else wall - ago_ns
            backend.later(lambda owner=owner, at=at: owner.update(handed_over_at=at))  # type: ignore[misc]


@says("select exists (select from engine_lease")
def others_alive(backend: Backend, tables: Tables, engine_id: str) -> list[Row]:
    """Whether there is another."""
    return [
        {"exists": any(name != engine_id and lease_holds(backend, tables, name) for name in tables.lease)}
    ]
