"""The limits that the pages name are those of the code."""

from __future__ import annotations

from client.match import HEARTBEAT_SECONDS_MAX
from engine.rules.book import TAG_LENGTH_MAX
from services.common import auth, guard, limits, outlet
from services.common.allowance import Rate
from services.common.settings import CommonSettings
from services.game import creation, inbox, rpc, story
from services.game.settings import GameSettings
from services.matchmaking.settings import MatchmakingSettings
from services.storage import seeks
from services.wire import ladder, matchmaking
from tests.test_docs import API, shown_default, table, text


def _rate(rate: Rate) -> str:
    return f"{rate.at_once:g} at once, then {rate.per_second:g} a second"


def test_the_limits_are_those_of_the_code() -> None:
    assert ladder.PAGE_SIZE == rpc.PAGE_SIZE
    assert ladder.PAGE_SIZE_MAX == rpc.PAGE_SIZE_MAX
    policy = limits.Policy()
    expected = {
        "request message, unpacked": f"{guard.MESSAGE_BYTES_MAX // 1024} KiB",
        "metadata of a call": f"{guard.METADATA_BYTES_MAX // 1024} KiB",
        "first message of a call": f"{guard.FIRST_MESSAGE_SECONDS:g} s",
        "message of a stream that its client does not take": f"{outlet.WRITE_SECONDS:g} s",
        "calls and commands of an address on one process": f"{_rate(policy.address_calls)}; a call that is not"
        f" answered from memory, and a stream, counts as {limits.DEAR_COST:g}",
        "calls of an address under way on one process": shown_default(CommonSettings, "address_open_calls"),
        "calls under way on one process": shown_default(CommonSettings, "open_calls"),
        "new guests of an address": _rate(policy.address_guests),
        "new guests of one process": _rate(policy.guests),
        "token": f"{auth.TOKEN_LENGTH_MAX} characters",
        "calls at once on one connection": shown_default(CommonSettings, "connection_calls"),
        "streams of a player on one process": shown_default(CommonSettings, "streams_per_player"),
        "calls and commands of a player on one process": f"{_rate(policy.player_calls)}; a stream, or a call that"
        f" the database must answer, counts as {limits.DEAR_COST:g}",
        "commands of one seat waiting for their turn": f"{inbox.COMMANDS_MAX}",
        "open seeks": shown_default(MatchmakingSettings, "seeks_max"),
        "`blocked_player_ids`": f"{matchmaking.BLOCKED_MAX}",
        "a seek remembered after its stream was lost": f"{seeks.MEMORY.total_seconds():g} s",
        "page": f"1 to {rpc.PAGE_SIZE_MAX}, {rpc.PAGE_SIZE} by default",
        "events kept for resuming": f"{story.HISTORY_MAX}",
        "`time_control.bank_ms`": f"0 to {creation.BANK_MS_MAX}",
        "`time_control.delay_ms`": f"1 to {creation.DELAY_MS_MAX}",
        "`start_limit_ms`, `continue_limit_ms`": f"1 to {creation.LIMIT_MS_MAX}",
        "scripted deals": f"{creation.DEALS_MAX}",
        "`GetRules.language`": f"a language tag of at most {TAG_LENGTH_MAX} characters",
    }
    said = {what: limit for what, limit, _ in table(API, "Limits")}
    assert {what: said.get(what) for what in expected} == expected
    prose = " ".join(text(API).split())
    assert f"more than {story.HISTORY_MAX} events" in prose
    assert f"quiet for {shown_default(GameSettings, 'heartbeat_seconds')} s" in prose
    assert f"After {HEARTBEAT_SECONDS_MAX:g} s without" in prose
    assert f"`Submit` waits {shown_default(GameSettings, 'answer_wait_seconds')} s" in prose
