"""Start, Continue and their limits, and the ends that a player brings about (rules 6.5, 7.1 to 7.3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from client.errors import CallError
from client.session import CASUAL, RATED
from engine.command import Bid, Command, Continue, Draw, Resign, Start
from engine.seats import NORTH, SEATS, SOUTH, BySeat, Seat
from spectacularbid.ladder.v1 import ladder_service_pb2, ladder_service_pb2_grpc
from spectacularbid.match.v1 import table_pb2
from spectacularbid.matchmaking.v1.matchmaking_service_pb2 import Pool
from tests.engine.tables import deal, play
from tests.integration.rounds import find_round
from tests.seats import Table, ends, eventually, scripted
from tests.stack import Player, Stack, time_control

pytestmark = pytest.mark.asyncio(loop_scope="session")

# Nobody can blame a test for the limits of a busy machine: what is compared was stored by the service.


async def at(made: Stack, match_id: str, what: str) -> float:
    """When the log tells of something for the first time, in seconds since 1970."""
    seconds: float = await made.pool.fetchval(
        """
        select extract(epoch from min(at))::float8 from match_log
        where match_id = $1 and events @> jsonb_build_array(jsonb_build_object('type', $2::text))
        """,
        match_id,
        what,
    )
    return seconds


async def test_nothing_is_dealt_before_both_have_pressed_start(shared: Stack) -> None:
    """Rule 7.1: no tile is shown, no clock runs, until the last has pressed; Start is pressed once."""
    table = await Table.create(shared, start=False)
    await table.do(Start(SOUTH))
    for seat in SEATS:
        view = await table.view(seat)
        assert not view.hand
        assert (view.round, view.prompt.clock.running) == (0, table_pb2.SEAT_UNSPECIFIED)
        assert list(view.pressed) == [table_pb2.SEAT_SOUTH]
        assert view.prompt.legal.start is (seat is NORTH)
    assert (await table.refused(Start(SOUTH))).reason == "ALREADY_PRESSED"
    await table.do(Start(NORTH))
    for seat in SEATS:
        view = await table.view(seat)
        assert len(view.hand) == 7
        assert view.commitment
        assert view.prompt.clock.running == view.prompt.to_act != table_pb2.SEAT_UNSPECIFIED


@pytest.mark.parametrize("shown_up", [(), (NORTH,), (SOUTH,)])
async def test_who_does_not_press_start_has_not_shown_up(shared: Stack, shown_up: tuple[Seat, ...]) -> None:
    """Rule 7.2: the match is cancelled, without a winner; both are free for another match. A match that somebody else
    proposed leaves no mark against anybody."""
    table = await Table.create(shared, start=False, start_limit_ms=300)
    for seat in shown_up:
        await table.do(Start(seat))
    responses = await table.until_over()
    assert ends(responses[-1])
    view = await table.view(NORTH)
    absent = " ".join(seat.value for seat in SEATS if seat not in shown_up)
    assert view.outcome == table_pb2.Outcome(cause=table_pb2.CAUSE_CANCELLED, detail=absent)
    outcome = await shared.outcome(table.match_id)
    assert outcome is not None
    assert (outcome["winner"], outcome["cause"], outcome["detail"]) == (None, "cancelled", absent)
    assert await shared.pool.fetchval("select count(*) from no_show where match_id = $1", table.match_id) == 0
    assert (await table.refused(Start(NORTH))).reason == "MATCH_OVER"
    await shared.create(table.players)


async def test_the_first_press_does_not_prolong_the_start_limit(shared: Stack) -> None:
    """Rule 7.2: one limit for both seats. South presses late; north has what is left of the limit, not a new one."""
    limit = 4.0
    table = await Table.create(shared, start=False, start_limit_ms=int(limit * 1000))
    await asyncio.sleep(0.75 * limit)  # what is tested is time itself
    await table.do(Start(SOUTH))
    await table.until_over()
    started, ended = [await at(shared, table.match_id, what) for what in ("started", "match_ended")]
    assert ended - started < limit


@pytest.mark.parametrize("pool", [RATED, CASUAL])
async def test_a_no_show_is_recorded_when_the_ladder_had_called(own: Stack, pool: Pool.ValueType) -> None:
    """Rule 7.2, in matches of matchmaking: the no-show is recorded against the seat; the match is not rated."""
    async with hurried(own):
        table = await called(own, pool)
        await table.do(Start(SOUTH))
        await table.until_over()
    rows = await own.pool.fetch("select player_id from no_show where match_id = $1", table.match_id)
    assert [row["player_id"] for row in rows] == [table.players.north.player_id]
    assert await refusal_of_a_seek(own, table.players.north) == "SEEK_COOLDOWN"
    assert await refusal_of_a_seek(own, table.players.south) is None
    ladder = ladder_service_pb2_grpc.LadderServiceStub(own.channel("matchmaking"))

    async def decided() -> bool:
        return bool(
            await own.pool.fetchval(
                "select count(*) from rating_decision where match_id = $1", table.match_id
            )
        )

    await eventually(decided)
    answer = await ladder.GetRatingDecision(
        ladder_service_pb2.GetRatingDecisionRequest(match_id=table.match_id),
        metadata=table.players.south.metadata,
    )
    assert not answer.decision.rated
    ids = [player.player_id for player in table.players]
    assert await own.pool.fetchval("select count(*) from rating where player_id = any($1)", ids) == 0


async def test_nobody_is_blamed_for_a_match_whose_process_was_gone(own: Stack) -> None:
    """The game process dies while both are awaited: the match is cancelled after its limit, and no no-show is recorded."""
    async with hurried(own):
        table = await called(own, RATED)
        own.processes["game"].kill()
        await own.start("game")
        await table.until_over()
    outcome = await own.outcome(table.match_id)
    assert outcome is not None
    assert (outcome["cause"], outcome["detail"]) == ("cancelled", "north south")
    assert await own.pool.fetchval("select count(*) from no_show where match_id = $1", table.match_id) == 0
    for player in table.players:
        assert await refusal_of_a_seek(own, player) is None


async def test_nobody_is_blamed_while_nobody_could_say_where_the_match_is(own: Stack) -> None:
    """The leader of matchmaking dies as the two are called, and the match is cancelled before another one leads."""
    async with hurried(own):
        table = await called(own, RATED)
        own.processes["matchmaking"].kill()
        await table.until_over()
        await own.start("matchmaking")
    for player in table.players:
        assert await refusal_of_a_seek(own, player) is None


@asynccontextmanager
async def hurried(made: Stack) -> AsyncIterator[None]:
    """Matches of matchmaking have another limit for Start, which is a minute in every configuration."""
    await made.pool.execute(
        """
        create function hurry() returns trigger language plpgsql as $$
        begin new.start_limit_ns := 2500000000; return new; end $$;
        create trigger hurry before insert on match for each row execute function hurry()
        """
    )
    try:
        yield
    finally:
        await made.pool.execute("drop function hurry cascade")


async def called(made: Stack, pool: Pool.ValueType) -> Table:
    """A match that matchmaking has called two players to."""
    players = await made.players(2)
    clients = [await made.client(player) for player in players]
    handles = await asyncio.gather(*(client.seek(pool) for client in clients))
    by_seat = {handle.seat: player for handle, player in zip(handles, players, strict=True)}
    return Table(made, handles[0].match_id, BySeat(by_seat[NORTH], by_seat[SOUTH]))


async def refusal_of_a_seek(made: Stack, player: Player) -> str | None:
    """Why the player may not seek; None when she waits. The seek is cancelled."""
    client = await made.client(player)
    waits = asyncio.Event()
    seeking = asyncio.create_task(client.seek(waiting=lambda _: waits.set()))
    waiting = asyncio.create_task(waits.wait())
    await asyncio.wait({seeking, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if not seeking.done():
        await client.cancel_seek()
    with pytest.raises(CallError) as error:
        await seeking
    return None if error.value.reason == "SEEK_CANCELLED" else error.value.reason


# Between rounds.

ROUND, COURSE = find_round(lambda events, _: type(events[-1]).__name__ in ("RoundWentOut",), 5)


async def settled(made: Stack, **wanted: Any) -> Table:
    """A match whose first round has ended by going out."""
    table = await Table.create(made, deals=scripted(ROUND), **wanted)
    for command in COURSE:
        await table.do(command)
    assert (await table.view(NORTH)).prompt.phase == table_pb2.PHASE_SETTLED
    return table


def banks(view: table_pb2.Table) -> tuple[int, int]:
    """Both banks."""
    return view.prompt.clock.north_bank_ms, view.prompt.clock.south_bank_ms


async def test_continue_is_pressed_by_both_and_costs_nobody_time(shared: Stack) -> None:
    """Rules 6.5, 7.1 and FC-09, first part: no clock runs between rounds; repeated Continue is harmless; reloads start, stop
    and refill nothing."""
    table = await settled(shared)
    before = banks(await table.view(NORTH))
    await table.do(Continue(NORTH))
    for _ in range(2):
        assert (await table.refused(Continue(NORTH))).reason == "ALREADY_PRESSED"
    for _ in range(2):
        reload = await table.events(SOUTH)
        await reload.read()
        reload.call.cancel()
    view = await table.view(SOUTH)
    assert view.round == 1
    assert view.prompt.clock.running == table_pb2.SEAT_UNSPECIFIED
    assert (await shared.state(table.match_id)).round_no == 1
    await table.do(Continue(SOUTH))
    view = await table.view(SOUTH)
    assert (view.round, view.prompt.kind) == (2, table_pb2.DECISION_KIND_BID)
    assert banks(view) == before


async def test_nobody_presses_continue_and_the_limit_does(shared: Stack) -> None:
    """Rule 7.2, scenario 7 and FC-09, second part: who has not pressed is taken to have pressed; banks are as before."""
    table = await settled(shared, continue_limit_ms=200)
    before = banks(await table.view(NORTH))
    watching = await table.events(SOUTH)
    await watching.until(
        lambda message: (
            message.snapshot.table.round == 2
            or any(event.HasField("hand_dealt") and event.hand_dealt.round == 2 for event in message.events)
        )
    )
    watching.call.cancel()
    continued = [
        event for event in await shared.events(table.match_id) if type(event).__name__ == "Continued"
    ]
    assert [event.seat for event in continued] == list(SEATS)  # type: ignore[union-attr]
    assert banks(await table.view(SOUTH)) == before
    log = await shared.pool.fetch(
        "select seat, request_id from match_log where match_id = $1 order by revision desc limit 1",
        table.match_id,
    )
    assert dict(log[0]) == {"seat": None, "request_id": None}


# Resignation.


@pytest.mark.parametrize("seat", SEATS)
async def test_either_seat_may_resign_whoever_is_on_the_move(shared: Stack, seat: Seat) -> None:
    """Rule 7.3: also the seat whose turn it is not; the other seat wins; points stay where they are; no decision id is needed."""
    table = await Table.create(shared, deals=scripted(deal("6|6 1|2", "0|6 0|1")))
    await table.send(seat, table.request(Resign(seat), 0))
    view = await table.view(seat.opponent)
    assert view.outcome.cause == table_pb2.CAUSE_RESIGNATION
    assert view.outcome.winner == (table_pb2.SEAT_SOUTH if seat is NORTH else table_pb2.SEAT_NORTH)
    assert (view.balances.north, view.balances.south) == (150, 150)
    assert view.prompt.legal == table_pb2.Legal()
    outcome = await shared.outcome(table.match_id)
    assert outcome is not None
    assert (outcome["cause"], outcome["winner"]) == ("resignation", seat.opponent.value)


@pytest.mark.parametrize(
    "before",
    [[Bid(SOUTH, 15)], [], None],
    ids=["standing bid", "auction", "between rounds"],
)
async def test_one_may_resign_at_any_time_after_start(shared: Stack, before: list[Command] | None) -> None:
    """Rule 7.3: in an auction, with a standing bid, between rounds."""
    if before is None:
        table = await settled(shared)
    else:
        table = await Table.create(shared, jockey=table_pb2.SEAT_NORTH)
        for command in before:
            await table.do(command)
    await table.do(Resign(SOUTH))
    assert (await table.view(NORTH)).outcome.winner == table_pb2.SEAT_NORTH


async def test_nobody_resigns_before_start(shared: Stack) -> None:
    """Rule 7.3: nothing is won or lost by it. Who leaves a match that one of the two has made cancels it for both."""
    for leaver in (NORTH, SOUTH):
        table = await Table.create(shared, start=False)
        await table.do(Start(leaver.opponent))
        await table.do(Resign(leaver))
        outcome = await shared.outcome(table.match_id)
        assert outcome is not None
        assert (outcome["cause"], outcome["winner"], outcome["detail"]) == ("cancelled", None, leaver.value)
        assert (
            await shared.pool.fetchval("select count(*) from no_show where match_id = $1", table.match_id)
            == 0
        )
        assert await shared.create(table.players)


async def test_a_resignation_frees_both_players(shared: Stack) -> None:
    """One live match a player, and none after its end."""
    table = await Table.create(shared)
    await table.do(Resign(NORTH))
    assert await shared.create(BySeat(table.players.south, table.players.north))


# The clock, as far as every player meets it; tests/services/clock has the rest.


async def test_time_runs_out_in_each_kind_of_turn(shared: Stack) -> None:
    """FC-13 over gRPC: an auction's first word, the answer to a bid, a free and a forced opening, an ordinary turn, a drawn tile that
    waits to be placed, and a forced pass all end in a forfeit with proof, tiles and points unmoved."""
    passes, course = find_round(lambda _, states: any(state.passes for state in states), 1)
    before_pass = course[: next(n for n, command in enumerate(course) if type(command).__name__ == "Pass")]
    drawing = deal("0|0 0|1 0|2 1|1 1|2 2|2 0|3", "6|6 5|5", "1|3 0|6")
    auction: dict[str, Any] = {"jockey": table_pb2.SEAT_NORTH}
    forced: dict[str, Any] = {"deals": scripted(deal("6|6 1|2", "0|6 0|1"))}
    positions: list[tuple[Seat, dict[str, Any], list[Command]]] = [
        (SOUTH, auction, []),
        (NORTH, auction, [Bid(SOUTH, 15)]),
        (NORTH, forced, []),
        (SOUTH, forced, [play(NORTH, "6|6")]),
        (NORTH, {"deals": scripted(drawing)}, [play(SOUTH, "6|6"), Draw(NORTH), Draw(NORTH)]),
        (course[len(before_pass)].seat, {"deals": scripted(passes)}, before_pass),
    ]

    async def run_out(loser: Seat, wanted: dict[str, Any], commands: list[Command]) -> None:
        control = time_control(500, 1500)
        table = await Table.create(shared, time_control=control, **wanted)
        for command in commands:
            await table.do(command)
        await table.until_over()
        outcome = await shared.outcome(table.match_id)
        assert outcome is not None
        assert (outcome["cause"], outcome["winner"]) == ("time", loser.opponent.value)
        evidence = await shared.evidence(table.match_id)
        assert evidence["detail"]["proof_ns"] >= evidence["detail"]["deadline_ns"]
        truth = await shared.truth(table.match_id)
        before, after = truth.states[-3], truth.states[-1]
        assert after.banks[loser] == 0
        assert (after.balances, after.hands, after.boneyard) == (
            before.balances,
            before.hands,
            before.boneyard,
        )
        assert after.banks[loser.opponent] == before.banks[loser.opponent]

    await asyncio.gather(*(run_out(*position) for position in positions))
