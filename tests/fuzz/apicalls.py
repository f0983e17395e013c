"""Calls as bytes: whatever can be sent is sent, and all that comes back is kept and looked at."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import grpc
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from client.errors import CallError, from_rpc
from spectacularbid.identity.v1 import guest_service_pb2, player_service_pb2
from spectacularbid.internal.clock.v1 import clock_service_pb2
from spectacularbid.internal.operations.v1 import operations_service_pb2
from spectacularbid.internal.placement.v1 import placement_service_pb2
from spectacularbid.ladder.v1 import ladder_service_pb2
from spectacularbid.match.v1 import match_service_pb2, table_pb2
from spectacularbid.matchmaking.v1 import matchmaking_service_pb2
from spectacularbid.rules.v1 import rules_service_pb2
from tests.stack import Metadata

CALL_SECONDS: Final = 60.0
"""How long anything may take: far more than it needs, even on a busy machine."""
HOMES: Final[Sequence[tuple[str, FileDescriptor]]] = (
    ("game", match_service_pb2.DESCRIPTOR),
    ("matchmaking", matchmaking_service_pb2.DESCRIPTOR),
    ("matchmaking", ladder_service_pb2.DESCRIPTOR),
    ("matchmaking", guest_service_pb2.DESCRIPTOR),
    ("matchmaking", player_service_pb2.DESCRIPTOR),
    ("matchmaking", rules_service_pb2.DESCRIPTOR),
    ("placement", placement_service_pb2.DESCRIPTOR),
    ("placement", operations_service_pb2.DESCRIPTOR),
    ("clock", clock_service_pb2.DESCRIPTOR),
)
"""The address at which each service is answered."""
OPEN: Final = frozenset({"CreateGuest", "GetRules"})
"""What nobody needs a token for."""
TELLS_TILES: Final = frozenset({"GetRecord", "GetRules"})
"""Calls whose answers name tiles in words: records of what is over, and worked examples."""

_TILE_IN_WORDS: Final = re.compile(rb"(?<![0-9-])[0-6]\|[0-6](?![0-9])")
_REASON_ROW: Final = re.compile(r"^\| `([A-Z_]+)` \| (?:([0-9.]+) \| )?`([A-Z_]+)` \|", re.M)
_DOCUMENTED: Final = _REASON_ROW.findall((Path(__file__).parents[2] / "docs" / "api.md").read_text("utf-8"))
STATUS: Final = {reason: grpc.StatusCode[code] for reason, _, code in _DOCUMENTED}
"""The status that belongs to each reason, as the API's page says."""
RULES: Final = {reason: rule for reason, rule, _ in _DOCUMENTED if rule}
"""The rule that each refusal names."""
RETRIED: Final = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED})
"""What must say when to come back."""


LOST: Final = "Internal error from Core"
"""What grpc.aio itself says when it wrote to a stream that the service had just ended. The answer is lost with it."""


@dataclass(frozen=True, slots=True)
class Method:
    """One rpc."""

    name: str
    path: str
    home: str
    request: type[Message]
    response: type[Message]
    asks: bool
    """Whether the client streams."""
    answers: bool
    """Whether the service streams."""

    @property
    def public(self) -> bool:
        """Whether players may call it."""
        return self.home in ("game", "matchmaking")

    @property
    def operators(self) -> bool:
        """Whether it is an order of operators."""
        return ".operations." in self.path


def _methods() -> dict[str, Method]:
    found = {}
    for home, file in HOMES:
        for service in file.services_by_name.values():
            for method in service.methods:
                short = method.name if home in ("game", "matchmaking") else f"{home}.{method.name}"
                found[short] = Method(
                    method.name,
                    f"/{service.full_name}/{method.name}",
                    home,
                    GetMessageClass(method.input_type),
                    GetMessageClass(method.output_type),
                    method.client_streaming,
                    method.server_streaming,
                )
    return found


METHODS: Final = _methods()
"""Every rpc there is, by name; internal ones behind the name of their address."""


@dataclass(slots=True)
class Heard:
    """A call and all that came back."""

    method: Method
    sent: bytes
    sent_at: int
    answered_at: int = 0
    code: grpc.StatusCode = grpc.StatusCode.OK
    error: CallError | None = None
    messages: list[Message] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    """Messages, trailers and error texts."""

    @property
    def said(self) -> str:
        """OK, the reason, or the bare status."""
        if self.error is None:
            return "OK"
        if self.error.message == LOST:
            return "LOST"
        return self.error.reason or self.code.name


def unfit(heard: Heard) -> list[str]:
    """What no answer may be, whatever was asked."""
    found = [f"a tile in words: {tile!r}" for tile in tiles_in_words(heard)]
    found += ["fields that are not in the protos" for message in heard.messages if _unknown(message)]
    if heard.error is not None:
        found += unfit_error(heard.error)
    return found


