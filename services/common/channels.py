"""Channels to the internal ports of other processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import grpc

Options: TypeAlias = Sequence[tuple[str, Any]]
Connect: TypeAlias = Callable[[str, Options], grpc.aio.Channel]
"""Opens a channel to `host:port`. Each call takes the newest certificates: one for each new connection."""


def plain(address: str, options: Options = ()) -> grpc.aio.Channel:
    """A channel without TLS."""
    return grpc.aio.insecure_channel(address, options=options)


def secure(address: str, options: Options, credentials: grpc.ChannelCredentials) -> grpc.aio.Channel:
    """A channel with TLS."""
    return grpc.aio.secure_channel(address, credentials, options=options)
