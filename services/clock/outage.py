"""A turn that goes on under a new owner: what is known of the time before, and since when nobody listened."""

from __future__ import annotations

from typing import NamedTuple

from services.clock.owner import Beat
from services.wire import clock_messages as m


class Before(NamedTuple):
    """A turn up to the moment in which its next owner opens it, in nanoseconds. No time is in two of the three."""

    proven_ns: int
    """How much of its time is proven to be used."""
    credited_ns: int
    """What was credited in it before the outage, to the last owner and those before."""
    gap_ns: int
    """How long the outage lasted."""


def before(
    opened: m.Open,
    verdict: m.Verdict | None,
    granted_ns: int,
    beat: Beat,
    hint_ns: int,
    since: int,
    now: int,
    *,
    followed: bool,
) -> Before:
    """The last owner's part of a turn, which began with `opened` and `granted_ns` of credit.

    `verdict` is that on a command which nobody stored, `beat` the owner's last proof, `since` when this clock was told of
    the decision, on its own time like `now`, and `hint_ns` the outage as the database knows it. When none `followed`
    this owner at once, those between were governed by another clock. Their players were heard, so that what this one
    remembers is only an upper bound.
    """
    if verdict is not None:
        proven, credited = verdict.elapsed_ns, verdict.credited_ns
    else:
        heard_ns = 0 if beat.mark_ns is None else max(0, beat.mark_ns - opened.start_ns)
        proven = opened.consumed_ns + heard_ns
        credited = max(0, beat.gap_total_ns - opened.gap_total_ns) + granted_ns
    if beat.mark_ns is None:
        return Before(proven, credited, min(hint_ns, now - since))
    # The proof may be older than the part: an owner that was paused opens what it took up long after its last beat.
    # What passed until then was credited when it opened, and what was used until its command came is proven.
    accounted_raw_ns = opened.start_raw_ns + proven - opened.consumed_ns + credited - granted_ns
    newer_ns = max(0, accounted_raw_ns - (beat.mark_ns + beat.gap_total_ns))
    gap_ns = max(0, now - beat.at - newer_ns)
    return Before(proven, credited, gap_ns if followed else min(gap_ns, hint_ns))
