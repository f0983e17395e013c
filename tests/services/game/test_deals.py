"""How a room deals: from the seed it has announced and from what the players added, the same in every process."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import timedelta

import pytest

from engine.command import Command, Continue, Resign, Start
from engine.event import Event, RoundDealt
from engine.eventjson import event_to_json
from engine.match import decide
from engine.recordlines import read_record
from engine.refusal import Refusal
from engine.seats import NORTH, SOUTH, BySeat
from engine.shuffle import drawn, seed_commitment
from engine.verify import problems
from services.common.errors import ServiceError
from services.game import shuffle
from services.game.deals import counted, with_deal
from services.game.rpc import record_of
from services.game.shuffle import Seeds
from services.game.story import Audience, Story
from services.storage.matches import LogRow
from services.storage.script import Script
from services.wire.commands import command_from_pb
from spectacularbid.match.v1 import match_service_pb2 as pb
from tests.engine.tables import deal
from tests.services.game.test_story import match_row, told

ROW = match_row()
SECRET = bytes(range(32))
SEEDS = Seeds(ROW.match_id, SECRET)
GIVEN = BySeat(b"what north adds, 28 bytes of", b"south's")


def pressed(story: Story, command: Command, script: Script | None = None) -> tuple[Event, ...]:
    """A press carried out, as a room does it."""
    ruling = decide(story.state, command)
    assert not isinstance(ruling, Refusal), ruling
    events = with_deal(story, ruling, script or Script())
    story.tell(events, 0)
    return events


def started(story: Story, script: Script | None = None) -> RoundDealt:
    """The deal after both seats have pressed Start, adding something."""
    pressed(story, Start(NORTH, GIVEN.north), script)
    dealt = pressed(story, Start(SOUTH, GIVEN.south), script)[-1]
    assert isinstance(dealt, RoundDealt)
    return dealt


def test_a_deal_is_drawn_from_what_was_announced_and_what_the_players_added() -> None:
    story = Story(ROW, SEEDS)
    announced = told(story, Audience.SPECTATOR, -1).snapshot.table.next_commitment
    assert announced == seed_commitment(ROW.match_id, 1, SEEDS.of(1))
    dealt = started(story)
    assert dealt.deal == drawn(ROW.match_id, 1, SEEDS.of(1), GIVEN)
    assert (dealt.salt, dealt.commitment, dealt.contributions) == (SEEDS.of(1), announced, GIVEN)
    assert not dealt.scripted
    (event,) = told(story, Audience.NORTH, 2).events
    assert event.hand_dealt.commitment == announced
    assert (event.hand_dealt.contributions.north, event.hand_dealt.contributions.south) == tuple(GIVEN)
    assert event.hand_dealt.next_commitment == seed_commitment(ROW.match_id, 2, SEEDS.of(2))
    assert told(story, Audience.NORTH, -1).snapshot.table.next_commitment == event.hand_dealt.next_commitment


def test_everybody_is_told_with_the_press_what_it_adds() -> None:
    """So that whoever presses next knows that it is fixed; who comes later finds it in the table until the deal."""
    story = Story(ROW, SEEDS)
    pressed(story, Start(NORTH, GIVEN.north))
    for audience in (Audience.NORTH, Audience.SOUTH, Audience.SPECTATOR):
        (event,) = told(story, audience, 0).events
        assert event.started.contribution == GIVEN.north
        table = told(story, audience, -1).snapshot.table
        assert (table.contributions.north, table.contributions.south) == (GIVEN.north, b"")
    pressed(story, Start(SOUTH))
    assert not told(story, Audience.SOUTH, -1).snapshot.table.HasField("contributions")


def test_the_secret_and_the_seeds_are_told_to_nobody() -> None:
    story = Story(ROW, SEEDS)
    started(story)
    for audience in (Audience.NORTH, Audience.SOUTH, Audience.SPECTATOR):
        raw = (story.since(audience, 0) or b"") + story.snapshot(audience, None)
        for hidden in (SECRET, SEEDS.of(1), SEEDS.of(2)):
            assert hidden not in raw
            assert hidden.hex().encode() not in raw
    assert SECRET.hex() not in repr(SEEDS)


def log_of(rulings: Iterable[tuple[Event, ...]]) -> list[LogRow]:
    log: list[LogRow] = []
    for revision, events in enumerate(rulings, 1):
        first = log[-1].last_sequence + 1 if log else 1
        stored = json.dumps([event_to_json(event) for event in events])
        at = ROW.created_at + timedelta(seconds=revision)
        log.append(
            LogRow(**_row(revision, first, first + len(events) - 1, stored), at=at)  # type: ignore[arg-type]
        )
    return log


def _row(revision: int, first: int, last: int, events: str) -> dict[str, object]:
    values: dict[str, object] = {"revision": revision, "first_sequence": first, "last_sequence": last}
    rest = {name: None for name in LogRow.__dataclass_fields__ if name not in {*values, "events", "at"}}
    return {**values, **rest, "events": events}


def test_whoever_takes_a_match_up_between_two_presses_deals_the_same() -> None:
    """What the first seat added is in the log, the secret in the database: a crash changes no deal."""
    there = Story(ROW, SEEDS)
    first = pressed(there, Start(NORTH, GIVEN.north))
    expected = pressed(there, Start(SOUTH, GIVEN.south))
    taken_up = Story.from_log(ROW, log_of([first]), Seeds(ROW.match_id, bytes(SECRET)))
    assert pressed(taken_up, Start(SOUTH, GIVEN.south)) == expected


def test_what_the_limit_presses_adds_nothing() -> None:
    story = Story(ROW, SEEDS)
    pressed(story, Start(NORTH))
    dealt = pressed(story, Start(SOUTH, b"s"))[-1]
    assert isinstance(dealt, RoundDealt)
    assert dealt.contributions == BySeat(b"", b"s")


def test_a_scripted_deal_is_marked_and_the_next_one_is_drawn_again() -> None:
    story = Story(ROW, SEEDS)
    dealt = started(story, Script(deals=(deal("6|6"),)))
    assert (dealt.deal, dealt.scripted, dealt.contributions) == (deal("6|6"), True, None)
    assert dealt.next_commitment == SEEDS.commitment(2)
    assert told(story, Audience.SPECTATOR, 2).events[0].hand_dealt.scripted


def test_a_round_that_nobody_announced_is_dealt_as_before_and_the_next_one_announced() -> None:
    """A release that does not announce may have dealt the round before."""
    story = Story(ROW, SEEDS)
    story.announced = None
    dealt = started(story)
    assert dealt.contributions is None
    assert not dealt.scripted
    assert dealt.next_commitment == SEEDS.commitment(2) == story.announced


def test_a_match_of_its_own_has_its_own_seeds() -> None:
    other = Seeds(ROW.match_id[:-1] + "2", SECRET)
    assert len({SEEDS.of(1), SEEDS.of(2), other.of(1), Seeds(ROW.match_id, bytes(32)).of(1)}) == 4


def test_the_record_of_a_played_match_proves_its_deals() -> None:
    story = Story(ROW, SEEDS)
    rulings = [pressed(story, Start(NORTH, GIVEN.north)), pressed(story, Start(SOUTH))]
    rulings.append(pressed(story, Resign(NORTH)))
    record = record_of(story, log_of(rulings))
    assert list(problems(read_record(record.encode()))) == []
    assert GIVEN.north.hex() in record


def test_what_a_house_bot_adds_does_not_count() -> None:
    """It is ours: we could look for the one that makes the deal we like."""
    assert counted(Start(NORTH, b"x"), bot=True) == Start(NORTH)
    assert counted(Continue(SOUTH, b"x"), bot=True) == Continue(SOUTH)
    assert counted(Start(NORTH, b"x"), bot=False) == Start(NORTH, b"x")
    assert counted(Resign(NORTH), bot=True) == Resign(NORTH)


@pytest.mark.parametrize(
    "command",
    [
        pb.Command(start=pb.Start(contribution=bytes(33))),
        pb.Command(continue_round=pb.Continue(contribution=bytes(33))),
    ],
)
def test_more_than_32_bytes_are_malformed(command: pb.Command) -> None:
    with pytest.raises(ServiceError, match="at most 32 bytes") as refused:
        command_from_pb(pb.SubmitRequest(decision_id=1, command=command), NORTH)
    assert refused.value.reason == "MALFORMED"
    shorter = pb.Command(start=pb.Start(contribution=bytes(32)))
    assert command_from_pb(pb.SubmitRequest(decision_id=1, command=shorter), NORTH) == Start(NORTH, bytes(32))


def test_a_secret_is_the_operating_systems() -> None:
    assert len({shuffle.secret() for _ in range(64)}) == 64
    assert all(len(shuffle.secret()) == 32 for _ in range(4))
