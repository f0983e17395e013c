"""The match record and its command line: exact output, strict input, proofs that hold."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.clock import MILLISECOND, SECOND
from engine.command import Resign
from engine.deal import Deal, commitment
from engine.match import Cause, Match, Mode, cancel, replay, void
from engine.playback import answer_to_json, play_back
from engine.record import event_from_json, record_lines
from engine.recordlines import Record, read_record
from engine.seats import NORTH, SEATS, SOUTH, BySeat
from engine.tiles import DOUBLE_SIX
from engine.verify import problems
from tests.engine import randomplay
from tests.engine.tables import SALT, accepted, auction, deal

if TYPE_CHECKING:
    from pathlib import Path

    from engine.event import Event

MATCH = {"type": "match", "format": 1}
DEAL = deal("6|6 0|6", "1|6 2|6", "0|0")


def deal_line(the_deal: Deal = DEAL, **extra: str) -> dict[str, Any]:
    piles = {"north": the_deal.north, "south": the_deal.south, "boneyard": the_deal.boneyard}
    return {"type": "deal", **{name: [str(tile) for tile in pile] for name, pile in piles.items()}, **extra}


def command(seat: str, name: str, **rest: Any) -> dict[str, Any]:
    return {"type": "command", "seat": seat, "command": name, **rest}


def text(*lines: dict[str, Any] | str) -> str:
    return "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)


def run(what: str, record: str | bytes, *arguments: str) -> tuple[int, list[dict[str, Any]], str]:
    """The command line on a record from standard input: status, output lines, standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "engine", what, *arguments],
        input=record.encode() if isinstance(record, str) else record,
        capture_output=True,
        check=False,
        timeout=60,
    )
    out = [json.loads(line) for line in done.stdout.decode().splitlines() if line.startswith("{")]
    return done.returncode, out, done.stderr.decode() + (done.stdout.decode() if what == "verify" else "")


def replayed(*lines: dict[str, Any] | str) -> list[dict[str, Any]]:
    """The output for these lines, in this process."""
    return [json.loads(json.dumps(answer_to_json(a))) for a in play_back(read_record(text(*lines).encode()))]


STARTS = [command(seat, "start", at_ms=0) for seat in SEATS]


def test_a_whole_untimed_opening() -> None:
    """The shape of the output, key by key, from a file through the command line."""
    status, out, error = run(
        "replay",
        text(MATCH, deal_line(), command("north", "play", tile="6|6"), command("south", "bid", amount=22)),
    )
    assert (status, error) == (0, "")
    assert [line["line"] for line in out] == [1, 2, 3, 4]
    assert [line["accepted"] for line in out] == [True, True, True, False]
    waiting, opening, played, refused = (line["state"] for line in out)
    assert waiting["phase"] == "awaiting_start"
    assert opening["phase"] == "opening"
    assert opening["to_act"] == "north"
    assert opening["legal"] == {
        "play": [{"tile": "6|6", "end": None}],
        "draw": False,
        "pass": False,
        "accept": False,
        "decline": False,
        "bid": None,
    }
    assert played["phase"] == "playing"
    assert played["hands"]["north"] == [str(tile) for tile in DEAL.north if str(tile) != "6|6"]
    assert played["boneyard"] == 14
    assert played["spinner"] == "6|6"
    assert played["ends"] == [
        {"end": "6|6 line_a", "value": 6, "counts": 12},
        {"end": "6|6 line_b", "value": 6, "counts": 0},
    ]
    assert played["count"] == 12
    assert played["clock"] is None
    assert played["outcome"] is None
    assert played["legal"]["play"] == [
        {"tile": tile, "end": f"6|6 {port}"} for tile in ("1|6", "2|6") for port in ("line_a", "line_b")
    ]
    assert (out[3]["refusal"], out[3]["rule"]) == ("NO_AUCTION", "5.1")
    assert refused == played


def test_a_record_may_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "match.jsonl"
    path.write_text(text(MATCH, deal_line()))
    assert run("replay", "", str(path))[0] == 0
    status, out, error = run("replay", "", str(tmp_path / "missing"))
    assert (status, out) == (2, [])
    assert "missing" in error


