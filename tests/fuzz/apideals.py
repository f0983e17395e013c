"""What the model says about deals: when one was due, what it had to follow from, and what was announced before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.deal import Deal, commitment
from engine.event import Event, MatchEnded, RoundDealt
from engine.match import Match, Phase
from engine.seats import BySeat
from engine.shuffle import NOTHING, drawn, offered, seed_commitment


class Deals:
    """The deals of one match, one after the other. `scripted` are those that its creator asked for."""

    def __init__(self, match_id: str, scripted: Sequence[Deal]) -> None:
        self._match_id = match_id
        self._scripted = scripted
        self._offered = NOTHING
        self._announced: str | None = None
        self._first = True

    def take(self, events: Iterable[Event], dealt: RoundDealt | None, after: Match) -> list[str]:
        """A ruling without its deal, the deal, and the state between them: what is wrong with the deal."""
        self._offered = offered(self._offered, events)
        if dealt is None:
            return ["the deal is missing"] if after.phase is Phase.AWAITING_DEAL else []
        found = [] if after.phase is Phase.AWAITING_DEAL else ["no deal was due"]
        if dealt.round_no != after.round_no + 1:
            found.append(f"round {dealt.round_no} after {after.round_no}")
        found += self._proof(dealt)
        self._announced, self._offered, self._first = dealt.next_commitment, NOTHING, False
        return found

    def _proof(self, dealt: RoundDealt) -> list[str]:
        asked = self._scripted[dealt.round_no - 1] if dealt.round_no <= len(self._scripted) else None
        if asked is not None and dealt.deal != asked:
            return ["another deal than the one asked for"]
        if dealt.contributions is None:
            if commitment(dealt.deal, dealt.salt) != dealt.commitment:
                return ["the commitment is not that of the deal"]
            fell_back = self._announced is not None and asked is None
            return ["a seed was announced, and the deal not drawn from it"] if fell_back else []
        found = []
        if dealt.contributions != self._offered:
            found.append(f"drawn with {dealt.contributions}, and players gave {self._offered}")
        if seed_commitment(self._match_id, dealt.round_no, dealt.salt) != dealt.commitment:
            found.append("the commitment is not that of the seed")
        if not self._first and self._announced != dealt.commitment:
            found.append("another seed than the one announced")
        if drawn(self._match_id, dealt.round_no, dealt.salt, dealt.contributions) != dealt.deal:
            found.append("the deal does not follow from the seed and what players gave")
        return found


def announcements(events: Sequence[Event]) -> list[tuple[str | None, BySeat[bytes]]]:
    """By sequence number: the commitment to the seed of the next round that everybody was told, and what has been added to
    its deal. None where it cannot be known from what was stored."""
    first = next((event for event in events if isinstance(event, RoundDealt)), None)
    drawn_first = first is not None and first.contributions is not None
    told: str | None = first.commitment if first is not None and drawn_first else None
    given = NOTHING
    found = [(told, given)]
    for event in events:
        given = offered(given, [event])
        if isinstance(event, RoundDealt):
            told = event.next_commitment or ""
        elif isinstance(event, MatchEnded):
            told = ""
        found.append((told, given))
    return found
