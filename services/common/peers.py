"""Where a call comes from: the address that limits count by.

An IPv6 address counts with its whole /64, which is what one subscriber has. Behind a proxy that is trusted, it is what
that proxy says: the last entry of `x-forwarded-for` that is not a trusted proxy's. What stands before it anybody may
have written.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias
from urllib.parse import unquote

Network: TypeAlias = IPv4Network | IPv6Network
Address: TypeAlias = IPv4Address | IPv6Address

FORWARDED: Final = "x-forwarded-for"
LOCAL: Final = "local"
"""Whoever comes by a socket that has no address."""
SUBSCRIBER_BITS: Final = 64
CUSTOMER_BITS: Final = 48
"""The most that one customer is usually given: 65,536 networks of a subscriber's size."""
HOPS_MAX: Final = 16
"""Entries of `x-forwarded-for` that are looked at, from the last."""


def read_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Networks as `10.0.0.0/8` or `fd00::/8`. Raises ValueError."""
    return tuple(ip_network(text) for text in texts)


class Peers:
    """Who is who, by the connection and by what trusted proxies say."""

    def __init__(self, proxies: tuple[Network, ...] = ()) -> None:
        self._proxies = proxies

    def address(self, peer: str, metadata: Iterable[tuple[str, str | bytes]]) -> str:
        """The address behind a call: `peer` is what gRPC calls the other end of the connection."""
        found = _of_peer(peer)
        if found is None:
            return LOCAL
        if not self._proxies or not self._trusts(found):
            return _key(found)
        hops = [
            hop
            for key, value in metadata
            if key == FORWARDED and isinstance(value, str)
            for hop in value.rsplit(",", HOPS_MAX)[-HOPS_MAX:]
        ]
        for hop in reversed(hops[-HOPS_MAX:]):
            address = _of_text(hop.strip())
            if address is None:
                break
            found = address
            if not self._trusts(address):
                break
        return _key(found)

    def is_proxy(self, peer: str) -> bool:
        """Whether the other end of the connection is a trusted proxy, whose connection many callers share."""
        found = _of_peer(peer)
        return found is not None and self._trusts(found)

    def _trusts(self, address: Address) -> bool:
        return any(address in network for network in self._proxies)


@lru_cache(maxsize=4096)
def _of_text(text: str) -> Address | None:
    try:
        address = ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


@lru_cache(maxsize=4096)
def customer(key: str) -> str | None:
    """The wider network of an IPv6 address, as `Peers.address` tells it, which may be all one customer's; else None."""
    if "/" not in key:
        return None
    return str(ip_network(key).supernet(new_prefix=CUSTOMER_BITS))


def _of_peer(peer: str) -> Address | None:
    kind, _, rest = peer.partition(":")
    if kind not in ("ipv4", "ipv6"):
        return None
    return _of_text(unquote(rest).rpartition(":")[0])


@lru_cache(maxsize=4096)
def _key(address: Address) -> str:
    if isinstance(address, IPv4Address):
        return str(address)
    return str(ip_network((address, SUBSCRIBER_BITS), strict=False))
