"""A client that adds to the deals, and finds out when the service does not keep to what it has committed to."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from client.connection import Connections
from client.fairness import Fairness
from client.match import MatchStream, News
from client.table import TableState
from client.wire import command_to_pb, table_from_pb
from client.words import Pauses
from engine.command import Command, Continue, Play, Resign, Start
from engine.event import Event, RoundDealt
from engine.match import decide
from engine.record import record_lines
from engine.refusal import Refusal
from engine.seats import NORTH, SEATS, SOUTH, BySeat, Seat
from engine.shuffle import drawn
from engine.tiles import DOUBLE_SIX
from services.game.deals import with_deal
from services.game.shuffle import Seeds, shuffled
from services.game.story import Audience, Story
from services.storage.matches import PlayerRow
from services.storage.script import Script, first_state
from services.wire.commands import command_from_pb
from spectacularbid.match.v1 import event_pb2, table_pb2
from spectacularbid.match.v1 import match_service_pb2 as pb
from tests.client.tables import new_story
from tests.told import events_of, snapshot_of

SEEDS = Seeds(new_story().row.match_id, bytes(range(32)))
Forge = Callable[[RoundDealt], RoundDealt]


class Meeting:
    """A match of two clients that add to its deals, told by a service that forges them as it likes."""

    def __init__(self, forge: Forge = lambda dealt: dealt, *, bot: bool = False, rated: bool = True) -> None:
        row = replace(new_story().row, rated=rated)
        if bot:
            row = replace(row, south=PlayerRow("bot-greedy", "greedy", bot=True))
        self.story = Story(row, SEEDS)
        self.forge = forge
        self.events: list[Event] = []
        self.fair = {seat: Fairness(row.match_id, house_bot=bot and seat is SOUTH) for seat in SEATS}
        for seat in SEATS:
            self.fair[seat].table(self.table(seat))

    def table(self, seat: Seat) -> TableState:
        return table_from_pb(snapshot_of(self.story, Audience(seat.value)), 0.0)

    def press(self, command: Command, *, heard: bool = True) -> None:
        """One press, through the messages and back."""
        seat, round_no = command.seat, self.story.state.round_no + 1
        decision_id = self.story.state.decision_id
        command = self.fair[seat].with_contribution(command, self.table(seat), decision_id)
        request = pb.SubmitRequest(decision_id=decision_id, command=command_to_pb(command))
        assert command_from_pb(request, seat) == command
        self.carry_out(command)
        if heard:
            self.fair[seat].carried_out(command, round_no)

    def carry_out(self, command: Command, script: Script | None = None) -> None:
        ruling = decide(self.story.state, command)
        assert not isinstance(ruling, Refusal)
        before = self.story.sequence
        dealt = [
            self.forge(event) if isinstance(event, RoundDealt) else event
            for event in with_deal(self.story, ruling, script or Script())
        ]
        self.story.tell(dealt, 0)
        self.events += dealt
        for seat in SEATS:
            for message in events_of(self.story, Audience(seat.value), before):
                self.fair[seat].hear(message, self.table(seat).round_no)

    def start(self) -> None:
        for seat in SEATS:
            self.press(Start(seat))

    def record(self) -> str:
        header = {"match_id": self.story.row.match_id}
        return "\n".join(record_lines(first_state(self.story.row), self.events, header))


def test_an_honest_service_raises_no_doubt_and_its_record_proves_it() -> None:
    made = Meeting()
    made.start()
    made.carry_out(Resign(NORTH))
    assert [made.fair[seat].doubts for seat in SEATS] == [[], []]
    assert [made.fair[seat].against(made.record()) for seat in SEATS] == [[], []]
    dealt = next(event for event in made.events if isinstance(event, RoundDealt))
    assert dealt.contributions is not None
    assert {len(given) for given in dealt.contributions} == {32}
    assert dealt.contributions.north != dealt.contributions.south


def test_the_same_press_takes_the_same_bytes_along_and_another_one_others() -> None:
    """It may be sent again under its request id, which the service takes for the same only when nothing has changed."""
    made = Meeting()
    fair, table = made.fair[NORTH], made.table(NORTH)
    first = fair.with_contribution(Start(NORTH), table, 1)
    assert fair.with_contribution(Start(NORTH), table, 1) == first
    others = [
        fair.with_contribution(Continue(NORTH), table, 2),
        fair.with_contribution(Start(SOUTH), table, 1),
        Fairness(made.story.row.match_id).with_contribution(Start(NORTH), table, 1),
    ]
    given = {press.contribution for press in (first, *others) if isinstance(press, Start | Continue)}
    assert len(given) == 4
    assert fair.with_contribution(Start(NORTH, b"own"), table, 1) == Start(NORTH, b"own")
    play = Play(NORTH, DOUBLE_SIX[0])
    assert fair.with_contribution(play, table, 3) is play


def test_a_house_bot_adds_nothing() -> None:
    made = Meeting(bot=True)
    assert made.fair[SOUTH].with_contribution(Start(SOUTH), made.table(SOUTH), 1) == Start(SOUTH)
    made.start()
    assert [made.fair[seat].doubts for seat in SEATS] == [[], []]


def test_a_person_whom_the_service_calls_a_bot_adds_all_the_same() -> None:
    """Or the service could take what people add out of a deal without a word."""
    made = Meeting(lambda dealt: _drawn_with(dealt, BySeat(_of(dealt, NORTH), b"")), bot=True)
    made.fair[SOUTH] = fair = Fairness(made.story.row.match_id)
    fair.table(made.table(SOUTH))
    assert fair.with_contribution(Start(SOUTH), made.table(SOUTH), 1) != Start(SOUTH)
    made.start()
    assert fair.doubts == ["round 1 was not dealt with what this client had added"]


@pytest.mark.parametrize("drawn_after_all", [True, False])
def test_a_seed_that_was_never_committed_to_proves_nothing(drawn_after_all: bool) -> None:
    """A service that tells no commitment could choose every deal, and every record would agree with it."""
    made = Meeting((lambda dealt: dealt) if drawn_after_all else _as_before)
    made.fair[NORTH] = fair = Fairness(made.story.row.match_id)
    fair.table(replace(made.table(NORTH), next_commitment=""))
    made.start()
    assert fair.doubts == ["round 1 was dealt without a seed that had been committed to"]


def test_what_was_announced_before_a_match_is_resumed_counts() -> None:
    made = Meeting(_seed_chosen_late)
    before = made.table(NORTH)
    made.start()
    stream = MatchStream(Connections(None), before.match_id, "127.0.0.1:1", resume=before)
    for message in events_of(made.story, Audience.NORTH, 0):
        stream.fairness.hear(message, 1)
    assert stream.fairness.doubts == ["round 1 was not dealt from the seed that had been committed to"]


def _seed_chosen_late(dealt: RoundDealt) -> RoundDealt:
    """Another seed, found when the contributions were known, with a true commitment to it."""
    other = Seeds(SEEDS._match_id, bytes(32))
    assert dealt.contributions is not None
    deal = drawn(SEEDS._match_id, 1, other.of(1), dealt.contributions)
    return replace(dealt, deal=deal, salt=other.of(1), commitment=other.commitment(1))


def _dropped(dealt: RoundDealt) -> RoundDealt:
    """What north has added is left out."""
    assert dealt.contributions is not None
    return _drawn_with(dealt, dealt.contributions.put(NORTH, b""))


def _drawn_with(dealt: RoundDealt, contributions: BySeat[bytes]) -> RoundDealt:
    deal = drawn(SEEDS._match_id, 1, dealt.salt, contributions)
    return replace(dealt, deal=deal, contributions=contributions)


def _as_before(dealt: RoundDealt) -> RoundDealt:
    """A deal of the service's own choice."""
    return replace(dealt, deal=shuffled(), contributions=None)


