"""The outermost interceptor: who calls, what it costs, and what a failure may tell.

grpc.aio sends the text of an uncaught exception to the client; here nothing but a ServiceError leaves.
"""

from __future__ import annotations

import asyncio
import inspect
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, Final, NoReturn

import asyncpg
import grpc
from google.protobuf.message import DecodeError
from prometheus_client import CollectorRegistry, Counter

from services.common import errors, tracing
from services.common.auth import set_caller
from services.common.counting import Count
from services.common.errors import ServiceError, SlowReaderError, malformed
from services.common.gates import Gate
from services.common.limits import Limit, LimitError, Limits, set_visit
from services.common.logs import get_logger
from services.common.metrics import CallMetrics, LimitMetrics, RpcMetrics
from services.common.outlet import SLOW_SECONDS, WRITE_SECONDS, Outlet, Outlets
from services.common.tenures import Tenures
from services.common.tracing import Kind, NoTracer, Span, Tracer
from services.storage.pool import TRANSIENT

OPEN_PREFIXES = ("/grpc.health.v1.", "/grpc.reflection.")
UNTRACED_PREFIXES = ("/spectacularbid.internal.clock.", "/spectacularbid.internal.placement.")
"""Streams that last as long as their processes, and are about everybody: what they carry may name traces."""

FIRST_MESSAGE_SECONDS: Final = 5.0
"""A call that says nothing for so long ends."""
MESSAGE_BYTES_MAX: Final = 64 * 1024
"""Of a message of a player. The library itself takes more, so that we can say what is wrong with it."""
METADATA_BYTES_MAX: Final = 16 * 1024
"""Of the metadata of a call, counted as HTTP/2 counts: names, values, and 32 for each."""
_ENTRY_BYTES: Final = 32
_UNKNOWN: Final = "/unknown/unknown"
"""In place of the name of a method that there is not: these are not remembered."""

_OUR_FAULT = frozenset((grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN))
_NO_TRACER = NoTracer()

Context = grpc.aio.ServicerContext[Any, Any]
Behaviour = Callable[[Any, Context], Any]
_Call = Callable[[Context, Callable[[], Awaitable[Any]]], Awaitable[Any]]


Metadata = tuple[tuple[str, str | bytes], ...]


def _bearer(metadata: Metadata) -> str | None:
    for key, value in metadata:
        if key == "authorization" and isinstance(value, str) and value.startswith("Bearer "):
            return value[7:]
    return None


def _check_size(metadata: Metadata) -> None:
    if sum(len(key) + len(value) + _ENTRY_BYTES for key, value in metadata) > METADATA_BYTES_MAX:
        raise LimitError(Limit.METADATA_BYTES, "the metadata of the call is too large", 1.0)


_UNREADABLE = object()
"""In place of a message whose bytes make no sense: grpc.aio itself would answer with the text of the exception."""
_TOO_LARGE = object()


def _forgiving(
    deserialize: Callable[[bytes], Any], received: Count, bytes_max: int
) -> Callable[[bytes], Any]:
    def read(raw: bytes) -> Any:
        received.value += 1
        if len(raw) > bytes_max:
            return _TOO_LARGE
        try:
            return deserialize(raw)
        except DecodeError:
            return _UNREADABLE

    return read


def _counting(serialize: Callable[[Any], bytes], sent: Count) -> Callable[[Any], bytes]:
    def write(message: Any) -> bytes:
        sent.value += 1
        # What many are told alike is encoded once, by whoever tells it.
        return message if isinstance(message, bytes) else serialize(message)

    return write


def _readable(request: Any) -> Any:
    if request is _UNREADABLE:
        raise malformed("the bytes are no message of this call")
    if request is _TOO_LARGE:
        raise LimitError(Limit.MESSAGE_BYTES, "the message is too large: send a smaller one", 1.0)
    return request


async def _first(context: Context) -> Any:
    """The first message of a call, which is the only one of many."""
    try:
        async with asyncio.timeout(FIRST_MESSAGE_SECONDS):
            request = await context.read()
    except TimeoutError:
        raise LimitError(
            Limit.FIRST_MESSAGE, f"no message came within {FIRST_MESSAGE_SECONDS:g} s", 1.0
        ) from None
    if request is grpc.aio.EOF:
        raise malformed("there is no message")
    return _readable(request)


