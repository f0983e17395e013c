"""A stream that is led from one process to another."""

from __future__ import annotations

import pytest

from client import MatchStream
from client.connection import Backoff, Connections
from spectacularbid.match.v1 import match_service_pb2 as pb
from tests.client.scripted import Scripted, serving
from tests.client.test_match import LAST, MATCH_ID, events, says, snapshot


def led_to(address: str) -> pb.WatchResponse:
    """The last word of a process that knows where the match goes on."""
    return pb.WatchResponse(reconnect=pb.Reconnect(address=address))


@pytest.mark.parametrize("hops", [1, 3])
async def test_a_stream_is_led_at_once_but_not_in_circles(monkeypatch: pytest.MonkeyPatch, hops: int) -> None:
    """Players wait for it when their match moves; processes that send it to and fro are not asked without a pause."""
    pauses = []

    class Counting(Backoff):
        """Counts."""

        def next_seconds(self, asked_seconds: float | None = None) -> float:
            pauses.append(asked_seconds)
            return 0.0

    monkeypatch.setattr("client.match.Backoff", Counting)
    monkeypatch.setattr("client.match.HOP_SECONDS", 3600.0)
    there = Scripted()
    async with serving(there) as second:
        here = Scripted()
        here.scripts.append(says(snapshot(), led_to(second)))
        async with serving(here) as first:
            for hop in range(1, hops):
                servicer, address = ((here, second), (there, first))[hop % 2]
                servicer.scripts.append(says(events(hop, hop), led_to(address)))
            (here, there)[hops % 2].scripts.append(says(events(hops, LAST)))
            connections = Connections("a token")
            async with MatchStream(connections, MATCH_ID, first) as stream:
                heard = [event.sequence async for each in stream for event in each.events]
            await connections.close()
    assert heard == list(range(1, LAST + 1))
    assert len(pauses) == hops - 1
