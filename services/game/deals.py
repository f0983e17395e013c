"""The deal that a ruling makes due."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from engine.command import Command, Continue, Start
from engine.event import Continued, Event, Started
from engine.match import Phase, Ruling, deal_round, draw_round, replay
from engine.refusal import Refusal
from engine.shuffle import offered
from services.game import shuffle
from services.game.story import Story
from services.storage.script import Script

_PRESSES: Final = (Started, Continued)


def with_deal(story: Story, events: tuple[Event, ...], script: Script) -> tuple[Event, ...]:
    """A ruling with the deal it makes due: both are stored and told together (rule 7.1).

    It is drawn from the seed that was announced for this round and from what the players have added. Where none was
    announced (the round before was dealt by a release that did not do so), it is committed to when it is made. Only a
    press makes one due.
    """
    if events and not isinstance(events[-1], _PRESSES):
        return events
    state, seeds = replay(story.state, events), story.seeds
    if state.phase is not Phase.AWAITING_DEAL:
        return events
    number, scripted = state.round_no + 1, script.deals
    following = None if seeds is None else seeds.commitment(number + 1)
    dealt: Ruling
    if state.round_no < len(scripted):
        deal = scripted[state.round_no]
        dealt = deal_round(state, deal, shuffle.salt(), next_commitment=following, scripted=True)
    elif seeds is None or following is None or story.announced is None:
        dealt = deal_round(state, shuffle.shuffled(), shuffle.salt(), next_commitment=following)
    else:
        added = offered(story.offered, events)
        dealt = draw_round(state, story.row.match_id, seeds.of(number), added, following)
    assert not isinstance(dealt, Refusal), dealt
    return (*events, *dealt)


def counted(command: Command, *, bot: bool) -> Command:
    """A command with what counts of it: what a house bot adds to a deal does not.

    House bots are ours. Were theirs counted, we could look for one that makes the deal we like, after the player's is
    known; as it is, the deal against a house bot rests on our seed, fixed before, and on the player alone.
    """
    if bot and isinstance(command, Start | Continue):
        return replace(command, contribution=b"")
    return command