def test_whoever_presses_last_has_been_told_all_else_that_goes_into_the_deal() -> None:
    """A service and an opponent who work together cannot look for a contribution any more when they know this one."""
    made = Meeting(
        lambda dealt: _drawn_with(dealt, BySeat(b"found when south's was known", _of(dealt, SOUTH)))
    )
    made.start()
    assert made.fair[SOUTH].doubts == ["round 1 was not dealt with what north had added"]
    late = Fairness(made.story.row.match_id)
    early = Meeting()
    early.press(Start(NORTH, b"n"))
    late.table(early.table(SOUTH))
    early.forge = lambda dealt: _drawn_with(dealt, BySeat(b"another", _of(dealt, SOUTH)))
    early.fair[SOUTH] = late
    early.press(Start(SOUTH))
    assert late.doubts == ["round 1 was not dealt with what north had added"]


def _of(dealt: RoundDealt, seat: Seat) -> bytes:
    assert dealt.contributions is not None
    return dealt.contributions[seat]


@pytest.mark.parametrize(
    ("forge", "doubt"),
    [
        (_seed_chosen_late, "round 1 was not dealt from the seed that had been committed to"),
        (_dropped, "round 1 was not dealt with what this client had added"),
        (_as_before, "round 1 was not dealt from the seed that had been committed to"),
    ],
)
def test_a_deal_that_was_not_made_as_committed_to_is_found_at_once(forge: Forge, doubt: str) -> None:
    made = Meeting(forge)
    made.start()
    assert made.fair[NORTH].doubts == [doubt]
    news = News(made.table(NORTH), (), snapshot=False, doubts=tuple(made.fair[NORTH].doubts))
    assert Pauses().lines(news) == [f"Do not trust this match: {doubt}."]


