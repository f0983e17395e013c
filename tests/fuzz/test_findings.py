"""What fuzzing and reading found in the parsers, each as the input that showed it."""

from __future__ import annotations

import json
import re
import traceback
from typing import Any

import grpc
import pytest
import typer
from typer.testing import CliRunner

from client import wire as client_wire
from client.__main__ import app
from client.errors import from_refused, from_rpc
from client.positions import read
from client.printable import printable
from engine.eventjson import event_from_json
from services.common import redaction
from services.common.errors import ServiceError
from services.common.settings import SettingsError, load
from services.game.settings import GameSettings
from services.ops.database import time_of
from services.wire import clock, clock_news, results
from services.wire.clock import MalformedClockMessageError
from spectacularbid.internal.clock.v1 import clock_service_pb2 as clock_pb
from spectacularbid.internal.operations.v1 import results_pb2
from spectacularbid.match.v1 import match_service_pb2 as match_pb
from spectacularbid.match.v1 import table_pb2
from tests.fuzz.files import run_files
from tests.fuzz.records import EXAMPLE

CURSOR = "\x1b]0;PWNED\x07\x1b[2J"
MATCH_ID = "00000000-0000-0000-0000-000000000001"


def record_with(**header: Any) -> bytes:
    """The beginning of the example with other keys in its first line."""
    lines = EXAMPLE.read_bytes().splitlines()[:5]
    return b"\n".join([json.dumps(json.loads(lines[0]) | header).encode(), *lines[1:]])


@pytest.mark.parametrize("text", [CURSOR, "\ud800", "a\rb", "\u202eabc", "\x9b2J"])
def test_a_record_moves_no_cursor(text: str) -> None:
    """What stands in a record is shown; nothing of it is obeyed by a terminal, and half a character breaks nothing."""
    void = {"winner": None, "cause": "void", "detail": text}
    names = {"north": text, "south": "b"}
    for header in (
        {"match_id": text},
        {"started_at": text},
        {"names": names},
        {"players": names},
        {"outcome": void},
    ):
        result = CliRunner().invoke(app, ["record", "--plain", "-"], input=record_with(**header))
        # It is no whole match; a traceback would be another exception.
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert result.stdout.replace("\n", "").isprintable()


def test_what_the_service_says_moves_no_cursor() -> None:
    """A client may talk to a service that is not ours: names, reasons and messages are shown, not obeyed."""
    player = client_wire.player_from_pb(table_pb2.Player(player_id="p", name=CURSOR))
    outcome = client_wire.outcome_from_pb(table_pb2.Outcome(cause=table_pb2.CAUSE_VOID, detail=CURSOR))
    refused = from_refused(match_pb.Refused(reason_word=CURSOR, message=CURSOR))
    for shown in (player.name, outcome.detail, str(refused), refused.message):
        assert shown.isprintable()
    assert printable("Ζωή 漢字 Éva") == "Ζωή 漢字 Éva"
    assert printable("a\x1b\ud800") == "a\\x1b\\ud800"


def test_an_error_with_unreadable_details_is_still_an_error() -> None:
    """The status of a call may carry any bytes in place of the details."""
    trailers = grpc.aio.Metadata(("grpc-status-details-bin", b"\xff\xff\xff"))
    error = grpc.aio.AioRpcError(grpc.StatusCode.NOT_FOUND, grpc.aio.Metadata(), trailers, details=CURSOR)
    failure = from_rpc(error)
    assert failure.code is grpc.StatusCode.NOT_FOUND
    assert failure.reason == ""
    assert failure.message.isprintable()


@pytest.mark.parametrize(("low", "high"), [(7, 7), (-1, 0), (2**31 - 1, 5)])
def test_a_tile_that_there_is_not_is_a_fault_of_the_message(low: int, high: int) -> None:
    with pytest.raises(client_wire.WireError):
        client_wire.tile_from_pb(table_pb2.Tile(low=low, high=high))


def test_an_end_that_a_tile_has_not_is_a_fault_of_the_message() -> None:
    tile = table_pb2.Tile(low=1, high=2)
    with pytest.raises(client_wire.WireError):
        client_wire.end_from_pb(table_pb2.End(tile=tile, port=table_pb2.PORT_BRANCH_A))


def test_news_of_a_time_that_there_is_not_are_nonsense() -> None:
    """`ops watch` ended with a traceback: only nonsense was expected."""
    news = clock_pb.News(session_lost=clock_pb.SessionLost(incarnation="i"))
    news.at.seconds = 2**62
    with pytest.raises(MalformedClockMessageError):
        clock_news.bulletin_from_pb(clock_pb.WatchResponse(news=[news]))


def test_a_fault_of_a_message_is_short() -> None:
    """It is logged and sent back: the text repeated what it did not like, five times as long."""
    opened = clock_pb.Open(cause=clock_pb.OPEN_CAUSE_NEW, seat="\u202e" * 100_000)
    opened.key.CopyFrom(clock_pb.Key(match_id=MATCH_ID, fence=1, decision_no=1))
    request = clock_pb.GovernRequest(messages=[clock_pb.EngineMessage(open=opened)])
    with pytest.raises(MalformedClockMessageError) as fault:
        clock.request_from_pb(request)
    assert len(str(fault.value)) < 200


