"""Deals that nobody chooses alone: what they follow from, and that a record proves it."""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from engine.command import Continue, Start
from engine.deal import Deal
from engine.event import Continued, RoundDealt, Started
from engine.match import Match, deal_round, draw_round, replay
from engine.record import event_from_json, event_to_json, record_lines
from engine.recordlines import read_record
from engine.refusal import Refusal
from engine.seats import NORTH, SEATS, SOUTH, BySeat
from engine.shuffle import NOTHING, drawn, offered, seed_commitment
from engine.tiles import DOUBLE_SIX
from engine.verify import problems
from tests.engine import randomplay
from tests.engine.tables import accepted, after, deal, started

if TYPE_CHECKING:
    from collections.abc import Callable

MATCH = "00000000-0000-4000-8000-000000000001"
SEED = bytes(range(32))
BOTH = BySeat(b"\x00\xff", bytes(32))


def test_a_commitment_to_a_seed_is_the_hash_of_the_documented_text() -> None:
    body = f"spectacular-bid seed 2\nmatch {MATCH}\nround 3\n"
    assert seed_commitment(MATCH, 3, SEED) == hashlib.sha256(SEED + body.encode()).hexdigest()
    with pytest.raises(ValueError, match="31 bytes instead of 32"):
        seed_commitment(MATCH, 3, bytes(31))


def dealt_again(match_id: str, number: int, seed: bytes, north: str, south: str) -> list[str]:
    """The documented shuffle, from its description: tiles in dealing order."""
    text = f"spectacular-bid deal 2\nmatch {match_id}\nround {number}\nnorth {north}\nsouth {south}\n"
    given = iter(hashlib.shake_256(seed + text.encode()).digest(4096))
    order = [f"{low}|{high}" for low in range(7) for high in range(low, 7)]
    for place in range(27, 0, -1):
        fair = 256 // (place + 1) * (place + 1)
        byte = next(byte for byte in given if byte < fair)
        order[place], order[byte % (place + 1)] = order[byte % (place + 1)], order[place]
    return order


def test_a_deal_is_the_documented_shuffle() -> None:
    for number in range(1, 30):
        order = dealt_again(MATCH, number, SEED, "00ff", "00" * 32)
        made = drawn(MATCH, number, SEED, BOTH)
        assert sorted(order[:7]) == sorted(tile.text for tile in made.north)
        assert sorted(order[7:14]) == sorted(tile.text for tile in made.south)
        assert order[14:] == [tile.text for tile in made.boneyard]
    assert [tile.text for tile in DOUBLE_SIX] == [
        f"{low}|{high}" for low in range(7) for high in range(low, 7)
    ]


def test_a_deal_depends_on_everything_that_goes_into_it() -> None:
    deals = [
        drawn(MATCH, 1, SEED, BOTH),
        drawn(MATCH, 2, SEED, BOTH),
        drawn(MATCH[:-1] + "2", 1, SEED, BOTH),
        drawn(MATCH, 1, bytes(32), BOTH),
        drawn(MATCH, 1, SEED, BySeat(BOTH.south, BOTH.north)),
        drawn(MATCH, 1, SEED, BOTH.put(NORTH, b"")),
        drawn(MATCH, 1, SEED, BOTH.put(NORTH, b"\x00")),
        drawn(MATCH, 1, SEED, BOTH.put(SOUTH, bytes(31))),
        drawn(MATCH, 1, SEED, NOTHING),
    ]
    assert len(set(deals)) == len(deals)
    with pytest.raises(ValueError, match="more than 32 bytes"):
        drawn(MATCH, 1, SEED, BOTH.put(SOUTH, bytes(33)))


def test_what_a_seat_adds_is_kept_until_the_deal() -> None:
    state = after(Match.start(), Start(NORTH, b"n"))
    events = [*accepted(Match.start(), Start(NORTH, b"n")), *accepted(state, Start(SOUTH, b"s"))]
    assert events == [Started(NORTH, b"n"), Started(SOUTH, b"s")]
    assert offered(NOTHING, events) == BySeat(b"n", b"s")
    assert offered(NOTHING, [*events, RoundDealt(1, deal(), SEED, "c")]) == NOTHING
    assert offered(BySeat(b"x", b"y"), [Continued(NORTH)]) == BySeat(b"", b"y")