def test_the_documents_own_refusal_line() -> None:
    """A bid of 22 in an auction, from a position given on the first line."""
    first = {
        **MATCH,
        "balances": {"north": 40, "south": 260},
        "opening": {"auction": {"jockey": "south"}},
        "banks_ms": {"north": 120000, "south": 7000},
    }
    out = replayed(
        first,
        deal_line(),
        command("north", "bid", amount=22),
        command("north", "bid", amount=15),
        command("south", "bid", amount=20),
        command("north", "accept"),
    )
    assert (out[2]["refusal"], out[2]["rule"]) == ("BID_NOT_A_MULTIPLE_OF_FIVE", "5.2")
    assert out[1]["state"]["legal"]["bid"] == {"min": 15, "max": 40, "step": 5}
    assert out[1]["state"]["jockey"] == "south"
    assert out[3]["state"]["standing_bid"] == 15
    assert out[3]["state"]["legal"]["bid"] == {"min": 20, "max": 275, "step": 5}
    assert out[5]["state"]["last_transfer"] == {"to": "north", "due": 5, "moved": 5}
    assert out[5]["state"]["phase"] == "opening"
    assert out[5]["state"]["to_act"] == "south"


def test_a_transfer_is_shown_on_its_own_line_only() -> None:
    out = replayed(
        MATCH,
        deal_line(deal("5|5", "0|5")),
        command("north", "play", tile="5|5"),
        command("north", "draw"),
        command("south", "play", tile="0|5", end="5|5 line_a"),
    )
    moved = [line["state"]["last_transfer"] for line in out]
    assert moved == [
        None,
        None,
        {"to": "north", "due": 10, "moved": 10},
        None,
        {"to": "south", "due": 10, "moved": 10},
    ]


def test_a_deal_where_none_is_due_is_refused() -> None:
    out = replayed(MATCH, deal_line(), deal_line())
    assert (out[2]["accepted"], out[2]["refusal"]) == (False, "DEAL_NOT_DUE")


def test_start_may_be_given_by_one_seat_and_taken_as_given_for_the_other() -> None:
    out = replayed(MATCH, command("north", "start"), deal_line())
    assert [line["accepted"] for line in out] == [True, True, True]
    assert [event["type"] for event in out[2]["events"]] == ["started", "round_dealt"]


def test_a_timed_record_judges_time() -> None:
    """Rules 6.2 and 6.7; the first turn begins with the last Start, whatever comes between it and the deal."""
    opened = [
        MATCH,
        STARTS[0],
        {**STARTS[1], "at_ms": 1000},
        command("north", "draw", at_ms=3000),
        deal_line(),
    ]
    play = command("north", "play", tile="6|6")
    out = replayed(*opened, {**play, "at_ms": 14000})
    assert out[4]["state"]["clock"] == {
        "running": "north",
        "banks_ms": {"north": 120000, "south": 120000},
        "deadline_ms": 131000,
    }
    assert out[5]["state"]["clock"] == {
        "running": "south",
        "banks_ms": {"north": 117000, "south": 120000},
        "deadline_ms": 144000,
    }
    assert replayed(*opened, {**play, "at_ms": 130999})[5]["accepted"]
    late = replayed(*opened, {**play, "at_ms": 131000}, command("south", "resign", at_ms=131000))
    assert (late[5]["refusal"], late[5]["rule"]) == ("CLOCK_EXPIRED", "6.7")
    assert late[5]["state"]["phase"] == "over"
    assert late[5]["state"]["outcome"] == {"winner": "south", "cause": "time"}
    assert late[5]["state"]["clock"]["banks_ms"] == {"north": 0, "south": 120000}
    assert late[5]["state"]["hands"] == late[4]["state"]["hands"]
    assert late[6]["refusal"] == "MATCH_OVER"


