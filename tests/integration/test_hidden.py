"""Hidden means hidden: everything that leaves real processes is searched for tiles its receiver may not know."""

from __future__ import annotations

import asyncio
import random
import urllib.request
from collections import Counter

import pytest

from engine.command import Draw
from engine.event import TileDrawn
from engine.seats import NORTH, SEATS, SOUTH, BySeat, Seat
from engine.tiles import DOUBLE_SIX, tile_set
from services.game.shuffle import Seeds
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import table_pb2
from tests.engine.tables import deal, play
from tests.hidden import tiles_in
from tests.seats import Sitting, Table, Watching, scripted
from tests.stack import Player, Stack

pytestmark = pytest.mark.asyncio(loop_scope="session")

AT_ONCE = 25


class Heard:
    """Everything both seats and a spectator of one match received."""

    def __init__(self, match_id: str) -> None:
        self.match_id = match_id
        self.news: dict[Seat | None, list[pb.WatchResponse]] = {NORTH: [], SOUTH: [], None: []}
        self.answers: list[bytes] = []


async def one_match(made: Stack, players: BySeat[Player], spectator: Player, rng: random.Random) -> Heard:
    """A match of two random players from balances near the end until one has lost or had enough, listened to by all."""
    points = 5 * rng.randrange(1, 5)
    balances = rng.choice([(points, 300 - points), (300 - points, points)])
    match_id = await made.create(
        players,
        balances=table_pb2.Balances(north=balances[0], south=balances[1]),
        jockey=rng.choice([table_pb2.SEAT_UNSPECIFIED, table_pb2.SEAT_NORTH, table_pb2.SEAT_SOUTH]),
    )
    heard = Heard(match_id)
    stub = made.matches()
    sittings = {
        seat: Sitting(stub, players[seat].metadata, match_id, rng, patience=rng.randrange(5, 25))
        for seat in SEATS
    }
    watching = Watching(stub, spectator.metadata, match_id)
    async with asyncio.TaskGroup() as group:
        group.create_task(watching.to_the_end())
        for sitting in sittings.values():
            group.create_task(sitting.play())
    for seat, sitting in sittings.items():
        heard.news[seat] = sitting.news
        heard.answers += [
            answer.SerializeToString() for answers in sitting.answers.values() for answer in answers
        ]
    heard.news[None] = watching.responses
    for viewer, player in ((NORTH, players.north), (SOUTH, players.south), (None, spectator)):
        answer = await stub.GetMatch(pb.GetMatchRequest(match_id=match_id), metadata=player.metadata)
        heard.news[viewer].append(pb.WatchResponse(snapshot=answer.snapshot))
    return heard


def page(url: str) -> bytes:
    """What a web page says."""
    with urllib.request.urlopen(url) as answer:  # noqa: S310 - our own
        text: bytes = answer.read()
    return text


@pytest.mark.parametrize("matches", [40, pytest.param(120, marks=pytest.mark.long)])
async def test_no_stream_holds_a_tile_its_receiver_may_not_know(shared: Stack, matches: int) -> None:
    """Many matches, both seats and a spectator of each: every field of every message, the answers, all logs and all
    metrics. The truth is the match log in PostgreSQL."""
    rng = random.Random(2)
    seated = await shared.players(2 * matches)
    room = asyncio.Semaphore(AT_ONCE)

    async def listened(number: int) -> Heard:
        async with room:
            players = BySeat(seated[2 * number], seated[2 * number + 1])
            return await one_match(shared, players, shared.spectator(), random.Random(rng.random()))

    everything = await asyncio.gather(*map(listened, range(matches)))
    metrics = b""
    for name in shared.processes:
        address = await shared.metrics_address(name)
        metrics += await asyncio.to_thread(page, f"http://{address}/metrics")
    public = shared.logs() + metrics
    assert b"spectacular_bid_refusals_total" in metrics
    kinds: Counter[str] = Counter()
    for heard in everything:
        truth = await shared.truth(heard.match_id)
        assert truth.states[-1].outcome is not None
        # What the deals were drawn from, and the deal after the last one would have been.
        key = "select seed from match_seed where match_id = $1"
        secret = bytes(await shared.pool.fetchval(key, heard.match_id))
        truth.salts += [secret, Seeds(heard.match_id, secret).of(truth.states[-1].round_no + 1)]
        for seat, responses in heard.news.items():
            assert truth.leaks(responses, seat) == []
            numbers = [event.sequence for response in responses for event in response.events]
            first = responses[0].snapshot.sequence + 1
            assert numbers == list(range(first, len(truth.events) + 1))
            kinds.update(str(event.WhichOneof("kind")) for response in responses for event in response.events)
        assert truth.secrets(b"\0".join(heard.answers) + public) == []
    assert kinds["hand_dealt"] >= 3 * matches
    assert kinds["tile_drawn"] > matches
    assert kinds["opening_won"] > 0


async def test_fc_53_drawn_tiles_are_counted_for_the_other_seat_and_not_named(shared: Stack) -> None:
    """FC-53: north draws three tiles before it can play; south hears three times of a draw, with the new counts, and of the
    tile that is placed, and of no other."""
    # South opens with 6|6; nothing north holds or draws fits, until 0|6.
    dealt = deal("0|0 0|1 0|2 1|1 1|2 2|2 0|3", "6|6 5|5", "1|3 2|3 3|3 0|6")
    table = await Table.create(shared, deals=scripted(dealt))
    watching = {seat: await table.events(seat) for seat in SEATS}
    await table.do(play(SOUTH, "6|6"))
    for _ in range(4):
        await table.do(Draw(NORTH))
    await table.do(play(NORTH, "0|6", "6|6 line_a"))
    for seat, stream in watching.items():
        await stream.until(
            lambda message: any(e.HasField("tile_placed") and e.tile_placed.seat == 1 for e in message.events)
        )
        events = [event for message in stream.responses for event in message.events]
        drawn = [event.tile_drawn for event in events if event.HasField("tile_drawn")]
        assert [draw.boneyard for draw in drawn] == [13, 12, 11, 10]
        assert all(draw.HasField("tile") is (seat is NORTH) for draw in drawn)
        stream.call.cancel()
    heard = 0
    for message in watching[SOUTH].responses:
        heard |= tiles_in(message)
    assert heard == tile_set(dealt.south) | play(NORTH, "0|6").tile.bit
    assert (await table.view(SOUTH)).north_tiles == 10
    truth = await shared.truth(table.match_id)
    assert sum(isinstance(event, TileDrawn) for event in truth.events) == 4


async def test_a_hand_is_sorted_whatever_the_order_of_the_deal(shared: Stack) -> None:
    """FC-55: own-hand order says nothing about the order of the deal."""
    table = await Table.create(
        shared,
        deals=[
            pb.ScriptedDeal(
                tiles=[table_pb2.Tile(low=tile.low, high=tile.high) for tile in reversed(DOUBLE_SIX)]
            )
        ],
    )
    hand = [(tile.low, tile.high) for tile in (await table.view(NORTH)).hand]
    assert hand == sorted(hand)
