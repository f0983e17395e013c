"""What operators declare and rule through matchmaking: with a token that says who they are, once each, or refused."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from services.common.errors import ServiceError
from services.storage.declarations import Consequence
from services.wire import results as wire
from spectacularbid.internal.operations.v1 import results_pb2 as pb
from spectacularbid.internal.operations.v1.operations_service_pb2_grpc import OperationsServiceStub
from tests.services.matchmaking.house import SECONDS_MAX, SECRET, House, eventually, reason
from tests.services.storage.results import put_result, reasons

HOLD, RELEASE = pb.RESULT_ACTION_HOLD, pb.RESULT_ACTION_RELEASE


def new_id() -> str:
    return str(uuid.uuid4())


def stamp(at: datetime) -> Timestamp:
    made = Timestamp()
    made.FromDatetime(at)
    return made


@asynccontextmanager
async def calls(house: House, *roles: str, token: str = "") -> AsyncIterator[Callable[..., Any]]:
    """Calls of an operator: the name of a call and its request."""
    token = token or house.issuer.issue("op-ada", "ada", roles=roles)[0]

    async with grpc.aio.insecure_channel(house.internal) as channel:
        stub = OperationsServiceStub(channel)

        async def call(name: str, request: Any) -> Any:
            metadata = (("authorization", f"Bearer {token}"),)
            return await getattr(stub, name)(request, metadata=metadata, timeout=SECONDS_MAX)

        yield call


async def refusal(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call
    return reason(refused.value)[:2]


async def test_operators_rule_through_matchmaking_once_each(house: House) -> None:
    """A ruling whose answer was lost is made again under the same id, and nothing happens twice."""
    await house.start()
    async with house.pool.acquire() as connection:
        match, later = [await put_result(connection, "ann", "ben") for _ in range(2)]

    async def rated() -> bool:
        return list((await reasons(house.pool)).values()) == ["rated", "rated"]

    await eventually(rated)
    named: dict[str, Any] = {"match_ids": [str(match.match_id)], "reason": "a look", "limit": 1}
    ruling = pb.RuleResultsRequest(ruling_id=new_id(), action=HOLD, **named)
    async with calls(house, "operator") as call:
        answer = await call("RuleResults", ruling)
        assert (answer.decisions_changed, answer.ratings_changed, answer.done_before) == (2, 2, False)
        (shift,) = answer.decisions
        assert (shift.match_id, shift.before.reason, shift.after.reason) == (
            str(match.match_id),
            "rated",
            "held",
        )
        assert shift.before.north.mu_after > shift.before.north.mu_before
        assert not shift.after.HasField("north")
        assert (await call("RuleResults", ruling)).done_before
        other = pb.RuleResultsRequest(ruling_id=ruling.ruling_id, action=RELEASE, **named)
        refused = (grpc.StatusCode.FAILED_PRECONDITION, "RULING_REFUSED")
        assert await refusal(call("RuleResults", other)) == refused
        again = pb.RuleResultsRequest(ruling_id=new_id(), action=HOLD, **named)
        assert await refusal(call("RuleResults", again)) == refused
        voided = pb.VoidMatchRequest(incident_id=new_id(), match_id=str(match.match_id), reason="both froze")
        for _ in range(2):
            assert (await call("VoidMatch", voided)).voided == pb.VOIDED_MATCH_ANNULLED
        rated_one = pb.VoidMatchRequest(incident_id=new_id(), match_id=str(later.match_id), reason="x")
        assert await refusal(call("VoidMatch", rated_one)) == refused

        incident = pb.DeclareIncidentRequest(
            incident_id=new_id(), effect=pb.INCIDENT_EFFECT_NOTE, all=True, reason="a note"
        )
        for _ in range(2):
            await call("DeclareIncident", incident)
        end = pb.CloseIncidentRequest(incident_id=incident.incident_id, reason="over")
        for _ in range(2):
            await call("CloseIncident", end)
        end.reason = "over again"
        assert await refusal(call("CloseIncident", end)) == (grpc.StatusCode.NOT_FOUND, "INCIDENT_NOT_FOUND")
        unknown = pb.DeclareIncidentRequest(
            incident_id=new_id(), effect=pb.INCIDENT_EFFECT_VOID, match_ids=[new_id()], reason="x"
        )
        assert await refusal(call("DeclareIncident", unknown)) == (
            grpc.StatusCode.NOT_FOUND,
            "MATCH_NOT_FOUND",
        )

        await house.pool.execute("update rating set mu = mu + 1 where player_id = 'ann'")
        found = await call("RecomputeLadder", pb.RecomputeLadderRequest(reason="repaired", limit=5))
        assert (found.differences, len(found.first), bool(found.ruling_id)) == (1, 1, True)
        found = await call("RecomputeLadder", pb.RecomputeLadderRequest(reason="repaired", limit=5))
        assert (found.differences, found.ruling_id) == (0, "")
    kept = await house.pool.fetch("select action, author, via from rating_ruling order by ruling_no")
    assert [tuple(row) for row in kept] == [
        (action, "op-ada", "operations") for action in ("hold", "annul", "recompute")
    ]
    # Who is nobody, only plays, or knows the secret of the services, cannot rule.
    denied = [
        (calls(house), grpc.StatusCode.PERMISSION_DENIED),
        (calls(house, token=SECRET), grpc.StatusCode.UNAUTHENTICATED),
    ]
    for opened, code in denied:
        async with opened as call:
            for name, request in (
                ("RuleResults", ruling),
                ("VoidMatch", voided),
                ("DeclareIncident", incident),
            ):
                assert (await refusal(call(name, request)))[0] is code


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({}, "effect"),
        ({"effect": pb.INCIDENT_EFFECT_NOTE}, "exactly one"),
        ({"effect": pb.INCIDENT_EFFECT_NOTE, "all": True, "engine_id": "game"}, "exactly one"),
        ({"effect": pb.INCIDENT_EFFECT_NOTE, "match_ids": ["none"]}, "match_ids"),
        ({"effect": pb.INCIDENT_EFFECT_NOTE, "match_ids": [new_id()] * 1001}, "match_ids"),
        ({"effect": pb.INCIDENT_EFFECT_NOTE, "all": True, "reason": " "}, "reason"),
        ({"effect": pb.INCIDENT_EFFECT_NOTE, "all": True, "reason": "x" * 501}, "reason"),
        ({"effect": pb.INCIDENT_EFFECT_NOTE, "all": True, "reason": "\x1b[2J"}, "reason"),
        ({"effect": pb.INCIDENT_EFFECT_NOTE, "all": True, "incident_id": "none"}, "incident_id"),
        (
            {
                "effect": pb.INCIDENT_EFFECT_VOID,
                "all": True,
                "ended_at": stamp(datetime(2999, 1, 1, tzinfo=UTC)),
            },
            "ended_at",
        ),
        (
            {
                "effect": pb.INCIDENT_EFFECT_HOLD,
                "all": True,
                "began_at": stamp(datetime(2026, 1, 2, tzinfo=UTC)),
                "ended_at": stamp(datetime(2026, 1, 1, tzinfo=UTC)),
            },
            "ended_at",
        ),
        ({"effect": pb.INCIDENT_EFFECT_NOTE, "all": True, "began_at": Timestamp(seconds=2**62)}, "began_at"),
    ],
)
def test_a_declaration_that_makes_no_sense_names_the_field(fields: dict[str, Any], fault: str) -> None:
    request = pb.DeclareIncidentRequest(**{"incident_id": new_id(), "reason": "x", **fields})
    with pytest.raises(ServiceError, match=fault):
        wire.declaration_from_pb(request, "ada")


def test_a_declaration_that_voids_ends_now_unless_it_says_earlier() -> None:
    asked: dict[str, Any] = {"incident_id": new_id(), "reason": "x", "all": True}
    made = wire.declaration_from_pb(pb.DeclareIncidentRequest(effect=pb.INCIDENT_EFFECT_VOID, **asked), "ada")
    assert (made.author, made.via, made.consequence) == ("ada", "operations", Consequence.VOID)
    assert made.ended_at is not None
    assert datetime.now(UTC) - made.ended_at < timedelta(minutes=1)
    open_ = wire.declaration_from_pb(
        pb.DeclareIncidentRequest(effect=pb.INCIDENT_EFFECT_HOLD, **asked), "ada"
    )
    assert open_.ended_at is None