def test_a_clock_line_lets_time_pass() -> None:
    clock = {"type": "clock", "at_ms": 129999}
    out = replayed(MATCH, *STARTS, deal_line(), clock, {**clock, "at_ms": 500000})
    assert [line["accepted"] for line in out] == [True] * 6
    assert out[4]["state"]["phase"] == "opening"
    assert out[4]["events"] == []
    assert out[5]["state"]["outcome"] == {"winner": "south", "cause": "time"}
    assert [event["type"] for event in out[5]["events"]] == ["turn_timed", "match_ended"]


def test_no_time_passes_while_no_turn_is_open() -> None:
    """FC-09: an hour without Start, an hour without Continue: no bank moves."""
    hour = 3_600_000
    out = replayed(MATCH, STARTS[0], command("south", "start", at_ms=hour), deal_line())
    assert out[3]["state"]["clock"]["banks_ms"] == {"north": 120000, "south": 120000}
    assert out[3]["state"]["clock"]["deadline_ms"] == hour + 130000


def test_a_shared_device_reveals_in_a_timed_record_and_need_not_in_an_untimed_one() -> None:
    """Rules 6.5 and 7.4: the clock starts with Reveal."""
    first = {**MATCH, "mode": "same_device"}
    play = command("north", "play", tile="6|6")
    out = replayed(
        first,
        *STARTS,
        deal_line(),
        {**play, "at_ms": 5000},
        command("north", "reveal", at_ms=60000),
        {**play, "at_ms": 71000},
    )
    assert out[4]["refusal"] == "NOT_REVEALED"
    assert out[4]["state"]["clock"]["running"] is None
    assert out[5]["state"]["clock"]["deadline_ms"] == 190000
    assert out[6]["state"]["clock"]["banks_ms"] == {"north": 119000, "south": 120000}
    assert out[6]["state"]["to_act"] is None
    untimed = replayed(first, deal_line(), play, command("south", "reveal"), command("south", "draw"))
    assert [line["accepted"] for line in untimed] == [True, True, True, True, False]
    assert untimed[1]["state"]["to_act"] == "north"
    assert untimed[1]["state"]["legal"]["play"] == [{"tile": "6|6", "end": None}]
    assert untimed[2]["state"]["to_act"] == "south"
    assert untimed[4]["refusal"] == "MUST_PLAY"


def test_the_exact_instant_counts_beside_the_milliseconds() -> None:
    opened = [MATCH, *STARTS, deal_line()]
    play = command("north", "play", tile="6|6", at_ms=129999)
    assert replayed(*opened, {**play, "at_ns": 130 * SECOND - 1})[4]["accepted"]
    late = {"type": "clock", "at_ms": 130000, "at_ns": 130 * SECOND - 1}
    assert replayed(*opened, late)[4]["state"]["phase"] == "opening"