async def _messages(context: Context) -> AsyncIterator[Any]:
    yield await _first(context)
    while (request := await context.read()) is not grpc.aio.EOF:
        yield _readable(request)


class Guard(grpc.aio.ServerInterceptor):
    """Wraps every handler of one server."""

    def __init__(
        self,
        gate: Gate,
        metrics: RpcMetrics,
        limits: Limits | None = None,
        refused: LimitMetrics | None = None,
        *,
        bytes_max: int = MESSAGE_BYTES_MAX,
        slow_seconds: float = SLOW_SECONDS,
        write_seconds: float | None = WRITE_SECONDS,
        tracer: Tracer = _NO_TRACER,
        tenures: Tenures | None = None,
    ) -> None:
        self._tracer = tracer
        self._tenures = tenures
        self._gate = gate
        self._metrics = metrics
        # What everybody may call, and what there is not, is limited like the rest, and not shown with it.
        self._unshown = RpcMetrics(CollectorRegistry())
        self._limits = limits or Limits()
        self._refused = refused or LimitMetrics(CollectorRegistry())
        self._bytes_max = bytes_max
        self._outlets = Outlets(slow_seconds, write_seconds)
        self._wrapped: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        self._unknown = self._wrap(_UNKNOWN, None)
        # server.stop() can return before cancelled handlers have cleaned up; whoever closes the pool awaits these.
        self.running: set[asyncio.Task[Any]] = set()

    def close(self) -> None:
        """The server is about to stop: nobody is kept waiting for a refusal any more."""
        self._limits.closing.set()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """The wrapped handler of a method; an unknown method is UNIMPLEMENTED, and costs its caller as well."""
        method = handler_call_details.method
        known = self._wrapped.get(method)
        if known is not None:
            return known
        handler = await continuation(handler_call_details)
        if handler is None:
            return self._unknown
        self._wrapped[method] = wrapped = self._wrap(method, handler)
        return wrapped

    def _wrap(self, method: str, handler: Any) -> grpc.RpcMethodHandler[Any, Any]:
        # Toward the library every call sends a stream: then who calls is looked at before a message is waited for.
        if handler is None:
            call = self._calls(
                method, self._unshown.of(method, client_streaming=False, server_streaming=False), None
            )
            return grpc.stream_unary_rpc_method_handler(self._unary(call, _not_there, asks=True))
        asks, answers = handler.request_streaming, handler.response_streaming
        is_open = method.startswith(OPEN_PREFIXES)
        shown = self._unshown if is_open else self._metrics
        metrics = shown.of(method, client_streaming=asks, server_streaming=answers)
        call = self._calls(method, metrics, None if is_open else self._gate)
        codecs = {
            # Messages are counted where they become bytes: there is no other way in or out.
            "request_deserializer": _forgiving(
                handler.request_deserializer, metrics.received, self._bytes_max
            ),
            "response_serializer": _counting(handler.response_serializer, metrics.sent),
        }
        if answers:
            inner = handler.stream_stream if asks else handler.unary_stream
            return grpc.stream_stream_rpc_method_handler(
                self._stream(call, metrics, inner, asks=asks), **codecs
            )
        inner = handler.stream_unary if asks else handler.unary_unary
        return grpc.stream_unary_rpc_method_handler(self._unary(call, inner, asks=asks), **codecs)

    def _calls(self, method: str, metrics: CallMetrics, gate: Gate | None) -> _Call:
        return partial(self._call, method, metrics, gate)

    def _unary(self, call: _Call, inner: Behaviour, *, asks: bool) -> Behaviour:
        async def behaviour(_: Any, context: Context) -> Any:
            async def run() -> Any:
                return await inner(_messages(context) if asks else await _first(context), context)

            return await call(context, run)

        return behaviour

    def _stream(self, call: _Call, metrics: CallMetrics, inner: Behaviour, *, asks: bool) -> Behaviour:
        streams, slow = metrics.streams, metrics.slow
        assert streams is not None
        assert slow is not None

        async def behaviour(_: Any, context: Context) -> None:
            async def run() -> None:
                result = inner(_messages(context) if asks else await _first(context), context)
                if inspect.isawaitable(result):
                    await result
                    return
                await self._write_all(result, context, slow)

            with streams.track_inprogress():
                await call(context, run)

        return behaviour

    async def _write_all(self, responses: Any, context: Context, slow: Counter) -> None:
        outlet = Outlet(self._outlets, context, slow)
        try:
            async for response in responses:
                await outlet.write(response)
        finally:
            await responses.aclose()

    async def _call(
        self,
        method: str,
        metrics: CallMetrics,
        gate: Gate | None,
        context: Context,
        run: Callable[[], Awaitable[Any]],
    ) -> Any:
        task = asyncio.current_task()
        assert task is not None
        self.running.add(task)
        metrics.started.inc()
        began = time.perf_counter()
        code = grpc.StatusCode.OK
        metadata: Metadata = tuple(context.invocation_metadata() or ())
        span = self._enter_trace(method, metadata, traced=gate is not None)
        visit = self._limits.visit(method, context.peer(), metadata)
        set_visit(visit)
        try:
            visit.enter()
            _check_size(metadata)
            if gate is not None and (identity := gate(method, _bearer(metadata))) is not None:
                set_caller(identity)
                visit.known(identity, stream=metrics.streams is not None)
                if self._tenures is not None and metrics.streams is not None:
                    with self._tenures.held(identity):
                        return await run()
            return await run()
        except asyncio.CancelledError:
            code = grpc.StatusCode.CANCELLED
            visit.taken_back()
            raise
        except grpc.aio.InternalError:
            # The caller has gone while a message waited for room: that is no fault of anybody.
            code = grpc.StatusCode.CANCELLED
            visit.taken_back()
            raise asyncio.CancelledError from None
        except ServiceError as error:
            code = error.code
            if metrics.slow is not None and isinstance(error, SlowReaderError):
                metrics.slow.inc()
            if isinstance(error, LimitError):
                self._refused.count(error.limit)
                if error.held:
                    await visit.hold()
            elif code is grpc.StatusCode.RESOURCE_EXHAUSTED:
                self._refused.count(Limit.OTHER)
            await _refuse(context, error)
        except grpc.aio.AbortError:
            code = grpc.StatusCode.ABORTED
            raise
        except asyncpg.DataError as error:
            # What no check of ours has caught: there is no such text, number or time in the database.
            code = grpc.StatusCode.INVALID_ARGUMENT
            get_logger().warning("call_data_refused", method=method, error=type(error).__name__)
            await _refuse(context, malformed("a field holds what cannot be stored"))
        except TRANSIENT as error:
            # Every call may be repeated: the reading ones anyway, the others because of their request_id.
            code = grpc.StatusCode.UNAVAILABLE
            get_logger().warning("call_unavailable", method=method, error=type(error).__name__)
            await _refuse(context, errors.try_again("the database does not answer; try again", 1.0))
        except Exception:  # noqa: BLE001 - the last line of defence: nothing of it may leave
            code = grpc.StatusCode.INTERNAL
            opaque_id = secrets.token_hex(8)
            get_logger().exception("call_failed", method=method, error_id=opaque_id)
            await _refuse(context, errors.internal(opaque_id))
        finally:
            visit.leave()
            metrics.handled[code].inc()
            metrics.seconds.observe(time.perf_counter() - began)
            span.end(failed=code in _OUR_FAULT, code=code.name)
            self.running.discard(task)

    def _enter_trace(self, method: str, metadata: Metadata, *, traced: bool) -> Span:
        """What the call does belongs to a trace that begins here. That of its caller is linked: what strangers name is
        theirs, and neither decides what we collect nor writes into anybody's trace."""
        if not traced or method.startswith(UNTRACED_PREFIXES):
            return _NO_TRACER.begin(method, None)
        named = tracing.from_metadata(metadata)
        links = () if named is None else (named,)
        span = self._tracer.begin(method.removeprefix("/"), None, Kind.SERVER, links=links)
        tracing.enter(span.context, named)
        return span


async def _refuse(context: Context, error: ServiceError) -> NoReturn:
    try:
        await context.abort_with_status(error.status())
    except grpc.aio.InternalError:
        # The caller has gone meanwhile.
        raise asyncio.CancelledError from None


async def _not_there(_: Any, context: Context) -> None:
    await context.abort(grpc.StatusCode.UNIMPLEMENTED, "there is no such method")
