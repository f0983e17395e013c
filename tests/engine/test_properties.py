"""What holds in every match: random matches, looked at after each event."""

from __future__ import annotations

import copy
import json
import pickle
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.command import Play
from engine.event import RoundBlocked, RoundDealt, RoundWentOut, TurnPassed
from engine.eventjson import events_to_text
from engine.legal import NOTHING
from engine.match import Cause, Match, Mode, Phase, deal_round, decide, evolve, legal, replay
from engine.record import event_from_json, event_to_json
from engine.refusal import Refusal
from engine.seats import NORTH, SEATS
from engine.tiles import DOUBLE_SIX, ENDS, End, Tile
from tests.engine import naive, randomplay
from tests.engine.tables import SALT, after, deal, dealt, started

seeds = st.integers(0, 2**32).map(random.Random)
modes = st.sampled_from(Mode)
whole_matches = settings(max_examples=30, deadline=None)


@whole_matches
@given(seeds, modes)
def test_points_only_move(rng: random.Random, mode: Mode) -> None:
    """Rules 1.1 to 1.4: always 300 together, multiples of five, never negative, over as soon as one is 0."""
    first = randomplay.start(rng, mode=mode)
    for state, events in randomplay.steps(first, rng):
        for event in events:
            state = evolve(state, event)
            assert sum(state.balances) == 300
            assert all(balance >= 0 and balance % 5 == 0 for balance in state.balances)
        broke = [seat for seat in SEATS if state.balances[seat] == 0]
        assert bool(broke) is (state.outcome is not None and state.outcome.cause is Cause.BALANCE)
        if broke:
            assert state.outcome is not None
            assert state.outcome.winner is broke[0].opponent


@whole_matches
@given(seeds, modes)
def test_a_replay_is_the_match(rng: random.Random, mode: Mode) -> None:
    """The stored form of the events gives the same match again, at every point."""
    state = first = randomplay.start(rng, mode=mode)
    log = []
    for live, events in randomplay.steps(first, rng, waits_ns_max=14_000_000_000):
        assert state == live
        for event in events:
            stored = json.dumps(event_to_json(event))
            again = event_from_json(json.loads(stored))
            assert event == again
            assert type(event) is type(again)
            log.append(again)
            state = evolve(state, again)
    assert replay(first, log) == state
    assert state.phase is Phase.OVER


@whole_matches
@given(seeds, modes)
def test_what_is_stored_is_the_objects_of_the_events_as_json(rng: random.Random, mode: Mode) -> None:
    """Whatever is put together without making an object first."""
    for _, events in randomplay.steps(randomplay.start(rng, mode=mode), rng, waits_ns_max=14_000_000_000):
        objects = [event_to_json(event) for event in events]
        assert events_to_text(events) == json.dumps(objects, separators=(",", ":"))


@whole_matches
@given(seeds, modes)
def test_the_28_tiles_are_always_there(rng: random.Random, mode: Mode) -> None:
    """Rule 2.1."""
    for state, events in randomplay.steps(randomplay.start(rng, mode=mode), rng):
        for event in events:
            state = evolve(state, event)
            if state.round_no:
                assert list(DOUBLE_SIX) == naive.where_is_everything(state)


@whole_matches
@given(seeds, modes)
def test_a_slow_counter_agrees(rng: random.Random, mode: Mode) -> None:
    """Rules 3.1 to 3.6 and 4.1 to 4.4: open ends, counts, plays, openers, looked up in the graph of the joins."""
    for state, events in randomplay.steps(randomplay.start(rng, mode=mode), rng):
        graph = naive.Graph(state.layout.placements)
        ends = {(str(end.tile), end.port.value): end.value for end in state.layout.ends}
        assert graph.open_ends() == ends
        assert graph.count() == state.layout.total == sum(n for _, n in state.layout.open_ends)
        assert graph.spinner is state.layout.spinner
        listed = [(str(tile), end and str(end)) for tile, end in legal(state).play]
        assert len(listed) == len(set(listed))
        assert naive.plays(state) == set(listed)
        if isinstance(events[0], RoundDealt) and state.jockey is None:
            opened = replay(state, events)
            seat = opened.to_act or opened.awaiting_reveal
            assert naive.opener(opened) == (seat, opened.forced_tile)


