"""What no check has caught and the database finds impossible is the caller's fault, and is said without a traceback."""

from __future__ import annotations

from typing import Any

import asyncpg
import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from services.common.gates import OpenGate
from services.common.guard import Guard
from services.common.metrics import RpcMetrics
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1.match_service_pb2_grpc import (
    MatchServiceServicer,
    MatchServiceStub,
    add_MatchServiceServicer_to_server,
)

IMPOSSIBLE = {
    "NUL": ("select $1::text", "\0"),
    "half a character": ("select $1::text", "\ud800"),
    "too large a number": ("select $1::int", 2**40),
    "no number": ("select $1::text::int", "one"),
    "no time": ("select $1::text::timestamptz", "99999-99-99"),
}


class Desk(MatchServiceServicer):
    """Asks the database what the request names."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def GetMatch(self, request: pb.GetMatchRequest, _context: Any) -> pb.GetMatchResponse:
        """As a call of ours would that has forgotten a check."""
        await self._connection.fetchval(*IMPOSSIBLE[request.match_id])
        return pb.GetMatchResponse()


async def test_a_value_that_the_database_finds_impossible_is_malformed(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    server = grpc.aio.server(interceptors=[Guard(OpenGate(), RpcMetrics(CollectorRegistry()))])
    add_MatchServiceServicer_to_server(Desk(connection), server)  # type: ignore[abstract]
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub: Any = MatchServiceStub(channel)
            for what in IMPOSSIBLE:
                with capture_logs() as said, pytest.raises(grpc.aio.AioRpcError) as error:
                    await stub.GetMatch(pb.GetMatchRequest(match_id=what))
                assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT, what
                details = dict(error.value.trailing_metadata())["grpc-status-details-bin"]
                info = error_details_pb2.ErrorInfo()
                assert status_pb2.Status.FromString(details).details[0].Unpack(info)
                assert info.reason == "MALFORMED"
                (line,) = said
                assert (line["event"], line["log_level"]) == ("call_data_refused", "warning")
                assert "exc_info" not in line
    finally:
        await server.stop(0)
        await connection.close()
