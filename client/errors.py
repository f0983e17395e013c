"""What can go wrong for a client, as exceptions a program can branch on."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from client.printable import printable
from spectacularbid.match.v1 import match_service_pb2, refusal_pb2

DOMAIN: Final = "spectacularbid"
_DETAILS_KEY: Final = "grpc-status-details-bin"
_RULE_REASONS: Final = frozenset(
    name.removeprefix("REFUSAL_REASON_")
    for name in refusal_pb2.RefusalReason.keys()  # noqa: SIM118  not a dict
    if name != "REFUSAL_REASON_UNSPECIFIED"
)
# Codes that a broken connection or a stopping server also produces without a word of the service.
_TRANSPORT_CODES: Final = frozenset(
    {
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNKNOWN,
    }
)
_BY_NUMBER: Final = {code.value[0]: code for code in grpc.StatusCode}


class ClientError(Exception):
    """Anything this library raises."""


class UnreachableError(ClientError):
    """Nobody answered for as long as the caller was willing to wait."""


class CallError(ClientError):
    """A call was answered with an error; nothing was changed by it.

    `reason` is a stable word (the names in the protos, without prefix), empty when the network spoke and not the
    service. `retry_after_seconds` is what the service asked for, None when it did not.
    """

    def __init__(
        self,
        code: grpc.StatusCode,
        reason: str,
        message: str,
        *,
        metadata: Mapping[str, str] | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(f"{reason or code.name}: {message}")
        self.code = code
        self.reason = reason
        self.message = message
        self.metadata = dict(metadata or {})
        self.retry_after_seconds = retry_after_seconds

    @property
    def retryable(self) -> bool:
        """Whether the very same request may be sent again and could succeed then."""
        if self.retry_after_seconds is not None or self.code is grpc.StatusCode.UNAVAILABLE:
            return True
        return not self.reason and self.code in _TRANSPORT_CODES


class Refused(CallError):
    """An answer more than a fault: the rules of the game do not allow the command. `rule` is the number of the rule."""

    @property
    def rule(self) -> str:
        """For example `5.2`."""
        return self.metadata.get("rule", "")


def call_error(
    code: grpc.StatusCode,
    reason: str,
    message: str,
    *,
    metadata: Mapping[str, str] | None = None,
    retry_after_seconds: float | None = None,
) -> CallError:
    """The right kind of CallError for a reason. What it says can be printed."""
    reason, message = printable(reason), printable(message)
    kind = Refused if reason in _RULE_REASONS else CallError
    return kind(code, reason, message, metadata=metadata, retry_after_seconds=retry_after_seconds)


def from_rpc(error: grpc.aio.AioRpcError) -> CallError:
    """What a failed call says, with the details the service packed into its status."""
    reason, metadata, retry_after = "", {}, None
    for key, value in error.trailing_metadata() or ():
        if key != _DETAILS_KEY or not isinstance(value, bytes):
            continue
        # Whatever stands between may have put anything there: then the code and the text have to do.
        with suppress(DecodeError):
            for detail in status_pb2.Status.FromString(value).details:
                info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
                if detail.Unpack(info) and info.domain == DOMAIN:
                    reason, metadata = info.reason, dict(info.metadata)
                elif detail.Unpack(retry):
                    retry_after = retry.retry_delay.ToNanoseconds() / 1e9
    return call_error(
        error.code(), reason, error.details() or "", metadata=metadata, retry_after_seconds=retry_after
    )


def from_refused(refused: match_service_pb2.Refused) -> CallError:
    """The same from a message of a Play stream."""
    reason = refused.reason_word or _reason_name(refused.reason)
    return call_error(
        _BY_NUMBER.get(refused.code, grpc.StatusCode.UNKNOWN),
        reason,
        refused.message,
        metadata={"rule": refused.rule} if refused.rule else {},
        retry_after_seconds=refused.retry_after_ms / 1000 if refused.retry_after_ms > 0 else None,
    )


def _reason_name(reason: refusal_pb2.RefusalReason.ValueType) -> str:
    if reason == refusal_pb2.REFUSAL_REASON_UNSPECIFIED:
        return ""
    try:
        return refusal_pb2.RefusalReason.Name(reason).removeprefix("REFUSAL_REASON_")
    except ValueError:  # a newer service
        return f"REFUSAL_{reason}"
