"""What a ruling after an outage credits, and to which incident."""

from __future__ import annotations

import pytest

from engine.clock import SECOND
from services.game import limits
from services.game.resumption import Resumed
from services.storage.incidents import Effect, Incident, Kind


def outage(name: str, lasted: int) -> Incident:
    """A takeover that lasted so many seconds."""
    return Incident.lasting(Kind.TAKEOVER, name, lasted * SECOND, "v1", incident_id=name)


@pytest.mark.parametrize(
    ("earlier", "gap", "credited", "booked"),
    [
        ((), 8, 0, [("last", 0)]),
        ((), 8, 6, [("last", 6)]),
        ((), 8, 11, [("last", 11)]),
        ((7,), 8, 15, [("outage 0", 7), ("last", 8)]),
        ((7,), 8, 20, [("outage 0", 7), ("last", 13)]),
        ((7,), 8, 8, [("last", 8)]),
        ((7,), 8, 5, [("last", 5)]),
        ((6, 7), 8, 21, [("outage 0", 6), ("outage 1", 7), ("last", 8)]),
        ((6, 7), 8, 17, [("outage 0", 2), ("outage 1", 7), ("last", 8)]),
        ((6, 7), 8, 10, [("outage 1", 2), ("last", 8)]),
    ],
)
def test_each_outage_of_a_turn_is_credited_to_its_own_incident(
    earlier: tuple[int, ...], gap: int, credited: int, booked: list[tuple[str, int]]
) -> None:
    """The newest first, since a clock without memory credits no other; what is left over is the newest one's. Seconds."""
    before = tuple(outage(f"outage {number}", lasted) for number, lasted in enumerate(earlier))
    resumed = Resumed(gap * SECOND, outage("last", gap), before)
    touched = resumed.touched(credited * SECOND, Effect.CREDITED)
    assert booked == [(each.incident.incident_id, each.credited_ns // SECOND) for each in touched]
    assert credited * SECOND == sum(each.credited_ns for each in touched)


@pytest.mark.parametrize(
    ("did", "credited", "stored"),
    [
        (Effect.CREDITED, 0, Effect.CONTINUED),
        (Effect.CREDITED, 1, Effect.CREDITED),
        (Effect.VOID, 1, Effect.VOID),
        (Effect.VOID, 0, Effect.VOID),
    ],
)
def test_an_outage_that_voids_credits_nothing_and_voids_all_the_same(
    did: Effect, credited: int, stored: Effect
) -> None:
    """One that was too long is never granted; that it did nothing would be wrong."""
    (touched,) = Resumed(31 * SECOND, outage("last", 31)).touched(credited, did)
    assert touched.effect is stored


@pytest.mark.parametrize(
    ("limit", "waited", "left"),
    [(60, 0, 60), (60, 20, 40), (60, 55, 5), (60, 58, 5), (60, 3600, 5), (3, 0, 3), (3, 2, 3), (60, -10, 60)],
)
def test_a_limit_goes_on_after_an_outage(limit: int, waited: int, left: int) -> None:
    """From when it began, with time to come back, and never for longer than it is. Seconds."""
    assert left * SECOND == limits.left_ns(limit * SECOND, waited * SECOND)
