"""How a call fails: one exception, one mapping to a status with a reason a program can branch on."""

from __future__ import annotations

from collections.abc import Mapping

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

DOMAIN = "spectacularbid"


class ServiceError(Exception):
    """A call cannot be answered; nothing was changed.

    `reason` is the name of a RefusalReason or ErrorReason without its prefix. `retry_after_seconds` says that sending
    the same request again is safe and when.
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
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.metadata = dict(metadata or {})
        self.retry_after_seconds = retry_after_seconds

    @property
    def code_number(self) -> int:
        """The google.rpc.Code."""
        return int(self.code.value[0])

    def status(self) -> grpc.Status:
        """The status with ErrorInfo, and RetryInfo where a retry helps."""
        status = status_pb2.Status(code=self.code_number, message=self.message)
        status.details.add().Pack(
            error_details_pb2.ErrorInfo(reason=self.reason, domain=DOMAIN, metadata=self.metadata)
        )
        if self.retry_after_seconds is not None:
            delay = Duration()
            delay.FromNanoseconds(int(self.retry_after_seconds * 1e9))
            status.details.add().Pack(error_details_pb2.RetryInfo(retry_delay=delay))
        return rpc_status.to_status(status)


class SlowReaderError(ServiceError):
    """A stream ends because its reader does not read: RESOURCE_EXHAUSTED, LIMIT_REACHED."""

    def __init__(
        self, message: str, retry_after_seconds: float, metadata: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "LIMIT_REACHED",
            message,
            metadata=metadata,
            retry_after_seconds=retry_after_seconds,
        )


def malformed(message: str) -> ServiceError:
    """INVALID_ARGUMENT: wrong in any state; the message names the field."""
    return ServiceError(grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED", message)


def try_again(message: str, after_seconds: float = 0.5) -> ServiceError:
    """UNAVAILABLE: the same request may be sent again."""
    return ServiceError(grpc.StatusCode.UNAVAILABLE, "TRY_AGAIN", message, retry_after_seconds=after_seconds)


def limit_reached(message: str, after_seconds: float = 1.0) -> ServiceError:
    """RESOURCE_EXHAUSTED: a documented limit."""
    return ServiceError(
        grpc.StatusCode.RESOURCE_EXHAUSTED, "LIMIT_REACHED", message, retry_after_seconds=after_seconds
    )


def busy(match_id: str | None) -> ServiceError:
    """FAILED_PRECONDITION: the caller has another live match."""
    return ServiceError(
        grpc.StatusCode.FAILED_PRECONDITION,
        "PLAYER_BUSY",
        "you have a live match",
        metadata={"match_id": match_id} if match_id else None,
    )


def internal(opaque_id: str) -> ServiceError:
    """INTERNAL: a fault of ours. The client learns an id, the log has the rest."""
    return ServiceError(grpc.StatusCode.INTERNAL, "INTERNAL", f"internal error {opaque_id}")