def test_no_round_is_drawn_where_none_is_due() -> None:
    assert draw_round(Match.start(), MATCH, SEED, BOTH, "c") is Refusal.DEAL_NOT_DUE
    ruling = draw_round(started(), MATCH, SEED, BOTH, "c")
    assert ruling == (
        RoundDealt(1, drawn(MATCH, 1, SEED, BOTH), SEED, seed_commitment(MATCH, 1, SEED), BOTH, "c"),
    )
    assert not isinstance(ruling, Refusal)
    assert draw_round(replay(started(), ruling), MATCH, SEED, BOTH, "c") is Refusal.DEAL_NOT_DUE


@pytest.mark.parametrize(
    "event",
    [
        Started(NORTH, b"\x00\xff"),
        Continued(SOUTH, bytes(32)),
        RoundDealt(1, deal(), SEED, "c0" * 32, BOTH, "d0" * 32),
        RoundDealt(1, deal(), SEED, "c0" * 32, None, "d0" * 32, scripted=True),
    ],
    ids=["started", "continued", "drawn", "scripted"],
)
def test_an_event_comes_back_from_its_json(event: Started | Continued | RoundDealt) -> None:
    assert event_from_json(json.loads(json.dumps(event_to_json(event)))) == event


def test_events_of_before_are_written_as_before() -> None:
    """A log without anything added has no key that an older reader does not know."""
    assert event_to_json(Started(NORTH)) == {"type": "started", "seat": "north"}
    old = {"type", "round_no", "north", "south", "boneyard", "salt", "commitment"}
    assert set(event_to_json(RoundDealt(1, deal(), SEED, "c0" * 32))) == old


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"contributions": {"north": "00" * 33, "south": ""}}, "north must be at most 64"),
        ({"contributions": {"north": "0", "south": ""}}, "two a byte"),
        ({"contributions": {"north": "", "south": "", "east": ""}}, "unknown field"),
        ({"next_commitment": "c0"}, "next_commitment must be 64"),
        ({"scripted": 1}, "scripted must be true or false"),
        ({"scripted": True, "contributions": {"north": "", "south": ""}}, "a deal that was drawn is none"),
    ],
)
def test_a_proof_that_makes_no_sense_is_malformed(wrong: dict[str, Any], why: str) -> None:
    data = event_to_json(RoundDealt(1, deal(), SEED, "c0" * 32)) | wrong
    with pytest.raises(ValueError, match=why):
        event_from_json(data)


def recorded(seed: int = 4) -> list[dict[str, Any]]:
    """The lines of a whole match of several rounds, drawn."""
    first, _, events = randomplay.whole_match(random.Random(seed), match_id=MATCH)
    lines = [json.loads(line) for line in record_lines(first, events, {"match_id": MATCH})]
    assert sum(line["type"] == "deal" for line in lines) > 2
    # Read back and run again, the record comes to the very events.
    played = [event for _, line in _answers(lines) for event in line.events]
    assert played == events
    return lines


def _answers(lines: list[dict[str, Any]]) -> list[tuple[int, Any]]:
    from engine.playback import play_back

    return [(answer.number, answer) for answer in play_back(read_record(_text(lines)))]


def _text(lines: list[dict[str, Any]]) -> bytes:
    return "\n".join(json.dumps(line) for line in lines).encode()


def faults(lines: list[dict[str, Any]]) -> list[str]:
    return list(problems(read_record(_text(lines))))


def test_a_record_of_drawn_deals_verifies() -> None:
    assert faults(recorded()) == []


def _another_match(lines: list[dict[str, Any]]) -> None:
    lines[0]["match_id"] = MATCH[:-1] + "2"


def _no_match(lines: list[dict[str, Any]]) -> None:
    del lines[0]["match_id"]


def _deals(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in lines if line["type"] == "deal"]