@whole_matches
@given(seeds, modes)
def test_a_round_always_ends(rng: random.Random, mode: Mode) -> None:
    """FC-67: something is legal while a decision is open, and no round takes more turns than there are tiles."""
    commands_in_round = 0
    for state, events in randomplay.steps(randomplay.start(rng, mode=mode), rng):
        if state.phase in (Phase.OPENING, Phase.PLAYING):
            commands_in_round += 1
            # 28 placements, 14 draws, 14 forced passes at the very most, and a Reveal for each turn.
            assert commands_in_round < 100
        if state.decision_kind is not None:
            assert legal(state) != NOTHING
            assert legal(state).anything
        if any(isinstance(event, RoundWentOut | RoundBlocked) for event in events):
            commands_in_round = 0


@whole_matches
@given(seeds, modes)
def test_questions_and_turns_are_numbered(rng: random.Random, mode: Mode) -> None:
    """A decision grows by one with each question, a turn with each new timed decision; a draw is no new turn."""
    first = randomplay.start(rng, mode=mode)
    assert first.decision_id == 1
    assert first.turn == 0
    for state, events in randomplay.steps(first, rng):
        later = replay(state, events)
        if isinstance(events[0], RoundDealt) or (not state.pressed and later.pressed):
            assert state.decision_id == later.decision_id
        else:
            assert state.decision_id + 1 == later.decision_id
        new_turn = later.to_act is not None and later.to_act is not state.to_act
        if later.phase is not Phase.OVER:
            assert later.turn - state.turn == new_turn


@whole_matches
@given(seeds)
def test_the_next_opening_follows_from_how_the_round_ended(rng: random.Random) -> None:
    """Rules 4.5, 4.6, 2.2 and 5.1."""
    for state, events in randomplay.steps(randomplay.start(rng), rng):
        later = replay(state, events)
        for event in events:
            if isinstance(event, RoundWentOut):
                assert later.jockey is event.seat
                assert later.phase is Phase.SETTLED
                assert not later.hand(event.seat)
            if isinstance(event, RoundBlocked):
                assert isinstance(events[0], TurnPassed)
                assert later.jockey is None
                assert sum(tile.pips for tile in later.hands.north) == event.hand_totals.north
        if isinstance(events[-1], RoundDealt):
            assert later.phase is (Phase.OPENING if state.jockey is None else Phase.AUCTION)


@given(st.permutations(DOUBLE_SIX))
def test_a_deal_keeps_every_tile(order: list[Tile]) -> None:
    """Rule 2.1; the boneyard stays in drawing order."""
    state = started()
    ruling = deal_round(state, deal(), SALT)
    assert not isinstance(ruling, Refusal)
    state = dealt(state, type(deal()).from_shuffle(order))
    assert list(DOUBLE_SIX) == naive.where_is_everything(state)
    assert tuple(order[14:]) == state.boneyard


def pickled(thing: object) -> object:
    return pickle.loads(pickle.dumps(thing))  # noqa: S301 - our own bytes


def test_tiles_and_ends_are_single_objects() -> None:
    """They are compared with `is`, so that no copy may ever exist."""
    for thing in (*DOUBLE_SIX, *ENDS):
        assert copy.copy(thing) is copy.deepcopy(thing) is pickled(thing) is thing
    assert all(Tile.parse(str(tile)) is tile for tile in DOUBLE_SIX)
    assert all(End.parse(str(end)) is end for end in ENDS)


def test_a_state_is_a_value() -> None:
    """A decision never changes the state, and a copy is equal to it."""
    state = dealt(started(), deal("6|6"))
    before = Match(*state)
    for tile in state.hands.north:
        decide(state, Play(NORTH, tile))
    assert before == state
    assert pickled(state) == state
    assert after(state, Play(NORTH, Tile.parse("6|6"))) != state
