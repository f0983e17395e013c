"""The client's table, folded over the events, is the table the service would send anew."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from client import table as fold
from client.bots import greedy
from client.bots.account import HEADER, Account, verdict
from client.hotseat import options, picture
from client.match import News
from client.table import TableState
from client.wire import table_from_pb
from engine.command import Command, Play, Resign, Reveal, Start
from engine.seats import NORTH, SEATS, SOUTH, Seat
from services.game.story import Audience, Story
from tests.client.tables import carry_out, new_story, news, told
from tests.told import snapshot_of


def sent_anew(story: Story, audience: Audience) -> TableState:
    return table_from_pb(snapshot_of(story, audience), 0.0)


def random_choice(table: TableState, seat: Seat, rng: random.Random) -> Command:
    offered = [command for _, command in options(table, seat)]
    return rng.choice(offered)


@pytest.mark.parametrize("seed", range(4))
def test_a_table_folded_over_the_events_is_the_table_sent_anew(seed: int) -> None:
    """After every command of whole random matches, for both seats and a spectator, in the fields that count."""
    rng = random.Random(seed)
    story = new_story()
    audiences = (Audience.NORTH, Audience.SOUTH, Audience.SPECTATOR)
    tables = {audience: told(None, news(story, audience, 0)) for audience in audiences}
    while not story.over:
        asked = [a for a in audiences if tables[a].asks_me]
        assert asked, "somebody is asked something as long as the match is not over"
        asked_seat = rng.choice(asked)
        seat = tables[asked_seat].seat
        assert seat is not None
        assert carry_out(story, random_choice(tables[asked_seat], seat, rng), rng) is None
        for audience in audiences:
            tables[audience] = told(tables[audience], news(story, audience, tables[audience].sequence))
            anew = sent_anew(story, audience)
            if story.state.outcome is not None:
                # No prompt comes with the end: only that nothing is asked any more is known.
                assert not tables[audience].asks_me
                anew = replace(anew, prompt=tables[audience].prompt)
            assert tables[audience] == anew
            assert tables[audience].banks_ms == anew.banks_ms


@pytest.mark.parametrize("seed", range(3))
def test_on_one_device_the_hand_is_shown_for_one_turn_only(seed: int) -> None:
    """Rule 7.4."""
    rng = random.Random(seed)
    story = new_story(same_device=True)
    table = told(None, news(story, Audience.DEVICE, 0))
    for _ in range(300):
        if story.over:
            break
        state = story.state
        if state.awaiting_reveal is not None:
            assert table.hand == ()
            assert table.prompt.legal.reveal
            assert table.prompt.awaiting_reveal is state.awaiting_reveal
            command: Command = Reveal(state.awaiting_reveal)
        else:
            seat = state.to_act or next(seat for seat in SEATS if seat not in table.pressed)
            command = random_choice(table, seat, rng)
        assert carry_out(story, command, rng) is None
        table = told(table, news(story, Audience.DEVICE, table.sequence))
        if not story.over:
            assert table == sent_anew(story, Audience.DEVICE)


def test_on_one_device_no_hand_is_left_when_a_match_ends_in_the_middle_of_a_turn() -> None:
    """Rule 7.4: the end of the match is the end of the turn. A fold that kept the hand would show it for good."""
    rng = random.Random(4)
    story = new_story(same_device=True)
    table = told(None, news(story, Audience.DEVICE, 0))
    for command in (Start(NORTH), Start(SOUTH)):
        carry_out(story, command, rng)
    opener = story.state.awaiting_reveal
    assert opener is not None
    carry_out(story, Reveal(opener), rng)
    table = told(table, news(story, Audience.DEVICE, table.sequence))
    assert len(table.hand) == 7
    carry_out(story, Resign(opener), rng)
    table = told(table, news(story, Audience.DEVICE, table.sequence))
    assert table.outcome is not None
    assert table.hand == ()
    assert table.prompt.awaiting_reveal is None


def play_greedily(rng: random.Random) -> tuple[list[News], TableState]:
    """A whole match of two greedy bots: north's news and the last table."""
    story = new_story()
    seats = {Audience.NORTH: told(None, news(story, Audience.NORTH, 0))}
    seats[Audience.SOUTH] = told(None, news(story, Audience.SOUTH, 0))
    heard = [News(seats[Audience.NORTH], (), snapshot=True)]
    while not story.over:
        asking = next(audience for audience in seats if seats[audience].asks_me)
        command = greedy.choose(seats[asking])
        assert command is not None
        assert carry_out(story, command, rng) is None, f"{command} in {seats[asking]}"
        for audience, table in seats.items():
            message = news(story, audience, table.sequence)
            seats[audience] = told(table, message)
            if audience is Audience.NORTH:
                heard.append(News(seats[audience], tuple(message.events), snapshot=False))
    return heard, seats[Audience.NORTH]


@pytest.mark.parametrize("seed", range(6))
def test_the_greedy_bot_always_does_something_legal_and_finishes(seed: int) -> None:
    _, table = play_greedily(random.Random(seed))
    assert table.outcome is not None
    assert 0 in table.balances


@pytest.mark.parametrize("seed", range(6))
def test_the_account_has_one_narrow_line_a_round_that_adds_up(seed: int) -> None:
    heard, table = play_greedily(random.Random(seed))
    account = Account()
    lines = [line for each in heard for line in account.lines(each)]
    assert len(lines) == account.rounds == table.round_no
    assert all(len(line) <= 78 for line in [HEADER, *lines])
    assert [int(line.split()[0]) for line in lines] == list(range(1, table.round_no + 1))
    # The last line shows the balances of the end.
    assert f" {table.balances.north}:{table.balances.south} " in lines[-1]
    assert "wins" in verdict(table)


def test_the_account_of_a_fast_reader_and_of_one_that_lags_are_the_same() -> None:
    heard, _ = play_greedily(random.Random(5))
    one_by_one = Account()
    expected = [line for each in heard for line in one_by_one.lines(each)]
    all_at_once = Account()
    events = tuple(event for each in heard for event in each.events)
    lines = [*all_at_once.lines(heard[0]), *all_at_once.lines(News(heard[-1].table, events, snapshot=False))]
    assert lines == expected


def test_what_a_placement_would_count_is_what_it_counts() -> None:
    """Rule 3.5, against the engine: the bot's count is the count of the event."""
    rng = random.Random(1)
    seen = 0
    for _ in range(2):
        story = new_story()
        while not story.over:
            seat = next(seat for seat in SEATS if told(None, news(story, Audience(seat.value), 0)).asks_me)
            table = told(None, news(story, Audience(seat.value), 0))
            if table.prompt.legal.plays:
                tile, end = rng.choice(table.prompt.legal.plays)
                foreseen = greedy.count_after(table, tile, end)
                assert carry_out(story, Play(seat, tile, end), rng) is None
                assert story.state.layout.total == foreseen
                seen += 1
            else:
                assert carry_out(story, random_choice(table, seat, rng), rng) is None
    assert seen > 100


def test_the_picture_fits_a_terminal() -> None:
    heard, _ = play_greedily(random.Random(2))
    for each in heard:
        if each.table.outcome is None and each.table.seat is not None:
            lines = picture(each.table, each.table.seat)
            assert all(len(line) <= 100 for line in lines)


def test_a_question_that_only_allows_to_resign_is_none() -> None:
    assert not fold.Legal(resign=True).asks
    assert fold.Legal(pass_turn=True).asks
