"""Pages of metrics as the outage view reads them from the network."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, Gauge

from services.common.metrics import name_process
from services.common.metricspage import MetricsPage
from services.ops.pages import Reader, Target, addresses_of, target_of


@pytest.fixture
def address() -> Iterator[str]:
    """A page that a process shows."""
    registry = CollectorRegistry()
    Gauge("spectacular_bid_leading", "Leads.", registry=registry).set(1)
    phases = Gauge("spectacular_bid_live_matches", "Live.", ["phase"], registry=registry)
    phases.labels("playing").set(2)
    phases.labels("held").set(1)
    page = MetricsPage("127.0.0.1:0", registry)
    yield page.address
    page.close()


async def test_a_page_is_read_and_says_what_it_is(address: str) -> None:
    with Reader() as reader:
        (seen,) = await reader.read([target_of(address)])
    assert seen.page is not None
    assert (seen.role, seen.name, seen.address) == ("matchmaking", address, address)
    assert seen.page.value("spectacular_bid_live_matches") == 3
    assert seen.page.by("spectacular_bid_live_matches", "phase") == {"playing": 2, "held": 1}
    assert seen.page.value("unknown", 7.0) == 7.0


async def test_a_name_that_stands_for_several_addresses_is_several_processes(address: str) -> None:
    """As behind a headless service; only one of the two answers here."""
    host, _, port = address.rpartition(":")

    def behind(target: Target) -> list[tuple[str, str]]:
        return [(host, "game-1"), ("127.0.0.2", "game-2")] if target.host == "game" else addresses_of(target)

    with Reader(resolve=behind) as reader:
        one, other = await reader.read([target_of(f"game=game:{port}")])
        (literal,) = await reader.read([target_of(address)])
    assert (one.name, one.address, one.page is not None) == ("game-1", address, True)
    assert (other.name, other.problem, other.page) == ("game-2", "connection refused", None)
    assert other.role == "game"
    # An address has no other name than what answers there says itself.
    assert literal.name == address


async def test_it_is_not_forgotten_who_it_was_that_is_gone() -> None:
    registry = CollectorRegistry()
    name_process(registry, "game", "game-7")
    page = MetricsPage("127.0.0.1:0", registry)
    targets = [target_of(f"game={page.address}")]
    with Reader() as reader:
        (there,) = await reader.read(targets)
        page.close()
        (gone,) = await reader.read(targets)
    assert (there.name, gone.name, gone.page) == ("game-7", "game-7", None)
    assert gone.called == f"game game-7 ({page.address})"


async def test_who_does_not_answer_is_there_all_the_same() -> None:
    """Nobody listens; a name stands for nothing; somebody takes the connection and stands still."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(1)
        with Reader(patience_seconds=0.2) as reader:
            targets = [
                "127.0.0.1:1",
                "clock=no-such-host.invalid:7610",
                f"127.0.0.1:{silent.getsockname()[1]}",
            ]
            refused, unknown, still = await reader.read(map(target_of, targets))
    assert refused.problem == "connection refused"
    assert unknown.role == "clock"
    assert "stands for no address" in unknown.problem
    assert still.problem == "does not answer"


@pytest.mark.parametrize("text", ["7610", "host:", "bishop=host:7610", "host:99999", ":1"])
def test_a_target_is_an_address(text: str) -> None:
    with pytest.raises(ValueError, match=r"host:port|is no role"):
        target_of(text)
