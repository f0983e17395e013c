"""What keys and clicks make of a table: commands as the service takes them, or a hint."""

from __future__ import annotations

import random
from dataclasses import replace

import grpc
import pytest

from client.errors import Refused, call_error
from client.table import BidRange, Legal, TableState
from client.terminal.board import Scene, draw
from client.terminal.canvas import width_of
from client.terminal.desk import Desk
from client.terminal.refusals import why_refused
from client.terminal.selection import NOTHING, Selection, click, fitting, press
from client.terminal.settings import Settings
from engine.command import Accept, Bid, Command, Decline, Draw, Pass, Play, Resign, Start
from engine.match import legal
from engine.outcome import Cause, Outcome
from engine.refusal import Refusal
from engine.seats import NORTH, SOUTH
from engine.state import Phase
from services.game.story import Audience
from tests.client.tables import carry_out, new_story, news, told


def keys_for(command: Command, table: TableState) -> list[str]:
    """The keys a player presses for a command."""
    match command:
        case Play(_, tile, end):
            number = str((table.hand.index(tile) + 1) % 10)
            letter = [] if end is None else ["wxyz"[[each.end for each in table.ends].index(end)]]
            return [number, *letter, "enter"]
        case Bid(_, amount):
            bid = table.prompt.legal.bid
            assert bid is not None
            return ["right"] * (1 + (amount - bid.lowest) // bid.step) + ["enter"]
        case Accept():
            return ["a"]
        case Decline():
            return ["d"]
        case _:
            return ["enter"]


def typed(table: TableState, keys: list[str]) -> Command | None:
    """What comes of keys, one after the other."""
    assert table.seat is not None
    pressed = press(keys[0], NOTHING, table, table.seat)
    for key in keys[1:]:
        assert pressed.command is None, f"sent before {key}"
        pressed = press(key, pressed.selection, table, table.seat)
    return pressed.command


def clicked(table: TableState, command: Command) -> Command | None:
    """The same with the mouse: the tile, its end, and the end once more."""
    assert table.seat is not None
    seat, selection, sent = table.seat, NOTHING, None
    for _ in range(3):
        canvas = draw(Scene(table, 0.0, seat=seat, bottom=seat, selection=selection), 80, 24)
        targets = [target for _, _, target in canvas.targets()]
        wanted = next((target for target in targets if target.command == command), None)
        if wanted is None and isinstance(command, Play):
            if selection.tile is not command.tile or command.end is None:
                wanted = next(target for target in targets if target.tile is command.tile)
            else:
                wanted = next(target for target in targets if target.end is command.end)
        if wanted is None and isinstance(command, Bid):
            wanted = next((target for target in targets if target.amount == command.amount), None)
            if wanted is None:
                return command  # farther along than the row shows: arrows lead there
        assert wanted is not None, f"nothing to click for {command}"
        pressed = click(wanted, selection, table, seat)
        selection, sent = pressed.selection, pressed.command
        if sent is not None:
            break
    return sent


def test_every_legal_command_can_be_typed_and_clicked() -> None:
    rng, clicks = random.Random(3), random.Random(1)
    story = new_story()
    seen = set()
    while not story.over:
        for audience in (Audience.NORTH, Audience.SOUTH):
            table = told(None, news(story, audience, 0))
            if not table.asks_me:
                continue
            assert table.seat is not None
            command = _some(table, rng)
            seen.add(type(command))
            assert typed(table, keys_for(command, table)) == command
            if clicks.random() < 0.2:
                assert clicked(table, command) == command
            assert not isinstance(carry_out(story, command, rng), Refusal)
            break
    assert {Start, Play, Draw, Bid, Accept} <= seen


def _some(table: TableState, rng: random.Random) -> Command:
    from client.hotseat import options

    assert table.seat is not None
    return rng.choice([command for _, command in options(table, table.seat)])


def playing(*, plays: int, seed: int = 1) -> TableState:
    """North's table with at least so many plays."""
    rng = random.Random(seed)
    story = new_story()
    while not story.over:
        table = told(None, news(story, Audience.NORTH, 0))
        if table.placements and len(table.prompt.legal.plays) >= plays:
            return table
        carry_out(story, _choice(story, rng), rng)
    return playing(plays=plays, seed=seed + 1)


def _choice(story: object, rng: random.Random) -> Command:
    from services.game.story import Story
    from tests.engine.randomplay import choose

    assert isinstance(story, Story)
    return choose(story.state, legal(story.state), rng)


def test_a_tile_that_does_not_fit_is_sent_for_the_service_to_refuse() -> None:
    """The service says why, and the rule; nothing is decided here."""
    table = next(
        table
        for seed in range(1, 50)
        for table in [playing(plays=1, seed=seed)]
        if any(tile not in {legal for legal, _ in table.prompt.legal.plays} for tile in table.hand)
    )
    fits = {tile for tile, _ in table.prompt.legal.plays}
    tile = next(tile for tile in table.hand if tile not in fits)
    assert typed(table, [str(table.hand.index(tile) + 1), "enter"]) == Play(NORTH, tile, table.ends[0].end)


def test_enter_places_nothing_that_was_not_chosen() -> None:
    table = playing(plays=3)
    pressed = press("enter", NOTHING, table, NORTH)
    assert pressed.command is None
    assert pressed.selection.tile in {tile for tile, _ in table.prompt.legal.plays}


def test_tab_goes_through_the_ends_where_the_tile_fits_and_no_others() -> None:
    table = next(
        table
        for seed in range(1, 50)
        for table in [playing(plays=2, seed=seed)]
        if any(1 < len(fitting(table, tile)) < len(table.ends) for tile in table.hand)
    )
    plays = table.prompt.legal.plays
    tile = next(tile for tile, _ in plays if 1 < len(fitting(table, tile)) < len(table.ends))
    ends = [end for other, end in plays if other is tile]
    selection = Selection(tile)
    visited = []
    for _ in range(2 * len(ends)):
        selection = press("tab", selection, table, NORTH).selection
        visited.append(selection.end)
    assert visited == ends * 2


def test_what_was_chosen_for_one_question_is_not_sent_for_the_next() -> None:
    table = playing(plays=2)
    tile, end = table.prompt.legal.plays[0]
    bids = replace(table.prompt, legal=Legal(decline=True, bid=BidRange(15, 100)))
    later = replace(table, prompt=replace(bids, decision_id=table.prompt.decision_id + 1))
    assert Desk(replace(table, prompt=bids), Selection(amount=20)).told(later).selection.amount is None
    assert Desk(later, Selection(amount=20)).told(later).selection.amount == 20
    desk = Desk(table, selection=Selection(tile, end))
    gone = replace(later, hand=tuple(each for each in table.hand if each is not tile))
    assert desk.told(gone).selection.tile is not tile


@pytest.mark.parametrize(("answer", "sent"), [("y", Resign(NORTH)), ("n", None), ("enter", None)])
def test_resigning_is_asked_for_once_more(answer: str, sent: Command | None) -> None:
    asking = Desk(playing(plays=1)).press("R")
    assert asking.command is None
    assert "Resign?" in draw(asking.after.scene(0.0), 80, 24).text()
    answered = asking.after.press(answer)
    assert answered.command == sent
    assert answered.after.asking == ""


def test_leaving_a_match_that_goes_on_is_asked_for_once_more() -> None:
    desk = Desk(playing(plays=1))
    asking = desk.press("q")
    assert not asking.leaves
    assert not asking.after.press("x").leaves
    assert asking.after.press("y").leaves
    over = Desk(replace(desk.table, outcome=Outcome(NORTH, Cause.RESIGNATION, "")))
    assert over.press("q").leaves
    assert Desk(replace(desk.table, seat=None, hand=())).press("q").leaves


def test_help_sends_nothing_and_keeps_the_clock_in_sight() -> None:
    table = playing(plays=1)
    clock = replace(table.prompt.clock, running=NORTH, delay_left_ms=9_000, remaining_ms=60_000, as_of=0.0)
    desk = Desk(replace(table, prompt=replace(table.prompt, clock=clock)))
    helping = desk.press("question_mark")
    assert helping.command is None
    from client.terminal.theme import Theme

    text = helping.after.draw(80, 24, 1.0, Theme()).text()
    assert f"spectacular-bid watch {helping.after.table.match_id}\n" in text
    assert "left, right" in text
    assert "delay 7, bank 0:51" in text
    back = helping.after.press("enter")
    assert (back.after, back.command) == (desk, None)


def test_before_the_start_it_is_said_that_nobody_resigns() -> None:
    table = playing(plays=1)
    pressed = Desk(replace(table, prompt=replace(table.prompt, phase=Phase.AWAITING_START))).press("R")
    assert (pressed.command, pressed.after.asking) == (None, "")
    assert "You can resign when the match has begun" in draw(pressed.after.scene(0.0), 80, 24).text()


def test_a_spectator_can_send_nothing() -> None:
    desk = Desk(replace(playing(plays=1), seat=None, hand=()))
    for key in ("enter", "1", "d", "p", "R", "w", "a", "s", "c"):
        assert desk.press(key).command is None


def test_a_forced_pass_and_draw_are_sent_when_the_player_wants_it() -> None:
    table = playing(plays=1)
    passing = replace(table.prompt.legal, plays=(), pass_turn=True)
    drawing = replace(table.prompt.legal, plays=(), draw=True)
    desks = [Desk(replace(table, prompt=replace(table.prompt, legal=each))) for each in (passing, drawing)]
    assert [desk.automatic(Settings()) for desk in desks] == [Pass(NORTH), None]
    assert [desk.automatic(Settings(auto_pass=False, auto_draw=True)) for desk in desks] == [
        None,
        Draw(NORTH),
    ]
    assert Desk(table).automatic(Settings(auto_draw=True)) is None
    assert Desk(replace(desks[0].table, seat=None)).automatic(Settings()) is None
    assert SOUTH is NORTH.opponent


def test_every_refusal_has_a_sentence_and_its_rule() -> None:
    for refusal in Refusal:
        error = call_error(
            grpc.StatusCode.FAILED_PRECONDITION, refusal.value, "text", metadata={"rule": refusal.rule}
        )
        assert isinstance(error, Refused)
        assert f"(rule {refusal.rule})." in why_refused(error)
        assert width_of(f"Refused: {why_refused(error)}") <= 2 * 80