@pytest.mark.parametrize("deal_first", [True, False])
def test_it_does_not_matter_whether_the_deal_or_the_answer_to_the_press_is_heard_first(
    deal_first: bool,
) -> None:
    """A service that never told of the press either: what this client has sent is not what was dealt with."""
    made = Meeting()
    fair, table = made.fair[NORTH], made.table(NORTH)
    press = fair.with_contribution(Start(NORTH), table, 1)
    other = table_pb2.Contributions(north=b"another", south=b"")
    dealt = event_pb2.HandDealt(round=1, commitment=table.next_commitment, contributions=other)
    steps: list[Callable[[], None]] = [
        lambda: fair.hear(event_pb2.MatchEvent(hand_dealt=dealt), 1),
        lambda: fair.carried_out(press, 1),
    ]
    first, second = steps if deal_first else reversed(steps)
    first()
    assert fair.doubts == []
    second()
    assert fair.doubts == ["round 1 was not dealt with what this client had added"]


def test_a_press_that_was_refused_has_added_nothing() -> None:
    """Another client of the same player, or the limit, was ahead: that is no doubt."""
    made = Meeting()
    made.press(Start(NORTH), heard=False)
    made.press(Start(SOUTH))
    assert made.fair[NORTH].doubts == []


def test_what_a_house_bot_has_added_must_not_count() -> None:
    made = Meeting(lambda dealt: _drawn_with(dealt, BySeat(b"", b"chosen")), bot=True)
    made.start()
    assert "round 1 was dealt with what a house bot added" in made.fair[NORTH].doubts


def test_a_commitment_is_not_taken_back() -> None:
    made = Meeting()
    fair = made.fair[NORTH]
    fair.table(replace(made.table(NORTH), next_commitment="00" * 32))
    assert fair.doubts == ["round 1 was committed to twice, and not to the same seed"]


def test_a_record_that_tells_another_deal_is_found() -> None:
    """True in itself, but not what was told: the seed of another secret."""
    made = Meeting()
    made.start()
    made.carry_out(Resign(NORTH))
    forged = [
        json.dumps({**line, **_proof_of(_seed_chosen_late, made)})
        if line["type"] == "deal"
        else json.dumps(line)
        for line in map(json.loads, made.record().splitlines())
    ]
    found = made.fair[NORTH].against("\n".join(forged))
    assert found == ["round 1 is not in the record as it was told when it was dealt"]
    assert made.fair[NORTH].against("") != []


def test_a_record_of_another_match_proves_nothing_about_this_one() -> None:
    """What was told for one match and is proven for another one: one deal for two matches."""
    made = Meeting()
    made.fair[NORTH] = fair = Fairness(made.story.row.match_id[:-1] + "2")
    fair.table(made.table(NORTH))
    made.start()
    made.carry_out(Resign(NORTH))
    assert fair.against(made.record()) == ["the record is not that of this match"]


def test_a_record_must_show_the_tiles_that_were_played_with() -> None:
    """Commitment, contributions and proof are right; what the players were given is another deal."""
    made = Meeting(lambda dealt: replace(dealt, deal=shuffled()))
    made.start()
    made.carry_out(Resign(NORTH))
    honest = [_rightly(event) if isinstance(event, RoundDealt) else event for event in made.events]
    made.events = honest
    wrong = ["round 1 was played with other tiles than the record shows"]
    assert [made.fair[seat].against(made.record()) for seat in SEATS] == [wrong, wrong]


@pytest.mark.parametrize(("place", "found"), [(0, 0), (1, 1)])
def test_a_record_must_show_the_tiles_that_were_drawn(place: int, found: int) -> None:
    made = Meeting()
    made.start()
    (first,) = (event.deal.boneyard[place] for event in made.events if isinstance(event, RoundDealt))
    drawn_tile = event_pb2.TileDrawn(tile=table_pb2.Tile(low=first.low, high=first.high), boneyard=13)
    made.fair[NORTH].hear(event_pb2.MatchEvent(tile_drawn=drawn_tile), 1)
    made.carry_out(Resign(NORTH))
    assert len(made.fair[NORTH].against(made.record())) == found


def _rightly(dealt: RoundDealt) -> RoundDealt:
    assert dealt.contributions is not None
    return _drawn_with(dealt, dealt.contributions)


def _proof_of(forge: Forge, made: Meeting) -> dict[str, object]:
    dealt = forge(next(event for event in made.events if isinstance(event, RoundDealt)))
    (line,) = (
        json.loads(line)
        for line in record_lines(first_state(made.story.row), [*made.events[:2], dealt])
        if '"deal"' in line
    )
    return dict(line)


@pytest.mark.parametrize(
    ("rated", "doubts"), [(False, []), (True, ["round 1 of a rated match was dealt as somebody wanted it"])]
)
def test_only_a_test_configuration_says_what_is_dealt(rated: bool, doubts: list[str]) -> None:
    made = Meeting(rated=rated)
    for seat in SEATS:
        made.carry_out(Start(seat), Script(deals=(shuffled(),)))
    assert [made.fair[seat].doubts for seat in SEATS] == [doubts, doubts]
