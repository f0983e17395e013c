"""What the outage view calls wrong, and what it does not."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from rich.console import Console

from services.ops.outage import Look, Verdict, judge
from services.ops.pages import Page, Seen, target_of
from services.ops.statusview import as_json, picture
from services.storage.incidents import Incident, Kind
from services.storage.overview import LeaderSeen, LeaseSeen, Overview, PoolSeen, RatingSeen, Server, VoidSeen

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)

OVERVIEW = Overview(
    at=NOW,
    server=Server("18.6", in_recovery=False, replicas=(), connections=9, connections_max=100),
    leader=LeaderSeen("a-leader", 0.4, left=False),
    leases=(LeaseSeen("game-0", "i-1", "10.0.0.1:7601", 0.5, holds=True, matches=3, leaving=0),),
    pools=(PoolSeen("rated", "open", "", "", None, "", 2, 3.5),),
    open_incidents=(),
    recent_incidents={"stall": 2},
    voids=(),
    recent_voids={},
    rating=RatingSeen(0, 0.0, 0),
)


def process(
    role: str, *lines: str, ready: bool = True, missing: tuple[str, ...] = (), name: str = ""
) -> Seen:
    """A process of that kind with these lines on its page."""
    own = {
        "matchmaking": ("spectacular_bid_leading 1",),
        "game": (
            "spectacular_bid_lease_age_seconds 0.5",
            "spectacular_bid_game_clock_attached 1",
            'spectacular_bid_live_matches{phase="playing"} 3',
            'spectacular_bid_live_matches{phase="held"} 0',
        ),
        "clock": ("spectacular_bid_clock_sessions 1", "spectacular_bid_clock_matches 3"),
        "canary": (
            'spectacular_bid_canary_runs_total{result="ok"} 5',
            f"spectacular_bid_canary_last_success_timestamp_seconds {NOW.timestamp() - 20}",
        ),
    }[role]
    common = (
        f"spectacular_bid_ready {int(ready)}",
        *(f'spectacular_bid_readiness_condition{{condition="{each}"}} 0' for each in missing),
        f'spectacular_bid_process_info{{service="{role}",process="{name or role}"}} 1',
        'spectacular_bid_build_info{version="0.1.0"} 1',
        f"process_start_time_seconds {NOW.timestamp() - 7200}",
    )
    given = {line.partition(" ")[0] for line in lines}
    kept = [line for line in own if line.partition(" ")[0] not in given]
    page = Page.of("\n".join([*kept, *common, *lines]) + "\n")
    return Seen(target_of(f"{role}=10.0.0.1:7610"), "10.0.0.1:7610", page)


def gone(role: str) -> Seen:
    return Seen(target_of(f"{role}=10.0.0.9:7610"), "10.0.0.9:7610", None, "connection refused")


WELL = Look(NOW, (process("matchmaking"), process("game"), process("clock"), process("canary")), OVERVIEW)


def with_process(seen: Seen) -> Look:
    """All is well but for this process, which stands in the place of those of its kind."""
    return replace(WELL, processes=(*(each for each in WELL.processes if each.role != seen.role), seen))


def with_database(**changes: object) -> Look:
    return replace(WELL, overview=replace(OVERVIEW, **changes))  # type: ignore[arg-type]


def shown(look: Look) -> str:
    out = StringIO()
    Console(file=out, width=160).print(picture(look, judge(look)))
    return out.getvalue()


def test_all_is_well_when_everything_is_as_it_should_be() -> None:
    assert judge(WELL) == judge(WELL).__class__(Verdict.WELL, (), ())
    assert "all is well" in shown(WELL)


VOID = VoidSeen("m-1", "gap_too_long", 30.0, rated=True, canary=False)
DECLARED = Incident("i-1", Kind.OPERATOR, "operator/ada", NOW, None, "v1", reason="switch 3 is down")


@pytest.mark.parametrize(
    ("look", "words"),
    [
        (
            replace(
                WELL, processes=(*WELL.processes, Seen(target_of("10.0.0.3:80"), "10.0.0.3:80", Page({})))
            ),
            "process 10.0.0.3:80 is no process of this service",
        ),
        (with_process(gone("game")), "game 10.0.0.9:7610: connection refused"),
        (with_process(gone("clock")), "no clock process answers"),
        (with_process(process("game", ready=False, missing=("lease",))), "game game is not ready: lease"),
        (with_process(process("game", "spectacular_bid_game_clock_attached 0")), "has no clock"),
        (with_process(process("game", 'spectacular_bid_live_matches{phase="held"} 2')), "holds 2 matches"),
        (
            with_process(process("game", "spectacular_bid_verdict_mismatches_total 1")),
            "contradicted each other",
        ),
        (
            with_process(process("matchmaking", "spectacular_bid_leading 0", ready=False, missing=("lead",))),
            "nobody leads matchmaking",
        ),
        (replace(WELL, processes=(*WELL.processes, process("matchmaking"))), "several processes"),
        (with_process(process("canary", "spectacular_bid_canary_failed_in_a_row 2")), "2 failed in a row"),
        (
            with_process(
                process(
                    "canary",
                    f"spectacular_bid_canary_last_success_timestamp_seconds {NOW.timestamp() - 600}",
                )
            ),
            "the canary has not played a match for 10 min",
        ),
        (replace(WELL, overview=None, database_problem="does not answer"), "the database: does not answer"),
        (with_database(server=replace(OVERVIEW.server, in_recovery=True)), "in recovery"),
        (with_database(leader=LeaderSeen("a", 45.0, left=False)), "was last heard of 45 s ago"),
        (
            with_database(leases=(replace(OVERVIEW.leases[0], holds=False), OVERVIEW.leases[0])),
            "the lease of game-0 has run out, and 3 matches wait for an owner",
        ),
        (
            with_database(leases=(replace(OVERVIEW.leases[0], holds=False, matches=1, leaving=0),)),
            "and 1 match waits for an owner",
        ),
        (with_database(leases=()), "no game process holds a lease"),
        (with_database(open_incidents=(DECLARED,)), "open incident: operator, switch 3 is down (i-1)"),
        (with_database(voids=(VOID, VOID)), "a match was void 30 s ago: gap_too_long, and 1 more"),
        (with_database(rating=RatingSeen(7, 90.0, 0)), "7 matches without a rating decision"),
    ],
)
def test_what_is_wrong_is_said_first(look: Look, words: str) -> None:
    judgement = judge(look)
    assert judgement.verdict is Verdict.WRONG
    assert any(words in problem for problem in judgement.problems), judgement.problems
    top = shown(look).partition("what it does")[0]
    assert words in top


@pytest.mark.parametrize(
    ("look", "words"),
    [
        (
            with_process(
                process(
                    "game", "spectacular_bid_draining 1", ready=False, missing=("in_service",), name="game-7"
                )
            ),
            "game game-7 is drained by an operator",
        ),
        (with_database(rating=RatingSeen(0, 0.0, 4)), "4 results are held and wait for a person"),
        (with_database(rating=RatingSeen(0, 0.0, 1)), "1 result is held and waits for a person"),
        (
            with_database(pools=(PoolSeen("rated", "pause", "ada", "a reason", None, "", 0, 0.0),)),
            "pool rated: pause by ada: a reason",
        ),
    ],
)
def test_what_somebody_wants_is_noted_and_is_not_wrong(look: Look, words: str) -> None:
    judgement = judge(look)
    assert judgement.verdict is Verdict.WELL, judgement.problems
    assert judgement.notes == (words,)


@pytest.mark.parametrize(
    "look",
    [
        replace(
            WELL,
            processes=(
                *WELL.processes,
                process("matchmaking", "spectacular_bid_leading 0", ready=False, missing=("lead",)),
            ),
        ),
        with_database(voids=(replace(VOID, age_seconds=3600.0),)),
        with_database(rating=RatingSeen(3, 2.0, 0)),
        replace(WELL, processes=WELL.processes[:1], overview=None),
    ],
    ids=["a standby", "a void of an hour ago", "results of a moment ago", "who asks about one process only"],
)
def test_what_happens_every_day_is_not_wrong(look: Look) -> None:
    assert judge(look).problems == ()


def test_nothing_reached_is_told_apart_from_something_wrong() -> None:
    look = Look(NOW, (gone("game"), gone("clock")), None, "connection refused")
    assert judge(look).verdict is Verdict.UNREACHABLE
    assert "nothing can be reached" in shown(look)
    one_left = replace(look, processes=(*look.processes, process("game")))
    assert judge(one_left).verdict is Verdict.WRONG


def test_programs_are_told_the_same() -> None:
    look = with_database(
        open_incidents=(DECLARED,),
        leases=(replace(OVERVIEW.leases[0], age_seconds=float("inf")),),
        pools=(replace(OVERVIEW.pools[0], until=NOW + timedelta(hours=1)),),
    )
    told = json.loads(json.dumps(as_json(look, judge(look)), allow_nan=False))
    assert told["verdict"] == "wrong"
    assert len(told["problems"]) == 1
    assert {each["role"]: each["state"] for each in told["processes"]} == {
        "matchmaking": "leads",
        "game": "ready",
        "clock": "ready",
        "canary": "ready",
    }
    assert told["live_matches"] == {"playing": 3, "held": 0}
    assert told["database"]["leases"][0]["age_seconds"] is None
    assert told["database"]["open_incidents"][0]["reason"] == "switch 3 is down"
