"""Every refusal: a table in order of precedence, an independent list of reasons, and nothing moved after any."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.command import Accept, Bid, Command, Continue, Decline, Draw, Pass, Play, Resign, Reveal, Start
from engine.match import RANKED, Auctioned, Match, Mode, Opening, Phase, deal_round, decide, legal, replay
from engine.refusal import Refusal
from engine.seats import NORTH, SEATS, SOUTH
from engine.tiles import DOUBLE_SIX, ENDS, WITH_VALUE
from tests.engine import naive, randomplay
from tests.engine.tables import (
    SALT,
    after,
    auction,
    deal,
    dealt,
    endgame,
    free_opening,
    layout,
    play,
    scripted_round,
    started,
)

R = Refusal
BLOCKED = after(endgame("1|2", "3|4", passes=1), Pass(NORTH))
FORCED = dealt(started(), deal("6|6 0|1", "0|2 0|3"))
OPENED = free_opening(NORTH, deal("1|4", "1|1 2|2 4|4"))
LONE = after(OPENED, play(NORTH, "1|4"))
SPINNER = after(LONE, play(SOUTH, "1|1", "1|4 low"))
DRAWN = after(endgame("1|2 0|3", "3|4", boneyard="1|6 0|0"), Draw(NORTH))
SHARED = dealt(started(mode=Mode.SAME_DEVICE), deal("6|6"))
WON = after(started(), Resign(SOUTH))

TABLE: list[tuple[Refusal, Match, Command]] = [
    # reason                       state                                     command
    (R.MATCH_OVER,                 WON,                                      Resign(NORTH)),
    (R.NOT_STARTED,                Match.start(),                            Resign(NORTH)),
    (R.ROUND_SETTLED,              BLOCKED,                                  Draw(NORTH)),
    (R.AWAITING_DEAL,              started(),                                Bid(NORTH, 15)),
    (R.START_NOT_DUE,              FORCED,                                   Start(NORTH)),
    (R.CONTINUE_NOT_DUE,           FORCED,                                   Continue(NORTH)),
    (R.NOT_SAME_DEVICE,            FORCED,                                   Reveal(NORTH)),
    (R.REVEAL_NOT_DUE,             SHARED,                                   Reveal(SOUTH)),
    (R.ALREADY_PRESSED,            after(Match.start(), Start(NORTH)),       Start(NORTH)),
    (R.NOT_YOUR_TURN,              FORCED,                                   play(SOUTH, "0|2")),
    (R.NOT_REVEALED,               SHARED,                                   play(NORTH, "6|6")),
    (R.NO_AUCTION,                 FORCED,                                   Decline(NORTH)),
    (R.AUCTION_OPEN,               auction(),                                Draw(SOUTH)),
    (R.BID_STANDS,                 after(auction(), Bid(SOUTH, 15)),         Decline(NORTH)),
    (R.NO_BID_STANDS,              auction(),                                Accept(SOUTH)),
    (R.MUST_DECLINE,               auction(balances=(290, 10)),              Bid(SOUTH, 15)),
    (R.BID_NOT_A_MULTIPLE_OF_FIVE, auction(),                                Bid(SOUTH, 22)),
    (R.BID_BELOW_MINIMUM,          auction(),                                Bid(SOUTH, 10)),
    (R.RAISE_TOO_SMALL,            after(auction(), Bid(SOUTH, 20)),         Bid(NORTH, 20)),
    (R.BID_UNAFFORDABLE,           auction(),                                Bid(SOUTH, 155)),
    (R.MUST_OPEN,                  FORCED,                                   Draw(NORTH)),
    (R.TILE_NOT_IN_HAND,           LONE,                                     play(SOUTH, "6|6", "1|4 low")),
    (R.OPENING_TILE_FORCED,        FORCED,                                   play(NORTH, "0|1")),
    (R.END_GIVEN_FOR_OPENING,      OPENED,                                   play(NORTH, "1|4", "1|1 line_a")),
    (R.MUST_PLAY_DRAWN_TILE,       DRAWN,                                    play(NORTH, "1|2", "6|6 line_a")),
    (R.END_MISSING,                LONE,                                     play(SOUTH, "1|1")),
    (R.END_NOT_OPEN,               LONE,                                     play(SOUTH, "1|1", "1|6 low")),
    (R.BRANCH_CLOSED,              after(LONE, play(SOUTH, "1|1", "1|4 low")), play(NORTH, "0|1", "1|1 branch_a")),
    (R.TILE_DOES_NOT_FIT,          LONE,                                     play(SOUTH, "2|2", "1|4 low")),
    (R.MUST_PLAY,                  LONE,                                     Draw(SOUTH)),
    (R.BONEYARD_EMPTY,             endgame("1|2", "3|4"),                    Draw(NORTH)),
    (R.MUST_DRAW,                  endgame("1|2", "3|4", boneyard="0|0"),    Pass(NORTH)),
]  # fmt: skip

DEAL_TABLE = [
    (R.MATCH_OVER, WON),
    (R.DEAL_NOT_DUE, Match.start()),
    (R.DEAL_NOT_DUE, FORCED),
    (R.DEAL_NOT_DUE, BLOCKED),
]
FROM_OUTSIDE = {R.CLOCK_EXPIRED, R.STALE_DECISION}
"""Given by those who know the time and the number of the decision that was answered."""


@pytest.mark.parametrize(("reason", "state", "command"), TABLE, ids=[row[0].value for row in TABLE])
def test_a_command_is_refused_and_nothing_moves(reason: Refusal, state: Match, command: Command) -> None:
    """Rule 7.5."""
    before = Match(*state)
    assert reason is decide(state, command)
    assert before == state


@pytest.mark.parametrize(("reason", "state"), DEAL_TABLE)
def test_a_deal_is_refused_when_none_is_due(reason: Refusal, state: Match) -> None:
    assert reason is deal_round(state, deal(), SALT)


def test_the_table_has_every_refusal_in_order() -> None:
    """The order of the enum is the order of precedence; the table follows it."""
    rows = [reason for reason, _, _ in TABLE]
    rows.insert(list(Refusal).index(R.DEAL_NOT_DUE), R.DEAL_NOT_DUE)
    assert [reason for reason in Refusal if reason not in FROM_OUTSIDE] == rows


def test_every_refusal_is_named_like_its_value_and_has_a_rule() -> None:
    for reason in Refusal:
        assert reason.name == reason.value
        section, number = reason.rule.split(".")
        assert section.isdigit()
        assert number.isdigit()


def test_a_branch_is_closed_for_whoever_holds_the_tile() -> None:
    """Rule 3.4: the tile fits, and still the branch of the spinner is closed while one line is open."""
    state, plays = scripted_round([("1|4", None), ("1|1", "1|4 low"), ("1|5", "1|1 branch_a")], opener=SOUTH)
    state = after(state, *plays[:2])
    assert decide(state, plays[2]) is R.BRANCH_CLOSED


commands = st.one_of(
    st.builds(Play, st.sampled_from(SEATS), st.sampled_from(DOUBLE_SIX), st.none() | st.sampled_from(ENDS)),
    st.builds(Bid, st.sampled_from(SEATS), st.integers(-10, 330) | st.integers(0, 66).map(lambda n: 5 * n)),
    *(
        st.builds(kind, st.sampled_from(SEATS))
        for kind in (Start, Continue, Reveal, Accept, Decline, Draw, Pass, Resign)
    ),
)


@st.composite
def positions(draw: st.DrawFn) -> Match:
    """Somewhere in a random match."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    mode = draw(st.sampled_from(Mode))
    openings: tuple[Opening, ...] = (RANKED, Auctioned(NORTH), Auctioned(SOUTH))
    opening = draw(st.sampled_from(openings))
    first = randomplay.start(rng, mode=mode, opening=opening)
    wanted = draw(st.integers(0, 60))
    last = first
    for number, (state, events) in enumerate(randomplay.steps(first, rng)):
        if number == wanted:
            return state
        last = replay(state, events)
    return last


