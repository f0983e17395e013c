"""The outermost interceptor: who calls, what it costs, and what a failure may tell.

grpc.aio sends the text of an uncaught exception to the client; here nothing but a ServiceError leaves.
"""

from __future__ import annotations

import asyncio
import hmac
import inspect
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

import grpc
from google.protobuf.message import DecodeError

from services.common import errors, tracing
from services.common.auth import Identity, TokenVerifier, set_caller
from services.common.errors import ServiceError, SlowReaderError, malformed
from services.common.logs import get_logger
from services.common.metrics import CallMetrics, RpcMetrics
from services.common.tracing import Kind, NoTracer, Span, Tracer
from services.storage.pool import TRANSIENT

OPEN_PREFIXES = ("/grpc.health.v1.", "/grpc.reflection.")
UNTRACED_PREFIXES = ("/spectacularbid.internal.clock.", "/spectacularbid.internal.placement.")
"""Streams that last as long as their processes, and are about everybody: what they carry may name traces."""
OPERATOR_ROLE = "operator"
"""What `roles` of a token must contain for the calls of operators."""

SLOW_SECONDS = 1.0
"""The reader of a stream that does not take a message for so long does not keep up."""

_OUR_FAULT = frozenset((grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN))
_NO_TRACER = NoTracer()

Context = grpc.aio.ServicerContext[Any, Any]
Behaviour = Callable[[Any, Context], Any]


class Gate(Protocol):
    """Lets a call in, or raises ServiceError."""

    def __call__(self, method: str, token: str | None) -> Identity | None: ...


class PlayerGate:
    """Players' tokens, checked for every method that is not open."""

    def __init__(self, verifier: TokenVerifier, open_methods: frozenset[str] = frozenset()) -> None:
        self._verifier = verifier
        self._open_methods = open_methods

    def __call__(self, method: str, token: str | None) -> Identity | None:
        if method in self._open_methods:
            return None
        if token is None:
            raise ServiceError(
                grpc.StatusCode.UNAUTHENTICATED, "TOKEN_INVALID", "authorization: Bearer <token> is missing"
            )
        return self._verifier.verify(token)


