"""Matches as the game service tells them, without its network: real engine, real story, real messages."""

from __future__ import annotations

import random
from datetime import UTC, datetime

from client import table as fold
from client.table import TableState
from client.wire import evolve as evolve_table
from client.wire import prompt_from_pb, table_from_pb
from engine.clock import SECOND
from engine.command import Command
from engine.deal import Deal
from engine.match import Phase, deal_round, decide, timed
from engine.refusal import Refusal
from engine.tiles import DOUBLE_SIX
from services.game.story import Audience, Story
from services.game.streams import Follower
from services.storage.matches import MatchRow, PlayerRow
from spectacularbid.match.v1 import match_service_pb2 as pb

NORTH = PlayerRow("guest-north", "Nora", False)
SOUTH = PlayerRow("guest-south", "Sol", False)


def new_story(*, same_device: bool = False) -> Story:
    return Story(
        MatchRow(
            match_id="3f1f7a3e-96a5-4e9e-9f0d-5bb24c2f9a10",
            mode="same_device" if same_device else "rated",
            rated=not same_device,
            north=NORTH,
            south=NORTH if same_device else SOUTH,
            bank_ns=120 * SECOND,
            delay_ns=10 * SECOND,
            start_limit_ns=60 * SECOND,
            continue_limit_ns=30 * SECOND,
            script=None,
            created_at=datetime(2026, 1, 2, tzinfo=UTC),
        )
    )


def news(story: Story, audience: Audience, resume_after: int) -> pb.WatchResponse:
    """What the service sends to a reader that has everything up to `resume_after`."""
    encoded = Follower(story, audience, resume_after).take()
    assert encoded is not None
    return pb.WatchResponse.FromString(encoded)


def told(table: TableState | None, message: pb.WatchResponse) -> TableState:
    """The table after one message, without a stream around it."""
    if message.HasField("snapshot"):
        table = table_from_pb(message.snapshot, 0.0)
    assert table is not None
    for event in message.events:
        table = evolve_table(table, event)
    return fold.prompted(table, prompt_from_pb(message.prompt, 0.0)) if message.HasField("prompt") else table


def carry_out(story: Story, command: Command, rng: random.Random) -> Refusal | None:
    """Decide a command and, when a deal is due then, deal."""
    ruling = decide(story.state, command)
    if isinstance(ruling, Refusal):
        return ruling
    clock = (timed(story.state, command, rng.randrange(3 * SECOND)),) if story.state.to_act else ()
    story.tell((*clock, *ruling), 0)
    if story.state.phase is Phase.AWAITING_DEAL:
        tiles = list(DOUBLE_SIX)
        rng.shuffle(tiles)
        dealt = deal_round(story.state, Deal.from_shuffle(tiles), rng.randbytes(32))
        assert not isinstance(dealt, Refusal)
        story.tell(dealt, 0)
    return None
