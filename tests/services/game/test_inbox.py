"""What waits for a room."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from engine.command import Draw
from engine.seats import NORTH, SOUTH, Seat
from services.common.tracing import NoTracer
from services.game.asked import Asked
from services.game.course import Courses
from services.game.inbox import COMMANDS_MAX, Inbox, LogLost
from services.game.livetime import Stamp
from services.game.metrics import CommandMetrics


def asked(seat: Seat, number: int) -> Asked:
    """Some command of a seat."""
    heard = Stamp(0, 0, 0, 0)
    courses = Courses(CommandMetrics(CollectorRegistry()), NoTracer())
    course = courses.begin(heard, match_id="", player_id="", request_id="", decision_id=0, kind="draw")
    return Asked(Draw(seat), f"r{number}", b"", 1, heard, lambda _answer: None, course)


async def test_the_commands_of_one_seat_are_not_in_the_way_of_the_others() -> None:
    """Who fills the line while the room is busy would have the commands of the other player refused, on their time."""
    inbox = Inbox()
    for number in range(COMMANDS_MAX):
        assert not inbox.full(NORTH)
        inbox.post(asked(NORTH, number))
    inbox.post(LogLost("a message of no seat"))
    assert (inbox.full(NORTH), inbox.full(SOUTH)) == (True, False)
    inbox.pop()
    assert not inbox.full(NORTH)
    assert len(inbox.drain()) == COMMANDS_MAX - 1
    for number in range(COMMANDS_MAX):
        assert not inbox.full(NORTH)
        inbox.post(asked(NORTH, number))
