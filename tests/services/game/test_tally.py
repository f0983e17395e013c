"""What operators count on: each stored ruling is counted once, under the words of the documents."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry

from engine.clock import SECOND
from engine.outcome import Cause
from services.game.gaps import Gaps
from services.game.incarnation import Incarnation
from services.game.livetime import LiveTime
from services.game.metrics import OTHER, MatchMetrics
from services.game.tally import Tally
from services.storage.endings import Ending
from services.storage.entry import Entry
from services.storage.incidents import NEAR_SECONDS, Effect, Incident, Kind, Touched
from tests.test_docs import TIME, name, table

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


class Counted:
    """A tally at a time of its own, and what it shows."""

    def __init__(self) -> None:
        self.now = NOON
        self.registry = CollectorRegistry()
        self.tally = Tally(MatchMetrics(self.registry), lambda: self.now)

    def shows(self, series: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"spectacular_bid_{series}_total", labels)

    def stores(
        self, cause: str = "", detail: str = "", touched: tuple[Touched, ...] = (), *, rated: bool = True
    ) -> None:
        """A ruling; the last one when it has a cause."""
        ending = Ending(None, cause, detail, 150, 150) if cause else None
        self.tally.stored(Entry("m", 1, 1, 1, 1, "[]", ending=ending, touched=touched), rated=rated)


def incident(kind: Kind = Kind.STALL, *, seconds: float = 2.0, ended: datetime = NOON) -> Incident:
    return Incident("i", kind, "game/game-0", ended - timedelta(seconds=seconds), ended, "v1")


def test_credit_is_counted_by_the_incident_it_rests_on() -> None:
    counted = Counted()
    assert counted.shows("credit_seconds", cause="stall") == 0
    credited = Touched(incident(), Effect.CREDITED, SECOND // 2)
    taken_over = Touched(incident(Kind.TAKEOVER), Effect.CREDITED, 4 * SECOND)
    went_on = Touched(incident(Kind.HANDOFF), Effect.CONTINUED)
    counted.stores(touched=(credited, taken_over, went_on))
    counted.stores(touched=(credited,))
    assert counted.shows("credit_seconds", cause="stall") == 1
    assert counted.shows("credit_seconds", cause="takeover") == 4
    assert counted.shows("credit_seconds", cause="handoff") == 0
    # Nothing is left to be credited in a match without a winner.
    counted.stores("void", "gap_too_long", (Touched(incident(), Effect.VOID, 31 * SECOND),))
    assert counted.shows("credit_seconds", cause="stall") == 1


def test_the_reasons_of_voids_are_those_of_the_documents() -> None:
    counted = Counted()
    reasons = [name(reason) for reason, _ in table(TIME, "For client writers")]
    assert [counted.shows("voids", reason=reason) for reason in reasons] == [0] * len(reasons)
    for reason in reasons:
        counted.stores("void", reason)
    counted.stores("void", "something of a newer clock")
    assert [counted.shows("voids", reason=reason) for reason in (*reasons, OTHER)] == [1] * (len(reasons) + 1)


@pytest.mark.parametrize(
    ("noticed", "after_seconds", "near"),
    [
        (incident(), NEAR_SECONDS, "near"),
        (incident(), NEAR_SECONDS + 0.001, "none"),
        (incident(seconds=1.0), 0.0, "near"),
        # A hiccup of any busy machine.
        (incident(seconds=0.999), 0.0, "none"),
    ],
)
def test_a_loss_on_time_is_near_an_incident_for_a_minute(
    noticed: Incident, after_seconds: float, near: str
) -> None:
    counted = Counted()
    counted.tally.noticed(noticed)
    counted.tally.noticed(incident(ended=NOON - timedelta(hours=1)))
    counted.now = NOON + timedelta(seconds=after_seconds)
    counted.stores("time")
    counted.stores("resignation")
    other = {"near": "none", "none": "near"}[near]
    assert (counted.shows("forfeits", incident=near), counted.shows("forfeits", incident=other)) == (1, 0)


def test_what_a_ruling_rests_on_is_known_without_having_been_noticed_here() -> None:
    """After a takeover the first ruling brings the incident along."""
    counted = Counted()
    counted.stores(touched=(Touched(incident(Kind.TAKEOVER), Effect.CONTINUED),))
    counted.stores("time")
    assert counted.shows("forfeits", incident="near") == 1


def test_what_a_process_notices_of_itself_is_told_once_each() -> None:
    livetime = LiveTime()
    gaps = Gaps(livetime, Incarnation("game-0", "i", "here:1"), "v1")
    told: list[Kind] = []
    gaps.on_incident = lambda noticed: told.append(noticed.kind)
    gaps.clock_lost(0, 2 * SECOND, 1, 0)
    gaps.commit_stalled(2.0, ["m"])
    assert told == [Kind.CLOCK_LOST, Kind.COMMIT_STALLED]


def test_a_match_is_finished_once_by_its_cause_and_by_whether_it_is_rated() -> None:
    counted = Counted()
    counted.stores()
    for cause in Cause:
        assert counted.shows("matches_finished", outcome=cause.value, rated="true") == 0
        counted.stores(cause.value, "gap_too_long" if cause is Cause.VOID else "", rated=True)
        assert counted.shows("matches_finished", outcome=cause.value, rated="true") == 1
        assert counted.shows("matches_finished", outcome=cause.value, rated="false") == 0
    counted.stores("resignation", rated=False)
    assert counted.shows("matches_finished", outcome="resignation", rated="false") == 1
    assert counted.shows("matches_finished", outcome="resignation", rated="true") == 1
