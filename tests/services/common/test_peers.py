"""Where a call comes from."""

from __future__ import annotations

import pytest

from services.common.peers import LOCAL, Peers, customer, read_networks

BEHIND = Peers(read_networks(["10.0.0.0/8", "fd00::/8"]))


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:198.51.100.7:50000", "198.51.100.7"),
        ("ipv6:%5B2001:db8:1:2:3:4:5:6%5D:50000", "2001:db8:1:2::/64"),
        ("ipv6:[2001:db8:1:2:ffff::1]:50000", "2001:db8:1:2::/64"),
        ("ipv6:%5B::ffff:198.51.100.7%5D:50000", "198.51.100.7"),
        ("ipv6:%5Bfe80::1%25eth0%5D:50000", "fe80::/64"),
        ("unix:", LOCAL),
        ("unix:/tmp/socket", LOCAL),
        ("unknown", LOCAL),
    ],
)
def test_an_address_is_that_of_the_connection(peer: str, address: str) -> None:
    """Not its port, which costs nothing; of IPv6 what one subscriber has. What the caller says of itself is not read."""
    assert Peers().address(peer, (("x-forwarded-for", "203.0.113.9"),)) == address


@pytest.mark.parametrize(
    ("forwarded", "address"),
    [
        (["203.0.113.9"], "203.0.113.9"),
        # A client that writes the header itself: the proxy appends what it sees.
        (["198.51.100.1, 203.0.113.9"], "203.0.113.9"),
        (["198.51.100.1", "203.0.113.9"], "203.0.113.9"),
        # Two proxies of ours.
        (["198.51.100.1,203.0.113.9 , 10.2.0.1"], "203.0.113.9"),
        (["2001:db8:1:2:3:4:5:6"], "2001:db8:1:2::/64"),
        # Nothing that makes sense: as far as it does.
        ([], "10.1.2.3"),
        ([""], "10.1.2.3"),
        (["203.0.113.9, nonsense"], "10.1.2.3"),
        (["nonsense, 10.2.0.1"], "10.2.0.1"),
        (["203.0.113.9," + "10.0.0.1," * 10_000 + "10.0.0.2"], "10.0.0.1"),
    ],
)
def test_behind_a_trusted_proxy_it_is_what_the_proxy_saw(forwarded: list[str], address: str) -> None:
    """The last entry that is no trusted proxy's: all before it anybody may have written."""
    metadata = [("authorization", "Bearer x"), *(("x-forwarded-for", entry) for entry in forwarded)]
    assert BEHIND.address("ipv4:10.1.2.3:4000", metadata) == address


def test_whoever_is_no_trusted_proxy_says_nothing_about_itself() -> None:
    """Also beside a proxy, for example from another network that reaches the port."""
    assert BEHIND.address("ipv4:198.51.100.7:4000", [("x-forwarded-for", "203.0.113.9")]) == "198.51.100.7"


@pytest.mark.parametrize(
    ("address", "found"),
    [("2001:db8:1:2::/64", "2001:db8:1::/48"), ("198.51.100.7", None), (LOCAL, None)],
)
def test_the_networks_of_one_ipv6_customer_are_known_as_such(address: str, found: str | None) -> None:
    """65,536 of them are easily had by one; an IPv4 address is hard enough to have two of."""
    assert customer(address) == found
