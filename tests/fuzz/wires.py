"""Fuzz targets for messages. An input is the full name of a message, a line end, and the message as it is on the wire."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Final

from google.protobuf.message import DecodeError, Message

from tests.fuzz.messagemutation import mutate_message, random_message
from tests.fuzz.readers import CLIENT, OPERATIONS, PUBLIC, STREAMS, Read
from tests.fuzz.target import Target

SEEDS_EACH: Final = 3
"""Random messages of each kind in the corpus."""


def input_of(message: Message) -> bytes:
    """The input that holds this message."""
    return f"{message.DESCRIPTOR.full_name}\n".encode() + message.SerializeToString()


def target(
    name: str, readers: Mapping[type[Message], Read], covers: tuple[str, ...], weight: int = 1
) -> Target:
    """All messages of a table as one target."""
    kinds = {kind.DESCRIPTOR.full_name: kind for kind in readers}

    def run(data: bytes) -> None:
        head, _, body = data.partition(b"\n")
        kind = kinds.get(head.decode("latin1"))
        if kind is None:
            return
        message = kind()
        try:
            message.ParseFromString(body)
        except DecodeError:
            return
        readers[kind](message)

    def mutate(data: bytes, rng: random.Random) -> bytes:
        head, _, body = data.partition(b"\n")
        kind = kinds.get(head.decode("latin1"))
        if kind is None or rng.random() < 0.02:
            kind, body = rng.choice(list(kinds.values())), b""
        return f"{kind.DESCRIPTOR.full_name}\n".encode() + mutate_message(kind, body, rng)

    def seeds() -> Iterator[bytes]:
        rng = random.Random(name)
        for kind in kinds.values():
            yield input_of(kind())
            for _ in range(SEEDS_EACH if kind.DESCRIPTOR.fields else 0):
                yield input_of(random_message(kind, rng))

    return Target(name, run, mutate, seeds, covers, weight=weight)


TARGETS: Final = (
    target(
        "requests",
        PUBLIC,
        (
            *(
                "services.wire.commands",
                "services.wire.ladder",
                "services.wire.matchmaking",
                "services.wire.rules",
            ),
            *("services.wire.tables", "services.game.creation"),
        ),
        weight=3,
    ),
    target(
        "operations",
        OPERATIONS,
        ("services.wire.operations", "services.wire.processes", "services.wire.results"),
    ),
    target("streams", STREAMS, ("services.wire.clock", "services.wire.clock_news"), weight=2),
    target("answers", CLIENT, ("client.wire", "client.table", "client.errors"), weight=2),
)