class SecretGate:
    """The shared secret of the internal streams."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()

    def __call__(self, method: str, token: str | None) -> Identity | None:  # noqa: ARG002 - all methods alike
        if token is None or not hmac.compare_digest(token.encode(), self._secret):
            raise ServiceError(
                grpc.StatusCode.UNAUTHENTICATED, "TOKEN_INVALID", "the internal secret is missing or wrong"
            )
        return None


class OperatorGate:
    """The internal streams and, under one prefix, the calls of operators: these need a token with a role of theirs, so
    that it is known who they are. The shared secret does not open them, nor their tokens the streams."""

    def __init__(self, secret: Gate, verifier: TokenVerifier, prefix: str) -> None:
        self._secret = secret
        self._players = PlayerGate(verifier)
        self._prefix = prefix

    def __call__(self, method: str, token: str | None) -> Identity | None:
        if not method.startswith(self._prefix):
            return self._secret(method, token)
        identity = self._players(method, token)
        if identity is None or OPERATOR_ROLE not in identity.roles:
            raise ServiceError(
                grpc.StatusCode.PERMISSION_DENIED, "ROLE_MISSING", f"the token lacks the role {OPERATOR_ROLE}"
            )
        return identity


def _bearer(context: Context) -> str | None:
    for key, value in context.invocation_metadata() or ():
        if key == "authorization" and isinstance(value, str) and value.startswith("Bearer "):
            return value[7:]
    return None


_UNREADABLE = object()
"""In place of a message whose bytes make no sense: grpc.aio itself would answer with the text of the exception."""


def _forgiving(deserialize: Callable[[bytes], Any], received: Callable[[], None]) -> Callable[[bytes], Any]:
    def read(raw: bytes) -> Any:
        received()
        try:
            return deserialize(raw)
        except DecodeError:
            return _UNREADABLE

    return read


def _counting(serialize: Callable[[Any], bytes], sent: Callable[[], None]) -> Callable[[Any], bytes]:
    def write(message: Any) -> bytes:
        sent()
        return serialize(message)

    return write


def _readable(request: Any) -> Any:
    if request is _UNREADABLE:
        raise malformed("the bytes are no message of this call")
    return request


async def _all_readable(requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for request in requests:
        yield _readable(request)


class Guard(grpc.aio.ServerInterceptor):
    """Wraps every handler of one server."""

    def __init__(
        self,
        gate: Gate,
        metrics: RpcMetrics,
        slow_seconds: float = SLOW_SECONDS,
        tracer: Tracer = _NO_TRACER,
    ) -> None:
        self._tracer = tracer
        self._gate = gate
        self._metrics = metrics
        self._slow_seconds = slow_seconds
        self._wrapped: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        # server.stop() can return before cancelled handlers have cleaned up; whoever closes the pool awaits these.
        self.running: set[asyncio.Task[Any]] = set()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """The wrapped handler of a method; an unknown method stays UNIMPLEMENTED."""
        method = handler_call_details.method
        known = self._wrapped.get(method)
        if known is not None:
            return known
        handler = await continuation(handler_call_details)
        if handler is None or method.startswith(OPEN_PREFIXES):
            return handler
        self._wrapped[method] = wrapped = self._wrap(method, handler)
        return wrapped

    def _wrap(self, method: str, handler: Any) -> grpc.RpcMethodHandler[Any, Any]:
        asks, answers = handler.request_streaming, handler.response_streaming
        metrics = self._metrics.of(method, client_streaming=asks, server_streaming=answers)
        codecs = {
            # Messages are counted where they become bytes: there is no other way in or out.
            "request_deserializer": _forgiving(handler.request_deserializer, metrics.received.inc),
            "response_serializer": _counting(handler.response_serializer, metrics.sent.inc),
        }
        if asks and answers:
            behaviour = self._stream(method, metrics, handler.stream_stream)
            return grpc.stream_stream_rpc_method_handler(behaviour, **codecs)
        if asks:
            behaviour = self._unary(method, metrics, handler.stream_unary)
            return grpc.stream_unary_rpc_method_handler(behaviour, **codecs)
        if answers:
            behaviour = self._stream(method, metrics, handler.unary_stream)
            return grpc.unary_stream_rpc_method_handler(behaviour, **codecs)
        behaviour = self._unary(method, metrics, handler.unary_unary)
        return grpc.unary_unary_rpc_method_handler(behaviour, **codecs)

    def _unary(self, method: str, metrics: CallMetrics, inner: Behaviour) -> Behaviour:
        async def behaviour(request: Any, context: Context) -> Any:
            return await self._call(method, metrics, context, lambda: inner(_readable(request), context))

        return behaviour

    def _stream(self, method: str, metrics: CallMetrics, inner: Behaviour) -> Behaviour:
        streams, slow = metrics.streams, metrics.slow
        assert streams is not None
        assert slow is not None

        async def run(request: Any, context: Context) -> None:
            requests = _all_readable(request) if hasattr(request, "__aiter__") else _readable(request)
            result = inner(requests, context)
            if inspect.isawaitable(result):
                await result
                return
            later = asyncio.get_running_loop().call_later
            try:
                async for response in result:
                    # A write waits until there is room for it: for a reader that does not read, it waits for ever.
                    waiting = later(self._slow_seconds, slow.inc)
                    try:
                        await context.write(response)
                    finally:
                        waiting.cancel()
            finally:
                await result.aclose()

        async def behaviour(request: Any, context: Context) -> None:
            with streams.track_inprogress():
                await self._call(method, metrics, context, lambda: run(request, context))

        return behaviour

    async def _call(
        self, method: str, metrics: CallMetrics, context: Context, call: Callable[[], Awaitable[Any]]
    ) -> Any:
        task = asyncio.current_task()
        assert task is not None
        self.running.add(task)
        metrics.started.inc()
        began = time.perf_counter()
        code = grpc.StatusCode.OK
        span = self._enter_trace(method, context)
        try:
            identity = self._gate(method, _bearer(context))
            if identity is not None:
                set_caller(identity)
            return await call()
        except asyncio.CancelledError:
            code = grpc.StatusCode.CANCELLED
            raise
        except grpc.aio.InternalError:
            # The caller has gone while a message waited for room: that is no fault of anybody.
            code = grpc.StatusCode.CANCELLED
            raise asyncio.CancelledError from None
        except ServiceError as error:
            code = error.code
            if metrics.slow is not None and isinstance(error, SlowReaderError):
                metrics.slow.inc()
            await context.abort_with_status(error.status())
        except grpc.aio.AbortError:
            code = grpc.StatusCode.ABORTED
            raise
        except TRANSIENT as error:
            # Every call may be repeated: the reading ones anyway, the others because of their request_id.
            code = grpc.StatusCode.UNAVAILABLE
            get_logger().warning("call_unavailable", method=method, error=type(error).__name__)
            await context.abort_with_status(
                errors.try_again("the database does not answer; try again", 1.0).status()
            )
        except Exception:  # noqa: BLE001 - the last line of defence: nothing of it may leave
            code = grpc.StatusCode.INTERNAL
            opaque_id = secrets.token_hex(8)
            get_logger().exception("call_failed", method=method, error_id=opaque_id)
            await context.abort_with_status(errors.internal(opaque_id).status())
        finally:
            metrics.handled[code].inc()
            metrics.seconds.observe(time.perf_counter() - began)
            span.end(failed=code in _OUR_FAULT, code=code.name)
            self.running.discard(task)

    def _enter_trace(self, method: str, context: Context) -> Span:
        """What the call does belongs to the trace that its caller names, or to one that begins here."""
        if method.startswith(UNTRACED_PREFIXES):
            return _NO_TRACER.begin(method, None)
        parent = tracing.from_metadata(context.invocation_metadata())
        span = self._tracer.begin(method.removeprefix("/"), parent, Kind.SERVER)
        tracing.enter(span.context)
        return span