@settings(deadline=None)
@given(positions(), st.lists(commands, min_size=1, max_size=30))
def test_the_first_reason_that_applies_is_the_answer(state: Match, tried: list[Command]) -> None:
    """Precedence against an independent list of all reasons; a command without reason against it is accepted."""
    for command in tried:
        before = Match(*state)
        ruling = decide(state, command)
        expected = naive.first_reason(state, command)
        assert expected == (ruling if isinstance(ruling, Refusal) else None), command
        assert before == state


@settings(deadline=None)
@given(positions())
def test_exactly_the_listed_commands_are_accepted(state: Match) -> None:
    """Every play of every tile at every end, every bid and every other command, against `legal`."""
    listed = set(randomplay.commands(state, legal(state)))
    everything: list[Command] = [
        kind(seat) for seat in SEATS for kind in (Start, Continue, Reveal, Accept, Decline, Draw, Pass)
    ]
    for seat in SEATS:
        everything += [Play(seat, tile, end) for tile in DOUBLE_SIX for end in (None, *ENDS)]
        everything += [Bid(seat, amount) for amount in range(-5, 330)]
    accepted = {command for command in everything if not isinstance(decide(state, command), Refusal)}
    assert listed == accepted


def test_a_tile_elsewhere_is_no_oracle() -> None:
    """FC-59: in the other hand, in the boneyard, on the table or nowhere to be joined: one answer, nothing moves."""
    state = LONE
    elsewhere = [
        state.hands[NORTH][0],
        state.boneyard[0],
        state.boneyard[-1],
        state.layout.placements[0].tile,
    ]
    for tile in elsewhere:
        for end in (None, *ENDS):
            assert decide(state, Play(SOUTH, tile, end)) is R.TILE_NOT_IN_HAND
    misfit = next(tile for tile in state.hands[SOUTH] if not tile.bit & WITH_VALUE[1])
    assert decide(state, Play(SOUTH, misfit, layout(("1|4", None)).ends[0])) is R.TILE_DOES_NOT_FIT


def test_a_refusal_is_the_same_for_a_tile_in_either_hidden_place() -> None:
    """FC-59: swapping the boneyard and the other hand changes no answer."""
    state = LONE
    hidden = [*state.hands[NORTH], *state.boneyard]
    other = state._replace(north_hand=sum(tile.bit for tile in hidden[-6:]), boneyard=tuple(hidden[:-6]))
    for tile in hidden:
        command = Play(SOUTH, tile, layout(("1|4", None)).ends[0])
        assert decide(state, command) is decide(other, command) is R.TILE_NOT_IN_HAND


def test_a_first_press_changes_no_question_and_a_repeated_one_nothing() -> None:
    """FC-09: Continue three times is harmless; no clock runs and no bank moves until both have pressed."""
    state = after(BLOCKED, Continue(NORTH))
    assert BLOCKED.decision_id == state.decision_id
    for _ in range(3):
        assert decide(state, Continue(NORTH)) is R.ALREADY_PRESSED
    assert state.to_act is None
    assert BLOCKED.banks == state.banks
    pressed = after(state, Continue(SOUTH))
    assert Phase.AWAITING_DEAL is pressed.phase
    again = dealt(pressed, deal())
    assert BLOCKED.banks == again.banks
