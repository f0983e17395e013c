"""Hostile text in every field of every public call: an answer that says what is wrong, and no fault of the service."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from typing import Any, Final

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from client.errors import from_rpc
from spectacularbid.identity.v1 import guest_service_pb2, player_service_pb2
from spectacularbid.ladder.v1 import ladder_service_pb2
from spectacularbid.match.v1 import match_service_pb2
from spectacularbid.matchmaking.v1 import matchmaking_service_pb2
from spectacularbid.rules.v1 import rules_service_pb2
from tests.stack import Player, Stack

pytestmark = pytest.mark.asyncio(loop_scope="session")

PROCESSES: Final = {
    match_service_pb2: "game",
    **dict.fromkeys(
        (
            guest_service_pb2,
            player_service_pb2,
            ladder_service_pb2,
            matchmaking_service_pb2,
            rules_service_pb2,
        ),
        "matchmaking",
    ),
}


def token(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode()


ID: Final = "00000000-0000-0000-0000-000000000001"
HOSTILE: Final = (
    *(
        "",
        "\0",
        "a\0b",
        "\x1b]0;x\x07",
        "a\r\nb",
        "\u202eevil\u2066",
        "\u200b",
        "\ufeff",
        "\U000e0041",
        "ЭЭ",
        "ʔʔ",
    ),
    *(
        "' or 1=1 --",
        "'; drop table player; --",
        "%s%n{0}{}",
        "../../etc/passwd",
        "${jndi:ldap://x}",
        "NaN",
        "-1",
    ),
    *("x" * 60_000, "ﷺ" * 200, "\u0301" * 300, "a" * 65, "A", "{" + ID + "}", f"urn:uuid:{ID}", ID),
)
# Tokens of pages that this service has never written.
TOKENS: Final = (
    *(
        token(f"{at} {ID}".encode())
        for at in ("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-01-01")
    ),
    *(
        token(json.dumps(fields).encode())
        for fields in (
            ["ladder", 5, "\ud800"],
            ["ladder", 5, "\0"],
            ["ladder", 2**31, "a"],
            ["results", 2**63],
            ["results", True],
            ["matches", 2**70, ID],
            ["matches", -1, ID],
            ["matches", 1, "\ud800"],
            ["matches", 10**17, ID],
        )
    ),
    token(b"[" * 380),
)


def spoiled(kind: Any, depth: int = 3) -> Iterator[Message]:
    """A message for each field that can hold text, with each hostile one there, and nothing in any other field."""
    message = GetMessageClass(kind)
    for field in kind.fields:
        if field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES):
            for text in (*HOSTILE, *TOKENS) if field.name == "page_token" else HOSTILE:
                value: Any = text if field.type == FieldDescriptor.TYPE_STRING else text.encode()
                yield message(**{field.name: [value] if field.is_repeated else value})
        elif field.type == FieldDescriptor.TYPE_MESSAGE and depth:
            for inner in spoiled(field.message_type, depth - 1):
                yield message(**{field.name: [inner] if field.is_repeated else inner})


def completed(request: Any) -> Iterator[Any]:
    """The message, and the same with plain values where others would have ended it before: ids of its own."""
    yield request
    full = type(request)()
    full.CopyFrom(request)
    names = {field.name for field in request.DESCRIPTOR.fields}
    for name, value in (("request_id", "r"), ("match_id", ID), ("player_id", "nobody")):
        if name in names and not getattr(full, name) and not _in_oneof(full, name):
            setattr(full, name, value)
    if full != request:
        yield full


def _in_oneof(message: Any, name: str) -> bool:
    return message.DESCRIPTOR.fields_by_name[name].containing_oneof is not None


async def answers(made: Stack, process: str, method: MethodDescriptor, players: list[Player]) -> set[str]:
    """Whatever the calls of a method come to, by code and reason."""
    path = f"/{method.containing_service.full_name}/{method.name}"
    channel = made.channel(process)
    kinds = {(False, False): "unary_unary", (False, True): "unary_stream", (True, True): "stream_stream"}
    call = getattr(channel, kinds[method.client_streaming, method.server_streaming])(
        path,
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=GetMessageClass(method.output_type).FromString,
    )

    async def one(request: Message, player: Player) -> str:
        try:
            if not method.server_streaming:
                await call(request, metadata=player.metadata, timeout=30)
                return "OK"
            stream = call(
                iter([request]) if method.client_streaming else request, metadata=player.metadata, timeout=30
            )
            await stream.read()
            stream.cancel()
        except grpc.aio.AioRpcError as error:
            return f"{error.code().name} {from_rpc(error).reason}"
        return "OK"

    requests = [full for request in spoiled(method.input_type) for full in completed(request)]
    found: set[str] = set()
    for at in range(0, len(requests), len(players)):
        some = requests[at : at + len(players)]
        found |= set(await asyncio.gather(*map(one, some, players)))
    return found


async def test_hostile_text_in_any_field_is_answered_and_is_no_fault(shared: Stack) -> None:
    """No INTERNAL, no UNAVAILABLE, nothing without a reason; nothing about it in the logs but what was asked."""
    players = await shared.players(24)
    before = {name: len(process.events()) for name, process in shared.processes.items()}
    wrong: dict[str, set[str]] = {}
    for module, process in PROCESSES.items():
        for service in module.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                said = await answers(shared, process, method, players)
                faults = {
                    each
                    for each in said
                    if each.startswith(("INTERNAL", "UNAVAILABLE", "UNKNOWN", "DEADLINE"))
                    or each.endswith(" ")
                }
                if faults:
                    wrong[method.full_name] = faults
    assert wrong == {}
    logged = [
        line["event"]
        for name, process in shared.processes.items()
        for line in process.events()[before[name] :]
    ]
    assert {"call_failed", "call_data_refused", "call_unavailable"}.isdisjoint(logged)