GOOD = json.dumps(MATCH)
START = json.dumps(command("north", "start"))
MALFORMED: list[tuple[str, list[dict[str, Any] | str], int, str]] = [
    # name, lines, number of the malformed one, what its message holds
    ("empty", [], 1, "empty"),
    ("not JSON", [GOOD, "{"], 2, "not JSON"),
    ("not an object", [GOOD, "[1]"], 2, "must be an object"),
    ("no match first", [START], 1, "the first line must be the match"),
    ("two matches", [GOOD, GOOD], 2, "only the first line"),
    ("unknown type", [GOOD, {"type": "note"}], 2, "unknown type"),
    ("type missing", [GOOD, {"seat": "north"}], 2, "type is missing"),
    ("type no string", [GOOD, {"type": 3}], 2, "type must be a string"),
    ("wrong format", [{**MATCH, "format": 2}], 1, "format 2"),
    ("format a boolean", [{**MATCH, "format": True}], 1, "format must be a whole number"),
    ("format missing", [{"type": "match"}], 1, "format is missing"),
    ("sum not 300", [{**MATCH, "balances": {"north": 150, "south": 145}}], 1, "295"),
    ("balance zero", [{**MATCH, "balances": {"north": 300, "south": 0}}], 1, "balance"),
    ("balance no multiple", [{**MATCH, "balances": {"north": 148, "south": 152}}], 1, "multiple"),
    ("one balance", [{**MATCH, "balances": {"north": 150}}], 1, "south is missing"),
    ("negative bank", [{**MATCH, "banks_ms": {"north": -1, "south": 0}}], 1, "at least 0"),
    ("unknown mode", [{**MATCH, "mode": "hotseat"}], 1, "mode must be one of"),
    ("unknown opening", [{**MATCH, "opening": "auction"}], 1, "opening must be"),
    ("jockey nobody", [{**MATCH, "opening": {"auction": {"jockey": "east"}}}], 1, "opening must be"),
    ("contradicting outcome", [{**MATCH, "outcome": {"winner": None, "cause": "time"}}], 1, "cause time"),
    ("unknown command", [GOOD, command("north", "knock")], 2, "unknown command"),
    ("unknown seat", [GOOD, command("east", "draw")], 2, "seat must be one of north, south"),
    ("seat missing", [GOOD, {"type": "command", "command": "draw"}], 2, "seat is missing"),
    ("amount missing", [GOOD, command("north", "bid")], 2, "amount is missing"),
    ("amount a boolean", [GOOD, command("north", "bid", amount=True)], 2, "amount must be a whole number"),
    ("amount a fraction", [GOOD, command("north", "bid", amount=15.0)], 2, "numbers are whole"),
    ("amount a text", [GOOD, command("north", "bid", amount="15")], 2, "amount must be a whole number"),
    ("amount NaN", [GOOD, command("north", "bid", amount=float("nan"))], 2, "numbers are whole"),
    ("huge amount", [GOOD, START[:-1] + ',"amount":' + "9" * 5000 + "}"], 2, "line 2"),
    ("field of another command", [GOOD, command("north", "draw", tile="0|0")], 2, "unknown field 'tile'"),
    ("tile missing", [GOOD, command("north", "play")], 2, "tile is missing"),
    ("tile turned round", [GOOD, command("north", "play", tile="4|1")], 2, "not a tile: '4|1'"),
    ("no such tile", [GOOD, command("north", "play", tile="1|7")], 2, "not a tile"),
    ("no such port", [GOOD, command("north", "play", tile="1|4", end="1|4 line_a")], 2, "not an end"),
    ("key twice", [GOOD, START[:-1] + ',"seat":"south"}'], 2, "twice"),
    ("six tiles", [GOOD, {**deal_line(), "north": ["0|0"]}], 2, "north has 1 tiles"),
    ("a tile twice", [GOOD, {**deal_line(), "north": ["6|6"] * 7}], 2, "twice"),
    ("tiles no list", [GOOD, {**deal_line(), "south": "0|0"}], 2, "south must be a list of tiles"),
    ("short salt", [GOOD, deal_line(salt="00")], 2, "salt must be 64"),
    ("clock without time", [GOOD, {"type": "clock"}], 2, "at_ms is missing"),
    ("negative time", [GOOD, {"type": "clock", "at_ms": -1}], 2, "at_ms must be at least 0"),
    ("too late a time", [GOOD, {"type": "clock", "at_ms": 2**63}], 2, "too large"),
    ("two different times", [GOOD, {"type": "clock", "at_ms": 1, "at_ns": 3_000_000}], 2, "different times"),
    ("time backwards", [GOOD, STARTS[0], {"type": "clock", "at_ms": 5}, STARTS[1]], 4, "backwards"),
    ("no time in a timed record", [GOOD, STARTS[0], START], 3, "at_ms is missing"),
    ("no time before others have it", [GOOD, START, STARTS[1]], 2, "at_ms is missing"),
    ("deep", [GOOD, "[" * 100_000], 2, "line 2"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "number", "message"), [row[1:] for row in MALFORMED], ids=[row[0] for row in MALFORMED]
)
def test_a_malformed_line_is_named_and_nothing_after_it_is_run(
    lines: list[dict[str, Any] | str], number: int, message: str
) -> None:
    record = read_record(text(*lines, GOOD).encode() if lines else b"")
    assert record.malformed is not None
    assert str(record.malformed).startswith(f"line {number}: ")
    assert message in str(record.malformed)
    assert [line for line, _ in record.lines] == list(range(1, number))


