"""What players read of the ladder: marks, neighbours, pages while it changes, and how long matches were."""

from __future__ import annotations

import grpc
import pytest

from matchmaker.rating import PROVISIONAL_SIGMA
from spectacularbid.ladder.v1 import ladder_service_pb2 as pb
from spectacularbid.match.v1 import table_pb2
from tests.services.matchmaking.house import House, Player, reason
from tests.services.matchmaking.test_ladder import decided, ended_match, standing


async def seed(house: House, name: str, shown: int, *, sigma: float = 50.0, rated_matches: int = 3) -> None:
    await house.pool.execute(
        "insert into player (player_id, name) values ($1, $2) on conflict do nothing", f"player-{name}", name
    )
    await house.pool.execute(
        """
        insert into rating values ($1, $2, $3, $4, $5, 0)
        on conflict (player_id) do update set mu = $2, sigma = $3, shown = $4
        """,
        *(f"player-{name}", shown + 2 * sigma, sigma, shown, rated_matches),
    )


async def around(reader: Player, name: str = "", each_way: int = 0) -> tuple[list[tuple[int, str]], int]:
    request = pb.GetNeighbourhoodRequest(player_id=f"player-{name}" if name else "", each_way=each_way)
    found = await reader.ladder.GetNeighbourhood(request, metadata=reader.metadata)
    return [(each.rank, each.player.name) for each in found.standings], found.ranked_players


async def test_a_standing_is_provisional_until_the_uncertainty_is_down_and_ranked_all_the_same(
    house: House,
) -> None:
    await house.start()
    reader = house.player("reader")
    assert (await standing(reader)).provisional
    await seed(house, "ann", 1500, sigma=PROVISIONAL_SIGMA + 0.001)
    await seed(house, "ben", 1400, sigma=PROVISIONAL_SIGMA)
    page = await reader.ladder.GetLeaderboard(pb.GetLeaderboardRequest(), metadata=reader.metadata)
    assert [(each.rank, each.player.name, each.provisional) for each in page.standings] == [
        (1, "ann", True),
        (2, "ben", False),
    ]


async def test_a_player_stands_between_those_just_better_and_just_worse(house: House) -> None:
    """With the ranks of the whole ladder (FC-50), at its ends and inside of ties too."""
    await house.start()
    reader = house.player("reader")
    assert await around(reader) == ([], 0)
    for name, shown in (("a", 1600), ("b", 1550), ("c", 1550), ("d", 1550), ("e", 1500), ("f", 1400)):
        await seed(house, name, shown)
    await seed(house, "out", 1550, rated_matches=0)
    whole = [(1, "a"), (2, "b"), (2, "c"), (2, "d"), (5, "e"), (6, "f")]
    for each_way in (1, 2, 3, 50):
        for place, (_, name) in enumerate(whole):
            expected = whole[max(0, place - each_way) : place + each_way + 1]
            assert await around(reader, name, each_way) == (expected, 6), (name, each_way)
    assert await around(house.player("c"), each_way=1) == ([(2, "b"), (2, "c"), (2, "d")], 6)
    assert await around(reader, "out") == ([], 6), "without a rated match there is no place"


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("request_", "refused"),
    [
        (pb.GetNeighbourhoodRequest(each_way=-1), (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED")),
        (pb.GetNeighbourhoodRequest(each_way=51), (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED")),
        (pb.GetNeighbourhoodRequest(player_id="nobody"), (grpc.StatusCode.NOT_FOUND, "PLAYER_NOT_FOUND")),
    ],
    ids=["negative", "too many", "nobody"],
)
async def test_a_neighbourhood_that_makes_no_sense_is_refused(
    unchanged_house: House, request_: pb.GetNeighbourhoodRequest, refused: tuple[grpc.StatusCode, str]
) -> None:
    me = unchanged_house.player("me")
    with pytest.raises(grpc.RpcError) as error:
        await me.ladder.GetNeighbourhood(request_, metadata=me.metadata)
    assert reason(error.value)[:2] == refused


async def test_who_stays_is_on_exactly_one_page_while_others_move_between_the_calls(house: House) -> None:
    await house.start()
    reader = house.player("reader")
    stay = [f"p{number:02}" for number in range(12)]
    for number, name in enumerate(stay):
        await seed(house, name, 1500 - 10 * (number // 3))
    await seed(house, "riser", 1000)
    await seed(house, "faller", 1499)
    token, seen, ranks = "", [], []
    for turn in range(100):
        request = pb.GetLeaderboardRequest(page_size=2, page_token=token)
        page = await reader.ladder.GetLeaderboard(request, metadata=reader.metadata)
        seen += [each.player.name for each in page.standings]
        ranks += [each.rank for each in page.standings]
        token = page.next_page_token
        if not token:
            break
        # Somebody new at the top, one who climbs past the reader, one who falls, and the last one of the page goes.
        await seed(house, f"new{turn}", 2000 + turn)
        await seed(house, "riser", 1600)
        await seed(house, "faller", 1000)
        await house.pool.execute(
            "delete from rating where player_id = $1 and $2", page.standings[-1].player.player_id, turn == 1
        )
    assert [name for name in seen if name in stay] == stay
    assert "riser" not in seen, "she was below when those above were read, and above when those below were"
    assert ranks == sorted(ranks), "ranks never go back, as newcomers only push down"


async def test_history_says_how_long_a_match_was_and_how_it_counted(house: House) -> None:
    played = await ended_match(house, "ann", "ben")
    never = await ended_match(house, "ann", "ben", None, "cancelled")
    void = await ended_match(house, "ann", "carl", None, "void")
    await house.pool.executemany(
        """
        insert into match_log (match_id, revision, first_sequence, last_sequence, fence, events, turn, at)
        select match_id, $2::bigint, 2 * $2::bigint - 1, 2 * $2::bigint - 2 + jsonb_array_length($3), 1, $3, $4,
               ended_at - make_interval(secs => $5)
        from match_outcome where match_id = $1
        """,
        [
            (played, 1, '[{"type": "seat_started"}]', None, 100),
            (played, 2, '[{"type": "seat_started"}, {"type": "round_dealt", "round_no": 1}]', None, 61.5),
            (played, 3, '[{"type": "tile_placed"}]', 1, 40),
            (played, 4, '[{"type": "tile_placed"}, {"type": "round_dealt", "round_no": 2}]', 2, 30),
            (played, 5, '[{"type": "match_ended"}]', None, 0),
            (void, 1, '[{"type": "seat_started"}]', None, 10),
        ],
    )
    await house.start()
    reader = house.player("reader")
    await decided(house, played, never, void)
    request = pb.ListMatchesRequest(player_id="player-ann")
    page = await reader.ladder.ListMatches(request, metadata=reader.metadata)
    assert [
        (each.match_id, each.played_ms, each.rounds, each.turns, each.outcome.cause, each.decision.reason)
        for each in page.matches
    ] == [
        (void, 0, 0, 0, table_pb2.CAUSE_VOID, "void"),
        (never, 0, 0, 0, table_pb2.CAUSE_CANCELLED, "cancelled"),
        (played, 61_500, 2, 2, table_pb2.CAUSE_RESIGNATION, "rated"),
    ]
    assert page.matches[2].south.name == "ben"
    after, before = page.matches[2].decision.north_after, page.matches[2].decision.north_before
    assert after.mu > before.mu
