"""Where hidden tiles could come from: the shuffle, and the shape of the messages."""

from __future__ import annotations

import subprocess
import sys

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import table_pb2


def texts_of(kind: Descriptor, seen: set[str]) -> set[str]:
    """Every text and bytes field in a message kind, at any depth, as `Message.field`."""
    if kind.full_name in seen:
        return set()
    seen.add(kind.full_name)
    found = set()
    for field in kind.fields:
        if field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES):
            found.add(f"{kind.name}.{field.name}")
        elif field.message_type is not None:
            found |= texts_of(field.message_type, seen)
    return found


def test_fc_55_nothing_in_a_stream_identifies_a_hidden_tile() -> None:
    """FC-55, by the schema: a stream's only texts are ids and names of the match and its players, the commitment, the
    outcome's word and an address; tiles have no ids, and other hands and the boneyard are counts. (What tiles there are
    is searched in test_story and in tests/integration.) A hand is sorted, so its order says nothing."""
    assert texts_of(pb.WatchResponse.DESCRIPTOR, set()) == {
        "Table.match_id",
        "Table.commitment",
        "Table.next_commitment",
        "HandDealt.commitment",
        "HandDealt.next_commitment",
        "Started.contribution",
        "Continued.contribution",
        "Contributions.north",
        "Contributions.south",
        "Outcome.detail",
        "Player.player_id",
        "Player.name",
        "Reconnect.address",
    }
    assert {field.name for field in table_pb2.Tile.DESCRIPTOR.fields} == {"low", "high"}


FAKED_CLOCK = """
import time, random
time.time = lambda: 1_700_000_000.0
time.time_ns = lambda: 1_700_000_000_000_000_000
time.monotonic = time.perf_counter = lambda: 1.0
random.seed(1)
from services.game import shuffle
print([shuffle.shuffled() for _ in range(3)], shuffle.salt().hex(), shuffle.secret().hex())
"""


def test_fc_57_two_processes_at_the_same_second_deal_differently() -> None:
    """FC-57: neither time nor a seeded generator is behind a deal, a salt or a match's secret."""
    started = [
        subprocess.Popen([sys.executable, "-c", FAKED_CLOCK], stdout=subprocess.PIPE) for _ in range(2)
    ]
    outputs = [process.communicate(timeout=60)[0] for process in started]
    assert all(process.returncode == 0 for process in started)
    assert outputs[0] != outputs[1]
    for place in (-1, -2):
        assert outputs[0].split()[place] != outputs[1].split()[place]
