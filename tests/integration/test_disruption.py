"""A game process whose clock goes wrong: nobody loses on it, and both players are told why."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.clock import MILLISECOND
from engine.seats import NORTH, SEATS, SOUTH
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import table_pb2
from tests.engine.tables import play
from tests.integration.timing import FORCED, one_row, reproduced
from tests.seats import Table, eventually, scripted
from tests.stack import stack, time_control

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_forfeit_by_a_clock_that_runs_too_fast_is_void_for_the_players(
    database_url: str, tmp_path: Path
) -> None:
    """Scenario 23, rule R17, fault 4, end to end: the kernel clock of the game process runs twice too fast. A command in time
    stands as its stamps say. Silence up to the deadline is no forfeit: the match is void, the incident and the evidence
    are stored, both players and their lists of matches name the cause, and every figure follows from the rows."""
    async with stack(tmp_path, database_url, names=()) as made:
        made.modules["game"] = ("tests.skewed", "200")
        await made.start("clock", "matchmaking", "game")
        table = await Table.create(made, deals=scripted(FORCED), time_control=time_control(500, 1500))
        streams = [await table.events(seat) for seat in SEATS]
        await table.do(play(NORTH, "6|6"))
        row = await one_row(
            made,
            "select elapsed_ns, charge_ns from match_log where match_id = $1 and turn is not null order by revision",
            table.match_id,
        )
        assert row["charge_ns"] == max(0, row["elapsed_ns"] - 1500 * MILLISECOND)
        # South says nothing.
        for stream in streams:
            ended = [
                event.match_ended.outcome
                for message in await stream.to_the_end()
                for event in message.events
                if event.HasField("match_ended")
            ]
            assert ended == [table_pb2.Outcome(cause=table_pb2.CAUSE_VOID, detail="clock_disruption")]
        outcome = await made.outcome(table.match_id)
        assert outcome is not None
        assert (outcome["winner"], outcome["cause"], outcome["detail"]) == (None, "void", "clock_disruption")
        evidence = await made.evidence(table.match_id)
        assert (evidence["kind"], evidence["detail"]["reason"]) == ("void", "clock_disruption")
        assert "in doubt" in evidence["detail"]["summary"]
        for seat in SEATS:
            listed = await table.stub.ListMyMatches(
                pb.ListMyMatchesRequest(), metadata=table.players[seat].metadata
            )
            assert [match.outcome.detail for match in listed.matches] == ["clock_disruption"]

        async def kept() -> bool:
            return bool(
                await made.pool.fetchval(
                    """
                    select count(*) from incident i join incident_match m on m.incident_id = i.incident_id
                    where i.kind = 'clock_disruption' and m.match_id = $1 and m.effect = 'void'
                    """,
                    table.match_id,
                )
            )

        await eventually(kept)
        assert (await made.state(table.match_id)).banks[SOUTH] == 500 * MILLISECOND
        await reproduced(table)