def tiles_in_words(heard: Heard) -> set[bytes]:
    """Tiles that an answer writes out, apart from those that the request named itself."""
    if heard.method.name in TELLS_TILES:
        return set()
    written = {tile for raw in heard.raw for tile in _TILE_IN_WORDS.findall(raw)}
    if not written:
        return written
    request = heard.method.request()
    try:
        request.ParseFromString(heard.sent)
    except DecodeError:
        return written
    return written - set(_named(request))


def _named(message: Message) -> Iterator[bytes]:
    if isinstance(message, table_pb2.Tile):
        yield f"{message.low}|{message.high}".encode()
    for descriptor, value in message.ListFields():
        if descriptor.message_type is not None:
            for part in value if descriptor.is_repeated else [value]:
                yield from _named(part)


def unfit_error(error: CallError) -> list[str]:
    """What no refusal may be."""
    if error.message == LOST:
        return []
    if error.code in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DEADLINE_EXCEEDED):
        return [f"{error.code.name}: {error.message}"]
    if not error.reason:
        return []
    found = []
    if STATUS.get(error.reason) is not error.code:
        found.append(f"{error.reason} came as {error.code.name}")
    if error.metadata.get("rule", "") != RULES.get(error.reason, ""):
        found.append(f"{error.reason} names rule {error.metadata.get('rule', '')!r}")
    if error.code in RETRIED and error.retry_after_seconds is None:
        found.append(f"{error.reason} does not say when to come back")
    return found


def _unknown(message: Message) -> bool:
    if len(UnknownFieldSet(message)):  # type: ignore[arg-type, unused-ignore]
        return True
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None or descriptor.message_type.GetOptions().map_entry:
            continue
        if any(_unknown(part) for part in (value if descriptor.is_repeated else [value])):
            return True
    return False


class Caller:
    """Makes calls and keeps count of them."""

    def __init__(self, channel: Callable[[str], grpc.aio.Channel]) -> None:
        self._channel = channel
        self._ticks = itertools.count(1)
        self.calls = 0
        self.said: Counter[str] = Counter()
        """How often each rpc said what."""

    def tick(self) -> int:
        """A moment; later moments are higher."""
        return next(self._ticks)

    async def once(
        self, method: Method, sent: bytes, metadata: Metadata, *, home: str | None = None, most: int = 3
    ) -> Heard:
        """One call with one request. Of a stream, at most so many messages are read; then it is cut."""
        heard = Heard(method, sent, self.tick())
        self.calls += 1
        channel: Any = self._channel(home or method.home)
        options: dict[str, Any] = {"metadata": metadata, "timeout": CALL_SECONDS}
        call: Any
        if method.asks and method.answers:
            call = channel.stream_stream(method.path)(**options)
        elif method.answers:
            call = channel.unary_stream(method.path)(sent, **options)
        else:
            call = channel.unary_unary(method.path)(sent, **options)
        try:
            if method.asks:
                await call.write(sent)
            if method.answers:
                while len(heard.messages) < most and isinstance(raw := await call.read(), bytes):
                    _take(heard, raw)
                if len(heard.messages) < most:
                    await _end(heard, call)
            else:
                _take(heard, await call)
        except grpc.aio.AioRpcError as error:
            fail(heard, error)
        finally:
            call.cancel()
        heard.answered_at = self.tick()
        self.count(heard.method.name, heard.said)
        return heard

    def stream(self, method: Method, metadata: Metadata, *, home: str | None = None) -> Any:
        """A bidirectional stream of bytes, for whoever reads and writes it."""
        self.calls += 1
        channel: Any = self._channel(home or method.home)
        return channel.stream_stream(method.path)(metadata=metadata)

    def watch(self, method: Method, sent: bytes, metadata: Metadata, *, home: str | None = None) -> Any:
        """A stream of answers, for whoever reads it."""
        self.calls += 1
        channel: Any = self._channel(home or method.home)
        return channel.unary_stream(method.path)(sent, metadata=metadata)

    def count(self, name: str, said: str) -> None:
        """One more answer."""
        self.said[f"{name} {said}"] += 1


def _take(heard: Heard, raw: bytes) -> None:
    heard.raw.append(raw)
    try:
        message = heard.method.response()
        message.ParseFromString(raw)
        heard.messages.append(message)
    except DecodeError:
        heard.error = CallError(grpc.StatusCode.INTERNAL, "", "the answer is no message of this call")


async def _end(heard: Heard, call: Any) -> None:
    """A stream that the service ended: with what."""
    code = await call.code()
    if code is not grpc.StatusCode.OK:
        trailers = await call.trailing_metadata()
        fail(heard, grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailers, await call.details()))


def fail(heard: Heard, error: grpc.aio.AioRpcError) -> None:
    """Takes in how a call failed."""
    heard.code = error.code()
    heard.error = from_rpc(error)
    heard.raw.append((error.details() or "").encode())
    for key, value in error.trailing_metadata() or ():
        heard.raw.append(key.encode() + b"=" + (value if isinstance(value, bytes) else value.encode()))