@pytest.mark.parametrize("record", [b"", b"\n \n", b"\xff\xfe", b"\xef\xbb\xbf{}", b"null\n", b'"match"'])
def test_bytes_that_are_no_record_end_with_status_2(record: bytes) -> None:
    status, out, error = run("replay", record)
    assert (status, out) == (2, [])
    assert error.startswith("line 1: ")


def test_what_was_printed_before_a_malformed_line_stays_printed() -> None:
    status, out, error = run("replay", text(MATCH, "", deal_line(), command("north", "fly"), deal_line()))
    assert status == 2
    assert [line["line"] for line in out] == [1, 3]  # a blank line is skipped, and counted
    assert error == "line 4: unknown command 'fly'\n"


@settings(deadline=None)
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_no_bytes_whatever_break_the_reader(junk: bytes) -> None:
    record = read_record(GOOD.encode() + b"\n" + junk)
    assert [type(answer.state) for answer in play_back(Record(record.lines, record.timed, None))]


def played(seed: int, mode: Mode, *, timed: bool) -> tuple[Match, Match, list[Event]]:
    return randomplay.whole_match(random.Random(seed), mode=mode, waits_ns_max=13 * SECOND if timed else 0)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(Mode), st.booleans())
def test_a_record_replays_to_exactly_the_same_match(seed: int, mode: Mode, timed: bool) -> None:
    """To the nanosecond, events included, and it verifies."""
    first, last, events = played(seed, mode, timed=timed)
    lines = list(record_lines(first, events, {"match_id": "m", "players": {"north": "a", "south": "b"}}))
    record = read_record("\n".join(lines).encode())
    assert record.malformed is None
    assert record.timed is timed
    answers = list(play_back(record))
    assert all(answer.refusal is None for answer in answers)
    assert [event for answer in answers for event in answer.events] == events
    assert answers[-1].state == last
    assert list(problems(record)) == []
    printed = json.loads(json.dumps(answer_to_json(answers[-1])))
    assert [event_from_json(event) for event in printed["events"]] == list(answers[-1].events)


def test_a_turn_resumed_after_an_outage_is_not_charged_twice() -> None:
    """The service may take back time after a draw; the record says how much, and replays to the same banks."""
    first, _, events = played(5, Mode.ONLINE, timed=True)
    turn = next(n for n, event in enumerate(events) if getattr(event, "consumed_ns", 0) > 0)
    drawn = events[turn]
    later = next(n for n in range(turn + 1, len(events)) if type(events[n]) is type(drawn))
    state = replay(first, events[:later])
    assert state.consumed_ns > 0
    resumed = type(drawn)(state.to_act, state.turn, 7, 0, 0, state.banks[state.to_act or NORTH])  # type: ignore[call-arg, arg-type]
    log = [*events[:later], resumed, *events[later + 1 : later + 2]]
    record = read_record("\n".join(record_lines(first, log)).encode())
    answers = list(play_back(record))
    assert [event for answer in answers for event in answer.events][: len(log)] == log


@pytest.mark.parametrize("cause", [Cause.VOID, Cause.CANCELLED])
def test_a_match_without_a_winner_just_stops(cause: Cause) -> None:
    first = Match.start()
    if cause is Cause.CANCELLED:
        events = list(cancel(first, [SOUTH]))
    else:
        events = played(3, Mode.ONLINE, timed=True)[2][:20]
        first = played(3, Mode.ONLINE, timed=True)[0]
        events += void(replay(first, events), "clock_disruption")
    lines = list(record_lines(first, events))
    status, _, output = run("verify", "\n".join(lines), "-")
    assert (status, output[:3]) == (0, "ok:")
    assert json.loads(lines[0])["outcome"]["cause"] == cause


def test_a_resignation_is_recorded() -> None:
    state = auction()
    over = replay(state, accepted(state, Resign(NORTH)))
    assert over.outcome is not None
    first, _, events = played(4, Mode.ONLINE, timed=False)
    cut = events[:10]
    log = [*cut, *accepted(replay(first, cut), Resign(SOUTH))]
    record = read_record("\n".join(record_lines(first, log)).encode())
    assert list(problems(record)) == []
    assert list(play_back(record))[-1].state == replay(first, log)


