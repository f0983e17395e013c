"""Where a call comes from, as coarse as one person's addresses are."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

PREFIX_V4: Final = 24
PREFIX_V6: Final = 48
"""What one customer of a network has, or a small one has in all: many addresses in it are not many people."""


def network_of(address: str) -> str:
    """The network of an address, or of a smaller network, as `services.common.peers` tells them; what is neither is its
    own network."""
    try:
        found = ip_address(address.partition("/")[0])
    except ValueError:
        return address
    prefix = PREFIX_V6 if isinstance(found, IPv6Address) else PREFIX_V4
    return str(ip_network((found, prefix), strict=False))