def _rounds_exchanged(lines: list[dict[str, Any]]) -> None:
    """The proof of one round under the number of another: what a service would do that keeps a deal it likes."""
    _, second, third = _deals(lines)[:3]
    for key in ("salt", "commitment", "contributions"):
        second[key], third[key] = third[key], second[key]


def _seed_chosen_late(lines: list[dict[str, Any]]) -> None:
    """A seed that was looked for when the contributions were known, with its own, true commitment."""
    second = _deals(lines)[1]
    seed, given = bytes(32), second["contributions"]
    both = BySeat(bytes.fromhex(given["north"]), bytes.fromhex(given["south"]))
    _deal_as(second, drawn(MATCH, 2, seed, both))
    second |= {"salt": seed.hex(), "commitment": seed_commitment(MATCH, 2, seed)}


def _contribution_chosen_late(lines: list[dict[str, Any]]) -> None:
    """A contribution that nobody sent, and the deal that follows from it."""
    second = _deals(lines)[1]
    both = BySeat(b"chosen", bytes.fromhex(second["contributions"]["south"]))
    _deal_as(second, drawn(MATCH, 2, bytes.fromhex(second["salt"]), both))
    second["contributions"]["north"] = both.north.hex()


def _tiles_exchanged(lines: list[dict[str, Any]]) -> None:
    second = _deals(lines)[1]
    second["boneyard"][-1], second["boneyard"][-2] = second["boneyard"][-2], second["boneyard"][-1]


def _fallen_back(lines: list[dict[str, Any]]) -> None:
    """The round is dealt in the old way, though a seed was committed to."""
    second = _deals(lines)[1]
    ruling = deal_round(started(), _deal_of(second), SEED)
    assert not isinstance(ruling, Refusal)
    (dealt,) = ruling
    assert isinstance(dealt, RoundDealt)
    del second["contributions"]
    second |= {"salt": SEED.hex(), "commitment": dealt.commitment}


def _deal_as(line: dict[str, Any], made: Deal) -> None:
    line |= {name: [tile.text for tile in getattr(made, name)] for name in ("north", "south", "boneyard")}


def _deal_of(line: dict[str, Any]) -> Deal:
    by_text = {tile.text: tile for tile in DOUBLE_SIX}
    piles = (tuple(by_text[text] for text in line[name]) for name in ("north", "south", "boneyard"))
    return Deal(*piles)


@pytest.mark.parametrize(
    ("forge", "why"),
    [
        (_another_match, "the seed is not the one that was committed to"),
        (_no_match, "the record does not name its match, to which the deal is bound"),
        (_rounds_exchanged, "the seed is not the one that was committed to"),
        (_seed_chosen_late, "the seed is not the one that was committed to with the round before"),
        (_contribution_chosen_late, "the deal was not drawn with what the players added to it"),
        (_tiles_exchanged, "the deal is not the one that was drawn from seed and contributions"),
        (_fallen_back, "a seed was committed to for this round, and the deal was not drawn from it"),
    ],
)
def test_a_forged_deal_is_found(forge: Callable[[list[dict[str, Any]]], None], why: str) -> None:
    lines = recorded()
    forge(lines)
    assert faults(lines)[0].endswith(f": {why}")


def test_a_scripted_deal_says_so_and_proves_no_more() -> None:
    """A test configuration says what is dealt: it is committed to when it is made, and marked."""
    state = started()
    ruling = deal_round(state, deal("6|6"), SEED, next_commitment="c0" * 32, scripted=True)
    assert not isinstance(ruling, Refusal)
    events = [*(Started(seat, b"ignored") for seat in SEATS), *ruling]
    lines = [json.loads(line) for line in record_lines(Match.start(), events, {"match_id": MATCH})]
    assert _deals(lines)[0]["scripted"] is True
    assert faults(lines) == []


def test_presses_carry_what_is_added() -> None:
    assert accepted(Match.start(), Start(NORTH, b"x")) == (Started(NORTH, b"x"),)
    assert replace(Continue(NORTH), contribution=b"y") == Continue(NORTH, b"y")