def test_the_first_tile_of_a_layout_is_joined_to_nothing() -> None:
    """Anything was taken in place of null, and could not be written again."""
    placed = {"type": "tile_placed", "seat": "south", "tile": "5|5", "end": None, "joined": None, "count": 10}
    event_from_json(placed)
    others: tuple[Any, ...] = ("0|0", 6, [], {}, "low", False)
    for joined in others:
        with pytest.raises(ValueError, match="joined"):
            event_from_json(placed | {"joined": joined})


def test_a_deal_that_is_refused_is_no_round() -> None:
    """The rounds to step through counted them too."""
    lines = EXAMPLE.read_bytes().splitlines()
    deal = next(at for at, line in enumerate(lines) if b'"deal"' in line)
    study = read(b"\n".join([*lines[: deal + 1], *[lines[deal]] * 5]))
    assert len(study.rounds) == 1
    assert len(study.positions) == deal + 6


LINES = {
    "a tile at the beginning of a line": "a\n6|6\n1|2",
    "a digest at the beginning of a line": "a\n" + "f" * 64,
    "a word before a token": "a\nBearer abc",
    "half of what is escaped as a token": "a\x8eyJhbGci.q.def",
    "a salt without an end": "salt: b'abc",
    "a password without an end": "password=",
    "a quotation mark in a salt": """salt=b'a"b|6|6'""",
}


@pytest.mark.parametrize("what", LINES)
def test_a_line_of_a_log_hides_what_is_escaped_and_stays_json(what: str) -> None:
    """The shapes of secrets were looked for in the finished line: a line break before one hid it from that, and what was
    put in its place could run past the end of a text."""
    line = json.loads(redaction.render(None, "info", {"event": "x", "text": LINES[what], "after": "y"}))
    assert line["after"] == "y"
    assert not re.search(r"[0-6]\|[0-6]|f{64}|Bearer [a-z]|eyJhb|abc", line["text"]), line


def test_hiding_what_is_no_url_is_no_error() -> None:
    """The traceback of a malformed database URL showed its password."""
    before = set(redaction._secrets)
    try:
        redaction.hide(["postgresql://u:correct-horse-battery@[x/db"])
        assert "horse" not in redaction.clean("it is correct-horse-battery")
    finally:
        redaction._secrets.clear()
        redaction._secrets.update(before)


def test_ids_are_counted_before_they_are_read() -> None:
    """A message has room for 120,000 ids, half a second of reading; one that is no id shows which comes first."""
    request = results_pb2.RuleResultsRequest(
        action=results_pb2.RESULT_ACTION_HOLD,
        reason="because",
        ruling_id=MATCH_ID,
        match_ids=["no id"] * (results.MATCHES_MAX + 1),
    )
    with pytest.raises(ServiceError, match="at most"):
        results.ruling_from_pb(request, "operator")


def test_a_setting_that_should_be_json_and_is_none_is_a_fault_of_the_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The start ended with a traceback, in which every setting stood."""
    monkeypatch.setenv("SPECTACULAR_BID_DATABASE_URL", "postgresql://u:correct-horse@h/d")
    monkeypatch.setenv("SPECTACULAR_BID_HOUSE_BOTS", "inf")
    with pytest.raises(SettingsError, match="house_bots") as fault:
        load(GameSettings)
    assert "horse" not in "".join(traceback.format_exception(fault.value))


@pytest.mark.parametrize("name", ["screens", "identity", "bots", "canary"])
def test_a_file_that_goes_too_deep_is_a_fault_of_the_file(name: str) -> None:
    """Settings of the screens, who one is, and tokens of bots ended with a traceback."""
    run_files(f"{name}\n{'x = ' if name == 'screens' else ''}{'[' * 4000}".encode())


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"])
def test_a_time_before_or_after_all_years_is_a_fault_of_the_option(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        time_of(text, "--since")


@pytest.mark.parametrize("field", ["start_ns", "bank_ns", "mark_ns", "credited_total_ns"])
def test_an_instant_at_the_end_of_time_is_nonsense(field: str) -> None:
    """A clock that was told of it could not write down the deadline, and its session ended as by a fault of ours."""
    opened = clock_pb.Open(cause=clock_pb.OPEN_CAUSE_NEW, seat="north", delay_ns=1)
    opened.key.CopyFrom(clock_pb.Key(match_id=MATCH_ID, fence=1, decision_no=1))
    request = clock_pb.GovernRequest(messages=[clock_pb.EngineMessage(open=opened)])
    clock.request_from_pb(request)
    setattr(request.messages[0].open, field, 2**63 - 1)
    with pytest.raises(MalformedClockMessageError, match=field):
        clock.request_from_pb(request)
