"""A record stepped through is the match as it was told: every table, every time, every proof."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from client.listing import listing
from client.positions import read
from engine.clock import MILLISECOND
from engine.event import Event, RoundDealt, TilePlaced, TurnTimed
from engine.match import evolve, void
from engine.outcome import Cause
from engine.record import record_lines
from engine.recordlines import MalformedRecordError
from engine.seats import NORTH, SEATS, SOUTH
from tests.client.recorded import HEADER, a_match, rulings
from tests.client.tables import new_story


@pytest.mark.parametrize("same_device", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_positions_of_a_record_are_the_tables_a_spectator_was_told(
    seed: int, *, same_device: bool
) -> None:
    match = a_match(seed, same_device=same_device)
    study = match.study
    compared = 0
    for position in study.positions:
        table = match.tables.get(position.table.sequence)
        if table is None:
            continue  # in the middle of what was told at once: the second Start and its deal
        found = position.table
        # Who they are comes from the record's first line, which has no names; a spectator's clock is that of the service.
        found = replace(found, players=table.players, rated=table.rated)
        if table.outcome is not None:
            found = replace(found, prompt=table.prompt)  # no prompt comes with the end
        assert found == table, position
        assert found.banks_ms == table.banks_ms
        compared += 1
    assert compared > 60
    assert study.positions[-1].table.sequence == len(match.events)


def test_what_a_turn_cost_is_that_of_the_clock() -> None:
    match = a_match(1)
    timings = [event for event in match.events if isinstance(event, TurnTimed)]
    spent = [position.spent for position in match.study.positions if position.spent is not None]
    assert [(each.seat, each.used_ms, each.bank_ms) for each in spent] == [
        (event.seat, event.elapsed_ns // MILLISECOND, event.bank_after_ns // MILLISECOND) for event in timings
    ]
    assert any(each.paid_ms for each in spent)
    assert [position.at_ms for position in match.study.positions if position.at_ms is not None] == sorted(
        position.at_ms for position in match.study.positions if position.at_ms is not None
    )


def test_a_clock_stands_at_what_its_turn_begins_or_goes_on_with() -> None:
    for position in a_match(2).study.positions:
        clock, table = position.table.prompt.clock, position.table
        assert clock.running is table.prompt.to_act
        if clock.running is not None:
            whole = clock.delay_left_ms + table.banks_ms[clock.running]
            # A draw that took longer than the delay is at the bank already, and is paid with the end of the turn.
            assert clock.remaining_ms == whole or (clock.delay_left_ms == 0 and clock.remaining_ms < whole)
            assert 0 <= clock.delay_left_ms <= table.delay_ms


def test_a_hand_is_shown_only_to_whom_it_is_asked_for() -> None:
    for position in a_match(0).study.positions:
        assert position.seen_by(None).hand == ()
        for seat in SEATS:
            assert position.seen_by(seat).hand == position.hands[seat]
            assert len(position.hands[seat]) == position.table.tiles[seat]


def test_rounds_can_be_jumped_to() -> None:
    match = a_match(1)
    study = match.study
    assert len(study.rounds) == sum(isinstance(event, RoundDealt) for event in match.events) > 1
    for number, place in enumerate(study.rounds):
        assert study.positions[place].table.round_no == number + 1
        assert study.round_at(place) == number
        assert study.round_at(place - 1) == number - 1


def test_a_sound_record_proves_its_deals_and_one_that_was_changed_does_not() -> None:
    match = a_match(1)
    assert match.study.problems == ()
    assert all(position.sound for position in match.study.positions)
    deal = next(line for line in match.lines if '"deal"' in line)
    hands = deal.index('"north":["') + len('"north":["')
    first, second = deal[hands : hands + 3], deal[hands + 6 : hands + 9]
    swapped = deal.replace(first, "x").replace(second, first).replace("x", second)
    study = read("\n".join(swapped if line == deal else line for line in match.lines).encode())
    assert study.problems == (), "the order within a hand is no change"
    boneyard = deal.index('"boneyard":["') + len('"boneyard":["')
    third = deal[boneyard : boneyard + 3]
    changed = deal.replace(first, "x").replace(third, first).replace("x", third)
    study = read("\n".join(changed if line == deal else line for line in match.lines).encode())
    assert not study.positions[study.rounds[0]].sound
    assert "not the one that was committed to" in study.positions[study.rounds[0]].told[-1]
    assert study.problems


def test_a_damaged_record_is_shown_as_far_as_it_makes_sense() -> None:
    match = a_match(1)
    study = read("\n".join([*match.lines[:20], "{nonsense"]).encode())
    assert len(study.positions) == 20
    assert study.damage.startswith("line 21: ")
    with pytest.raises(MalformedRecordError, match="line 1"):
        read(b"nonsense")
    with pytest.raises(MalformedRecordError, match="empty"):
        read(b"")


def test_a_refused_line_says_why_and_changes_nothing() -> None:
    match = a_match(1)
    again = [*match.lines[:3], match.lines[1], *match.lines[3:]]
    study = read("\n".join(again).encode())
    before, refused = study.positions[2:4]
    assert not refused.sound
    assert refused.told[0].startswith("refused: ")
    assert refused.table == before.table


def test_a_void_match_says_why_it_stops() -> None:
    """Only the first line of such a record knows the outcome."""
    story = new_story()
    state, events = story.state, list[Event]()
    for ruling in rulings(state, random.Random(3), 30):
        if any(isinstance(event, TurnTimed) for event in ruling):
            break
        events += ruling
    for event in events:
        state = evolve(state, event)
    ended = void(state, "gap_too_long")
    lines = record_lines(story.state, [*events, *ended], HEADER)
    study = read("\n".join(lines).encode())
    last = study.positions[-1]
    assert last.table.outcome is not None
    assert last.table.outcome.cause is Cause.VOID
    assert "could not hear the players" in last.told[-1]


def test_who_sat_there_comes_from_the_first_line() -> None:
    players = a_match(0).study.players
    assert [(player.player_id, player.name) for player in players] == [
        ("guest-north", NORTH),
        ("guest-south", SOUTH),
    ]
    named = read(b'{"type":"match","format":1,"names":{"north":"Nora","south":"Sol"}}')
    assert [player.name for player in named.players] == ["Nora", "Sol"]
    shared = read(b'{"type":"match","format":1,"names":{"north":"Nora","south":"Nora"},"players":[]}')
    assert [player.name for player in shared.players] == [NORTH, SOUTH]
    assert not shared.timed


def test_the_listing_of_a_record_says_everything_in_80_columns() -> None:
    match = a_match(1)
    lines = list(listing(match.study))
    assert max(map(len, lines)) <= 80
    assert "sound: 5 deals as committed, every command legal" in lines
    placed = [event for event in match.events if isinstance(event, TilePlaced)]
    for event in placed:
        assert any(f"{event.seat} " in line and f"[{event.tile}]" in line for line in lines)
    assert sum("counts" in line for line in lines) == len(placed)
    assert not any(line.strip().startswith("north: [") for line in listing(match.study, hands=[SOUTH]))
