"""What a story tells, read as a client reads it."""

from __future__ import annotations

from services.game.story import Audience, Story
from spectacularbid.match.v1 import event_pb2, table_pb2
from spectacularbid.match.v1 import match_service_pb2 as pb


def events_of(story: Story, audience: Audience, after: int) -> list[event_pb2.MatchEvent]:
    """The events after a number; they must be kept."""
    encoded = story.since(audience, after)
    assert encoded is not None
    return list(pb.WatchResponse.FromString(encoded).events)


def prompt_of(story: Story, audience: Audience) -> table_pb2.Prompt:
    """The question on the table."""
    return pb.WatchResponse.FromString(story.prompt(audience, None)).prompt


def snapshot_of(story: Story, audience: Audience) -> pb.Snapshot:
    """The whole table."""
    return pb.WatchResponse.FromString(story.snapshot(audience, None)).snapshot
