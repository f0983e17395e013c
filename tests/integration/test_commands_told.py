"""What the log says of commands: one line each, with stages, and the metrics say the same."""

from __future__ import annotations

import asyncio
import re
import urllib.request
from typing import Any

import pytest

from client.errors import CallError
from engine.command import Decline, Pass, Resign
from engine.seats import NORTH, SOUTH
from tests.engine.tables import deal, play
from tests.seats import Table, eventually, new_id, on_a_stream, scripted
from tests.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="session")
STAGES = ("queue_ms", "verdict_ms", "commit_ms", "publish_ms")
TILE = re.compile(r"[0-6]\|[0-6]")


async def counted(made: Stack) -> dict[str, float]:
    """The command series of the game process."""
    address = await made.metrics_address("game")
    url = f"http://{address}/metrics"

    def read() -> str:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return str(answer.read().decode())

    text = await asyncio.to_thread(read)
    return {
        name: float(value)
        for name, value in re.findall(
            r"^(spectacular_bid_command(?:s_total|_seconds_count|_stage_seconds_count)\S*) (\S+)$", text, re.M
        )
    }


async def lines(made: Stack, match_id: str, wanted: int) -> list[dict[str, Any]]:
    """The lines about the commands of a match."""
    found: list[dict[str, Any]] = []

    async def there() -> bool:
        found[:] = [
            line
            for line in made.processes["game"].events()
            if line["event"] == "command" and line["match_id"] == match_id
        ]
        return len(found) >= wanted

    await eventually(there)
    return found


async def test_each_command_has_one_line_and_is_counted_once(shared: Stack) -> None:
    before = await counted(shared)
    table = await Table.create(shared, deals=scripted(deal("6|6 1|2", "0|6 0|1")))  # two: both press Start
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"
    opening = table.request(play(NORTH, "6|6"), 2)
    north = table.players.north.metadata
    traced = (*north, ("traceparent", f"00-{trace_id}-00f067aa0ba902b7-01"))
    answer = await table.stub.Submit(opening, metadata=traced)
    assert await table.send(NORTH, opening) == answer.applied  # once more: the first answer
    for seat, request, reason in (
        (NORTH, table.request(Decline(NORTH), 4), "STALE_DECISION"),
        (SOUTH, table.request(Pass(SOUTH), 3), "MUST_PLAY"),
        (SOUTH, table.request(play(SOUTH, "0|6"), -1), "MALFORMED"),
    ):
        with pytest.raises(CallError) as error:
            await table.send(seat, request)
        assert error.value.reason, reason
    resigns = table.request(Resign(SOUTH), 0, "over-the-stream")
    resigns.ClearField("match_id")  # the stream is about one match; the line names it all the same
    await on_a_stream(table, table.players.south, resigns)
    found = await lines(shared, table.match_id, 8)
    assert [(line["kind"], line["result"]) for line in found] == [
        ("start", "applied"),
        ("start", "applied"),
        ("play", "applied"),
        ("play", "applied"),
        ("decline", "refused"),
        ("pass_turn", "refused"),
        ("play", "refused"),
        ("resign", "applied"),
    ]
    first, repeat = found[2], found[3]
    assert all(first[stage] >= 0 for stage in STAGES)
    assert first["commit_ms"] > 0
    assert first["player_id"] == table.players.north.player_id
    assert (first["request_id"], first["decision_no"]) == (opening.request_id, 2)
    database = await shared.database()
    stored = "select elapsed_ns from match_log where match_id = $1 and revision = $2"
    assert first["elapsed_ns"] == await database.fetchval(stored, table.match_id, first["revision"])
    assert first["charged_ns"] == 0
    assert first["revision"] == found[1]["revision"] + 1
    assert first["client_trace_id"] == trace_id
    assert "trace_id" not in first, "nobody collects traces here, and a client begins none of ours"
    assert "client_trace_id" not in found[0]
    assert repeat["repeated"]
    assert "revision" not in repeat
    assert [line["reason"] for line in found if line["result"] == "refused"][2] == "MALFORMED"
    assert found[7]["request_id"] == "over-the-stream"
    assert "verdict_ms" not in found[7]
    assert not TILE.search(str(found))
    after = await counted(shared)
    changes = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    assert changes == {
        'spectacular_bid_commands_total{result="applied"}': 5,
        'spectacular_bid_commands_total{result="refused"}': 3,
        "spectacular_bid_command_seconds_count": 4,
        'spectacular_bid_command_stage_seconds_count{stage="queue"}': 4,
        'spectacular_bid_command_stage_seconds_count{stage="verdict"}': 1,
        'spectacular_bid_command_stage_seconds_count{stage="commit"}': 4,
        'spectacular_bid_command_stage_seconds_count{stage="publish"}': 4,
    }


async def test_the_end_of_a_match_names_it(shared: Stack) -> None:
    """Every line about a match can be found by its id."""
    table = await Table.create(shared)
    await table.do(Resign(NORTH), request_id=new_id())
    over = await shared.processes["game"].event("match_over", match_id=table.match_id)
    assert over["cause"] == "resignation"
