"""Checking a record: that no tile was changed after the deal, that it was played by the rules, that it ended so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.deal import commitment
from engine.eventjson import outcome_to_json
from engine.outcome import Cause
from engine.playback import play_back
from engine.recordlines import DealLine, MatchLine
from engine.shuffle import NOTHING, drawn, offered, seed_commitment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.outcome import Outcome
    from engine.playback import Answer
    from engine.recordlines import Record
    from engine.seats import BySeat


def problems(record: Record) -> Iterator[str]:
    """What is wrong with a record, line by line; nothing when it is all right.

    Every deal must be proven (see `Proofs`), every line must be accepted when it is run again, and the outcome that the
    first line claims, if it does, must be what the match comes to. A void or cancelled match just stops.
    MalformedRecordError when the record cannot be read to its end; after the problems before.
    """
    last: Answer | None = None
    claimed: Outcome | None = None
    proofs = Proofs()
    for last in play_back(record):
        where = f"line {last.number}: "
        if isinstance(last.line, MatchLine):
            claimed = last.line.claimed
        if (fault := proofs.fault(last)) is not None:
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


class Proofs:
    """The proofs of a record's deals, looked at one after the other.

    A deal that was drawn must follow from its seed and from what the players added with their presses, and the seed must
    be the one that was committed to with the round before. (That of the first round was told before Start, which a record
    cannot show: whoever played has heard it.) Any other deal must be the one that was committed to when it was made; that
    is less, and a round for which a seed was announced must not fall back on it, unless a test configuration says what is
    dealt.
    """

    def __init__(self) -> None:
        self._match_id = ""
        self._announced: str | None = None
        self._offered = NOTHING

    def fault(self, answer: Answer) -> str | None:
        """Take in one line of a record after the other. What is wrong with the proof of the deal in it, or None."""
        line, fault = answer.line, None
        if isinstance(line, MatchLine):
            self._match_id = line.match_id
        if isinstance(line, DealLine) and answer.refusal is None:
            fault = self._fault(line, answer.state.round_no)
            self._announced = line.next_commitment
        self._offered = offered(self._offered, answer.events)
        return fault

    def _fault(self, line: DealLine, round_no: int) -> str | None:
        if line.salt is None or line.commitment is None:
            return "the deal has no salt and commitment: whether it was changed cannot be told"
        if line.contributions is not None:
            return self._fault_of_drawn(line, round_no, line.salt, line.contributions)
        if commitment(line.deal, line.salt) != line.commitment:
            return "the deal is not the one that was committed to"
        if self._announced is not None and not line.scripted:
            return "a seed was committed to for this round, and the deal was not drawn from it"
        return None

    def _fault_of_drawn(
        self, line: DealLine, round_no: int, seed: bytes, contributions: BySeat[bytes]
    ) -> str | None:
        if not self._match_id:
            return "the record does not name its match, to which the deal is bound"
        if seed_commitment(self._match_id, round_no, seed) != line.commitment:
            return "the seed is not the one that was committed to"
        if round_no > 1 and self._announced != line.commitment:
            return "the seed is not the one that was committed to with the round before"
        if contributions != self._offered:
            return "the deal was not drawn with what the players added to it"
        if drawn(self._match_id, round_no, seed, contributions) != line.deal:
            return "the deal is not the one that was drawn from seed and contributions"
        return None
