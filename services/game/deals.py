"""The deal that a ruling makes due."""

from __future__ import annotations

from engine.event import Event
from engine.match import Match, Phase, deal_round, replay
from engine.refusal import Refusal
from services.game import shuffle
from services.storage.script import Script


def with_deal(state: Match, events: tuple[Event, ...], script: Script) -> tuple[Event, ...]:
    """A ruling with the deal it makes due: both are stored and told together (rule 7.1)."""
    state = replay(state, events)
    if state.phase is not Phase.AWAITING_DEAL:
        return events
    scripted = script.deals
    deal = scripted[state.round_no] if state.round_no < len(scripted) else shuffle.shuffled()
    dealt = deal_round(state, deal, shuffle.salt())
    assert not isinstance(dealt, Refusal), dealt
    return (*events, *dealt)
