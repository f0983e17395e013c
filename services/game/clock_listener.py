"""Whoever wants to hear what the clock says about a match: a room."""

from __future__ import annotations

from typing import Protocol

from services.wire import clock_messages as m


class ClockListener(Protocol):
    """Hears what the clock says about one match: synchronously, on the loop, in the order of the stream."""

    def on_armed(self, armed: m.Armed) -> None:
        """The deadline of the open decision, where it is another than its Open asks: after a resume `consumed_ns` is the
        one that counts."""

    def on_verdict(self, verdict: m.Verdict) -> None:
        """The pending command is in time. The same verdict is told once, whatever sessions come and go."""

    def on_probe(self, probe: m.Probe, watermark_ns: int) -> None:
        """Call `ClockLink.probe_reply` with this watermark once everything that waits in the mailbox is handled."""

    def on_timeout(self, timeout: m.Timeout) -> None:
        """The decision is lost. May be told again after a reconnect, under another evidence id by another clock."""

    def on_void(self, void: m.Void) -> None:
        """Time can no longer be judged. May be told again after a reconnect."""

    def on_stale(self, stale: m.Stale) -> None:
        """Somebody else owns the match now."""

    def on_mismatch(self, mismatch: m.Mismatch) -> None:
        """The clock knows otherwise; a Void follows when it governs the match."""