# Verifying


def honest() -> list[dict[str, Any]]:
    first, _, events = played(1, Mode.ONLINE, timed=True)
    return [json.loads(line) for line in record_lines(first, events)]


def verified(lines: list[dict[str, Any]]) -> tuple[int, str]:
    status, _, output = run("verify", text(*lines), "-")
    return status, output


def test_an_honest_record_verifies() -> None:
    status, output = verified(honest())
    assert status == 0
    assert output.startswith("ok: ")


def test_a_changed_boneyard_is_found_by_its_line() -> None:
    lines = honest()
    number, line = next((n, line) for n, line in enumerate(lines, 1) if line["type"] == "deal")
    line["boneyard"][-1], line["boneyard"][-2] = line["boneyard"][-2], line["boneyard"][-1]
    status, output = verified(lines)
    assert status == 1
    assert f"line {number}: the deal is not the one that was committed to" in output


def test_a_deal_without_proof_is_not_verified() -> None:
    lines = honest()
    for line in lines:
        line.pop("salt", None)
    status, output = verified(lines)
    assert status == 1
    assert "no salt" in output


def test_a_wrong_claim_is_found() -> None:
    lines = honest()
    lines[0]["outcome"] = {"winner": lines[0]["outcome"]["winner"], "cause": "resignation"}
    status, output = verified(lines)
    assert status == 1
    assert "line 1: the outcome is claimed to be" in output


def test_a_claim_that_the_play_does_not_reach_is_found() -> None:
    status, output = verified(honest()[:-1])
    assert status == 1
    assert "does not end" in output


def test_a_void_claim_over_a_decided_match_is_found() -> None:
    lines = honest()
    lines[0]["outcome"] = {"winner": None, "cause": "void"}
    assert verified(lines)[0] == 1


def test_an_illegal_command_is_found_by_its_line() -> None:
    lines = honest()
    lines.insert(3, {**lines[2]})
    status, output = verified(lines)
    assert status == 1
    assert "line 4: refused, " in output


def test_a_record_that_cannot_be_read_has_status_2() -> None:
    assert verified([*honest(), {"type": "what"}])[0] == 2


def test_a_commitment_is_the_hash_of_the_documented_text() -> None:
    """Written out here once more, independently."""
    import hashlib

    the_deal = Deal.from_shuffle(DOUBLE_SIX[::-1])
    words = " ".join
    body = "spectacular-bid deal 1\n"
    body += "north " + words(sorted(str(tile) for tile in DOUBLE_SIX[::-1][:7])) + "\n"
    body += "south " + words(sorted(str(tile) for tile in DOUBLE_SIX[::-1][7:14])) + "\n"
    body += "boneyard " + words(str(tile) for tile in DOUBLE_SIX[::-1][14:]) + "\n"
    assert commitment(the_deal, SALT) == hashlib.sha256(SALT + body.encode()).hexdigest()
    assert commitment(the_deal, SALT) != commitment(the_deal, bytes(32))
    with pytest.raises(ValueError, match="salt"):
        commitment(the_deal, b"")


def test_banks_and_delays_of_a_test_match_are_in_the_record() -> None:
    start = Match.start(banks_ns=BySeat(5, 7 * MILLISECOND), delay_ns=1_500_000)
    line = json.loads(next(record_lines(start, [])))
    assert line["banks_ns"] == {"north": 5, "south": 7 * MILLISECOND}
    record = read_record(json.dumps(line).encode())
    assert next(play_back(record)).state == start


def test_thousands_of_lines_are_fast() -> None:
    """Generous: it takes a fraction of this."""
    first, _, events = played(0, Mode.ONLINE, timed=False)
    lines = list(record_lines(first, events))
    long = lines[:1] + lines[1:] * max(1, 4000 // len(lines))
    status, out, _ = run("replay", "\n".join(long))
    assert status == 0
    assert len(out) == len(long)
