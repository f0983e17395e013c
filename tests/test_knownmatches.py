"""Matches of known length are as long as they say."""

from __future__ import annotations

import pytest

from client.arena.seat import ArenaSeat
from client.bots.levels import LEVELS
from client.bots.search import deals
from engine.command import Continue, Start
from engine.match import Match, Phase, deal_round, decide, evolve
from engine.refusal import Refusal
from engine.seats import SEATS
from tests.knownmatches import LONG, SHORT, UNEVEN, Known


def played(known: Known) -> tuple[int, int]:
    """How many commands greedy bots give until it is over, and how many rounds that takes."""
    state, commands = Match.start(balances=known.balances), 0
    bots = {seat: ArenaSeat(seat, LEVELS["greedy"].choose, deals(1), "") for seat in SEATS}
    while state.phase is not Phase.OVER:
        if state.phase is Phase.AWAITING_DEAL:
            ruling = deal_round(state, known.deals()[state.round_no], bytes(32))
        else:
            commands += 1
            pressing = Start if state.phase is Phase.AWAITING_START else Continue
            waits = next((seat for seat in SEATS if seat not in state.pressed), SEATS[0])
            command = pressing(waits) if state.to_act is None else bots[state.to_act].answer(state)
            ruling = decide(state, command)
        assert not isinstance(ruling, Refusal)
        for event in ruling:
            state = evolve(state, event)
    return commands, state.round_no


@pytest.mark.parametrize("known", [SHORT, LONG, *UNEVEN])
def test_a_match_of_known_length_is_as_long_as_it_says(known: Known) -> None:
    commands, rounds = played(known)
    assert commands == known.commands
    assert rounds <= len(known.deals())
