"""When a process may say that it listens for its matches."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from engine.clock import SECOND
from services.game import ownership
from services.game.incarnation import Incarnation
from services.game.metrics import LeaseMetrics
from services.game.ownership import Lease

SECONDS = 8.0


def leased() -> tuple[Lease, list[float]]:
    """A lease that was just begun, and the time on its clock."""
    now = [100.0]
    nowhere: Any = None
    incarnation = Incarnation("game-a", "first", "127.0.0.1:1")
    lease = Lease(nowhere, incarnation, SECONDS, LeaseMetrics(CollectorRegistry()), now=lambda: now[0])
    lease._prove(now[0])
    return lease, now


def test_a_lease_that_is_renewed_in_time_proves() -> None:
    """Nobody else can have taken anything up."""
    lease, now = leased()
    now[0] += SECONDS - 1
    lease._prove(now[0])
    assert lease.proves
    assert not lease.lapsed


def test_a_lease_that_had_run_out_proves_nothing_before_the_fences_are_checked() -> None:
    """Rule R5: a process that was paused may beat for matches that are not its own any more."""
    lease, now = leased()
    now[0] += SECONDS
    lease._prove(now[0])
    assert lease.fresh
    assert not lease.proves
    lease.looked(lease.lapses)
    assert lease.proves


def test_a_lease_that_runs_out_while_somebody_looks_is_looked_at_again() -> None:
    """What was read before the second time says nothing about it."""
    lease, now = leased()
    now[0] += SECONDS
    lease._prove(now[0])
    lapses = lease.lapses
    now[0] += SECONDS
    lease._prove(now[0])
    lease.looked(lapses)
    assert lease.lapsed
    assert not lease.proves


def test_a_lease_ages_while_the_host_is_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule R1: it runs out by the kernel clock that sees a suspension, as for everybody else."""
    kernel = [100 * SECOND]
    monkeypatch.setattr(ownership, "kernel_now", lambda: kernel[0])
    nowhere: Any = None
    lease = Lease(
        nowhere, Incarnation("game-a", "first", "127.0.0.1:1"), SECONDS, LeaseMetrics(CollectorRegistry())
    )
    lease._prove(lease._now())
    kernel[0] += int(SECONDS) * SECOND
    assert not lease.fresh
    lease._prove(lease._now())
    assert lease.lapsed
