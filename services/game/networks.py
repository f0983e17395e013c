"""Where a call comes from, as coarse as one person's addresses are."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final
from urllib.parse import unquote

PREFIX_V4: Final = 24
PREFIX_V6: Final = 48
"""What one customer of a network has, or a small one has in all: many addresses in it are not many people."""


def network_of(peer: str) -> str:
    """The network of a peer as gRPC names it, or of an address or smaller network; what is no IP address is its own network."""
    text = peer.partition("/")[0]
    for kind in ("ipv4:", "ipv6:"):
        if peer.startswith(kind):
            text = unquote(peer.removeprefix(kind).rpartition(":")[0]).strip("[]")
    try:
        address = ip_address(text)
    except ValueError:
        return peer.partition(":")[0]
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is None:
            return str(ip_network((int(address), PREFIX_V6), strict=False))
        address = address.ipv4_mapped
    return str(ip_network((int(address), PREFIX_V4), strict=False))
