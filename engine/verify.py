"""Checking a record: that no tile was changed after the deal, that it was played by the rules, that it ended so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.deal import commitment
from engine.eventjson import outcome_to_json
from engine.outcome import Cause
from engine.playback import play_back
from engine.recordlines import DealLine, MatchLine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.outcome import Outcome
    from engine.playback import Answer
    from engine.recordlines import Record


def problems(record: Record) -> Iterator[str]:
    """What is wrong with a record, line by line; nothing when it is all right.

    Every deal must carry a salt and the commitment to it, every line must be accepted when it is run again, and the
    outcome that the first line claims, if it does, must be what the match comes to. A void or cancelled match just
    stops. MalformedRecordError when the record cannot be read to its end; after the problems before.
    """
    last: Answer | None = None
    claimed: Outcome | None = None
    for last in play_back(record):
        where = f"line {last.number}: "
        if isinstance(last.line, MatchLine):
            claimed = last.line.claimed
        if isinstance(last.line, DealLine) and (fault := deal_fault(last.line)) is not None:
            yield where + fault
        if last.refusal is not None:
            yield where + f"refused, {last.refusal} (rule {last.refusal.rule})"
    if claimed is None or last is None:
        return
    found = last.state.outcome
    if claimed.cause in (Cause.VOID, Cause.CANCELLED):
        if found is not None:
            yield f"line 1: the match is claimed to be {claimed.cause}, but it ends as {outcome_to_json(found)}"
    elif found is None:
        yield f"line 1: the outcome is claimed to be {outcome_to_json(claimed)}, but the match does not end"
    elif (found.winner, found.cause) != (claimed.winner, claimed.cause):
        yield f"line 1: the outcome is claimed to be {outcome_to_json(claimed)}, but it is {outcome_to_json(found)}"


def deal_fault(line: DealLine) -> str | None:
    """What is wrong with the proof of one deal, or None."""
    if line.salt is None or line.commitment is None:
        return "the deal has no salt and commitment: whether it was changed cannot be told"
    if commitment(line.deal, line.salt) != line.commitment:
        return "the deal is not the one that was committed to"
    return None
