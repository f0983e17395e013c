"""A match as its audiences hear it, without processes: numbering, resuming, and what nobody may learn."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta

import pytest

from engine.deal import Deal
from engine.event import Event
from engine.eventjson import event_to_json
from engine.match import Match, Phase, deal_round, decide, evolve, legal, timed
from engine.refusal import Refusal
from engine.seats import NORTH, SOUTH
from engine.tiles import DOUBLE_SIX, tile_set
from services.game.story import HISTORY_MAX, Audience, Story
from services.storage.matches import LogRow, MatchRow, PlayerRow
from services.storage.script import Script, first_state
from services.wire.tables import SEAT
from spectacularbid.match.v1 import match_service_pb2 as pb
from tests.engine.randomplay import choose
from tests.hidden import Truth, tiles_in

SECOND = 10**9


def match_row(mode: str = "rated", script: Script | None = None) -> MatchRow:
    """A match of Nadia and Samir, or of Nadia alone on one device."""
    north = PlayerRow("nadia", "Nadia", bot=False)
    south = north if mode == "same_device" else PlayerRow("samir", "Samir", bot=False)
    return MatchRow(
        match_id="00000000-0000-4000-8000-000000000001",
        mode=mode,
        rated=mode == "rated",
        north=north,
        south=south,
        bank_ns=120 * SECOND,
        delay_ns=10 * SECOND,
        start_limit_ns=60 * SECOND,
        continue_limit_ns=30 * SECOND,
        script=None if script is None else script.dump(),
        created_at=datetime(2026, 11, 29, tzinfo=UTC),
    )


def rulings(state: Match, rng: random.Random, commands_max: int = 2000) -> list[tuple[Event, ...]]:
    """A random legal match, ruling by ruling, as a room would store it."""
    stored: list[tuple[Event, ...]] = []
    while state.phase is not Phase.OVER and len(stored) < commands_max:
        command = choose(state, legal(state), rng)
        decided = decide(state, command)
        assert not isinstance(decided, Refusal), decided
        ruling: tuple[Event, ...] = decided
        if state.to_act is not None:
            ruling = (timed(state, command, rng.randrange(SECOND)), *ruling)
        for event in ruling:
            state = evolve(state, event)
        if state.phase is Phase.AWAITING_DEAL:
            order = list(DOUBLE_SIX)
            rng.shuffle(order)
            dealt = deal_round(state, Deal.from_shuffle(order), rng.randbytes(32))
            assert not isinstance(dealt, Refusal), dealt
            ruling += dealt
            for event in dealt:
                state = evolve(state, event)
        stored.append(ruling)
    return stored


def told(story: Story, audience: Audience, after: int) -> pb.WatchResponse:
    """What a stream would say to a reader who has `after`."""
    events = story.since(audience, after)
    if events is None:
        return pb.WatchResponse.FromString(story.snapshot(audience, None))
    return pb.WatchResponse.FromString(events + story.prompt(audience, None))


@pytest.mark.parametrize("mode", ["rated", "same_device"])
def test_no_message_holds_a_tile_its_receiver_may_not_know(mode: str) -> None:
    """100 matches (20 on one device; FC-53, FC-55): every message to both seats and a spectator, events and snapshots alike."""
    rng = random.Random(20)
    audiences = (
        (Audience.DEVICE, Audience.SPECTATOR)
        if mode == "same_device"
        else (Audience.NORTH, Audience.SOUTH, Audience.SPECTATOR)
    )
    messages = 0
    for number in range(100 if mode == "rated" else 20):
        # Every fifth match is a whole one; the others begin near their end, where all the same things happen.
        points = 5 * rng.randrange(1, 6)
        script = Script(balances=(points, 300 - points) if number % 2 else (300 - points, points))
        row = match_row(mode, None if number % 5 == 0 else script)
        story = Story(row)
        stored = rulings(story.state, rng)
        truth = Truth(first_state(row), [event for ruling in stored for event in ruling])
        heard: dict[Audience, list[pb.WatchResponse]] = {audience: [] for audience in audiences}
        for ruling in stored:
            before = story.sequence
            story.tell(ruling, 0)
            for audience in audiences:
                heard[audience].append(told(story, audience, before))
                if rng.random() < 0.03:
                    heard[audience].append(told(story, audience, -1))
        for audience, responses in heard.items():
            if audience is Audience.DEVICE:
                assert not truth.leaks_on_device(responses)
            else:
                assert not truth.leaks(responses, audience.seat)
            messages += len(responses)
    assert messages > 5_000


def test_a_resume_on_one_device_shows_no_hand_of_a_turn_that_is_over() -> None:
    """Rule 7.4: whoever resumes from an early event holds the device in somebody's turn now, and sees that hand alone."""
    rng = random.Random(21)
    story = Story(match_row("same_device"))
    turns = 0
    for ruling in rulings(story.state, rng, 300):
        story.tell(ruling, 0)
        state = story.state
        told_again = 0
        for event in told(story, Audience.DEVICE, 0).events:
            told_again = 0 if event.HasField("hand_dealt") else told_again | tiles_in(event)
        on_the_move = 0 if state.to_act is None else state.hand(state.to_act)
        assert not told_again & ~(tile_set(placed.tile for placed in state.layout.placements) | on_the_move)
        assert not on_the_move & ~told_again, "the hand of the turn that is open is there"
        turns += on_the_move != 0
    assert turns > 50


