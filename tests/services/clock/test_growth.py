"""What a clock keeps, and looks at, grows with its matches alone, not with what is said in them."""

from __future__ import annotations

from engine.clock import BANK, DELAY, SECOND
from engine.seats import SOUTH
from services.wire import clock_messages as m
from tests.services.clock.desk import Desk, arrival, only

MATCHES = 20


def played(desk: Desk, turns: int) -> list[m.Open]:
    """Matches in which so many decisions were answered at once; what is open in them then."""
    opened = [desk.opened(match_id=f"m{number}") for number in range(MATCHES)]
    for each in opened:
        desk.say(each)
    for turn in range(2, turns + 2):
        for number, each in enumerate(opened):
            desk.say(arrival(each, desk.now))
            desk.say(m.Applied(each.key, "c1", turn))
            opened[number] = desk.opened(turn, match_id=each.key.match_id)
            desk.say(opened[number])
        desk.advance(SECOND)
    return opened


def test_a_command_leaves_nothing_in_the_heap() -> None:
    """A time that is put off waits for the entry that is there; only one that is sooner gets one of its own."""
    desk = Desk()
    desk.attach()
    played(desk, 30)
    assert len(desk.keeper._heap) <= 2 * MATCHES + 1


def test_a_time_that_was_put_off_is_kept_to_the_nanosecond() -> None:
    desk = Desk()
    desk.attach()
    opened = played(desk, 5)
    desk.advance(opened[0].start_ns + DELAY + BANK - desk.now - 1)
    assert not [message for _, message in desk.told if isinstance(message, m.Probe)]
    assert len([message for message in desk.advance(1) if isinstance(message, m.Probe)]) == MATCHES


def test_a_time_that_comes_sooner_is_not_missed() -> None:
    """A verdict is waited for longer than a probe that comes after it."""
    desk = Desk()
    desk.attach()
    desk.say(first := desk.opened(bank=100 * SECOND))
    desk.say(arrival(first, desk.now))
    desk.say(desk.opened(2, seat=SOUTH, bank=0))
    assert only(m.Probe, desk.advance(DELAY)).key.decision_no == 2
