"""What a live match remembers of the requests that had their effect."""

from __future__ import annotations

import hashlib
import tracemalloc
import uuid

from services.game.answers import Answered, Answers

REQUESTS = 400
"""More than most matches have."""


def answered(number: int) -> Answered:
    """What the request of that number was answered with."""
    return Answered(hashlib.sha256(str(number).encode()).digest(), 3 * number, 3 * number + 2)


def test_every_request_is_found_by_its_player_and_id_and_no_other() -> None:
    """One effect for one request_id: whatever was answered is answered again, to its own player alone."""
    answers = Answers()
    ids = [f"request {number}" for number in range(REQUESTS)]
    for number, request_id in enumerate(ids):
        assert answers.get(("north", request_id)) is None
        answers.put(("north", request_id), answered(number))
    for number, request_id in enumerate(ids):
        assert answers.get(("north", request_id)) == answered(number)
        assert answers.get(("south", request_id)) is None
    # An id may be any text: what belongs to which of the two is not a matter of where it is cut.
    assert answers.get(("nort", "h request 1")) is None


def test_a_name_that_stands_where_none_is_expected_is_none() -> None:
    """Bytes of a payload that look like the name of another request."""
    answers = Answers()
    probe = Answers()
    probe.put(("north", "looked for"), answered(0))
    ((group, row),) = probe._rows.items()
    answers._rows[group] = bytes(16) + row[:16] + bytes(len(row) - 32)
    assert answers.get(("north", "looked for")) is None
    answers.put(("north", "looked for"), answered(7))
    assert answers.get(("north", "looked for")) == answered(7)


def test_what_is_remembered_of_a_request_is_small() -> None:
    """A process keeps it of every command of all its live matches: as objects it was 400 bytes."""
    ids = [str(uuid.uuid4()) for _ in range(REQUESTS)]
    given = [answered(number) for number in range(REQUESTS)]
    tracemalloc.start()
    try:
        answers = Answers()
        for number in range(REQUESTS):
            answers.put(("south", ids[number]), given[number])
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used < 100 * REQUESTS