def test_every_audience_hears_the_same_numbers() -> None:
    """Dense from 1, the same event under the same number, and any resume point continues exactly there."""
    rng = random.Random(3)
    row = match_row()
    story = Story(row)
    for ruling in rulings(story.state, rng, 120):
        story.tell(ruling, 0)
    for audience in (Audience.NORTH, Audience.SOUTH, Audience.SPECTATOR):
        events = told(story, audience, 0).events
        assert [event.sequence for event in events] == list(range(1, story.sequence + 1))
        for after in (0, 1, story.sequence // 2, story.sequence - 1, story.sequence):
            assert told(story, audience, after).events == events[after:]
        assert story.since(audience, story.sequence + 1) is None
    north, south = (told(story, audience, 0).events for audience in (Audience.NORTH, Audience.SOUTH))
    assert [event.WhichOneof("kind") for event in north] == [event.WhichOneof("kind") for event in south]


def test_a_reader_too_far_behind_gets_a_snapshot() -> None:
    """Kept history is bounded; what is older is in the snapshot."""
    rng = random.Random(9)
    story = Story(match_row())
    while story.sequence <= HISTORY_MAX + 10:
        story = Story(match_row())
        for ruling in rulings(story.state, rng):
            story.tell(ruling, 0)
    assert story.since(Audience.NORTH, 1) is None
    assert story.since(Audience.NORTH, story.sequence - HISTORY_MAX) is not None
    assert story.since(Audience.NORTH, story.sequence - HISTORY_MAX - 1) is None


def test_a_log_read_back_tells_the_same_story() -> None:
    """A restart changes nothing: state, numbers, every audience's events and the answers given."""
    rng = random.Random(11)
    row = match_row()
    live = Story(row)
    log = []
    for revision, ruling in enumerate(rulings(live.state, rng, 200), 1):
        first = live.sequence + 1
        live.tell(ruling, 0)
        log.append(
            LogRow(
                revision=revision,
                first_sequence=first,
                last_sequence=live.sequence,
                events=json.dumps([event_to_json(event) for event in ruling]),
                seat="north",
                request_id=f"r{revision}",
                request_hash=b"hash",
                credited_ns=None,
                at=row.created_at,
            )
        )
    again = Story.from_log(row, log)
    assert again.state == live.state
    assert (again.revision, again.sequence) == (len(log), live.sequence)
    for audience in (Audience.NORTH, Audience.SOUTH, Audience.SPECTATOR):
        assert again.since(audience, 0) == live.since(audience, 0)
        assert again.snapshot(audience, None) == live.snapshot(audience, None)
    assert (seventh := again.answers.get(again.asked_as(NORTH, "r7"))) is not None
    assert seventh.first_sequence == log[6].first_sequence
    assert again.answers.get(again.asked_as(SOUTH, "r7")) is None


def test_a_request_id_is_its_players_alone() -> None:
    """Of two players each has ids of their own; who holds both seats of a device has one set of them."""
    two, device = Story(match_row()), Story(match_row("same_device"))
    assert two.asked_as(NORTH, "r1") != two.asked_as(SOUTH, "r1")
    assert device.asked_as(NORTH, "r1") == device.asked_as(SOUTH, "r1")


def test_on_one_device_the_prompt_says_whose_reveal_is_due() -> None:
    """Rule 7.4: the one connection holds both seats and must know which of them to ask."""
    story = Story(match_row("same_device"))
    for ruling in rulings(story.state, random.Random(5), 12):
        story.tell(ruling, 0)
        due = story.state.awaiting_reveal
        for audience in (Audience.DEVICE, Audience.SPECTATOR):
            prompt = told(story, audience, story.sequence).prompt
            assert prompt.awaiting_reveal == SEAT[due]
        if due is not None:
            break
    assert story.state.awaiting_reveal is not None


def test_a_story_knows_when_the_phase_began() -> None:
    """What the limits for Start and Continue count from; a press of one seat does not begin it anew."""
    row, rng = match_row(), random.Random(5)
    state, began, log, begins = first_state(row), row.created_at, list[LogRow](), {Phase.AWAITING_START}
    sequence = 0
    for number, ruling in enumerate(rulings(state, rng), 1):
        phase, at = state.phase, row.created_at + timedelta(seconds=number)
        for event in ruling:
            state = evolve(state, event)
        if state.phase is not phase:
            began = at
            begins.add(state.phase)
        events = json.dumps([event_to_json(event) for event in ruling])
        log.append(LogRow(number, sequence + 1, sequence + len(ruling), events, None, None, None, None, at))
        sequence += len(ruling)
        assert began == Story.from_log(row, log).phase_since
        if len(log) > 200:
            break
    assert Phase.SETTLED in begins
