"""The ladder and lists: decisions with before and after, pages that neither skip nor repeat."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any, Final

import grpc

from client.conformance.bench import expect_error, failure
from client.conformance.check import BrokenError, NotHereError, checks_of, expect
from client.conformance.table import Table
from client.errors import CallError
from engine.command import Resign
from engine.seats import NORTH, SOUTH, BySeat
from spectacularbid.ladder.v1 import ladder_service_pb2 as pb
from spectacularbid.match.v1 import match_service_pb2
from spectacularbid.matchmaking.v1 import matchmaking_service_pb2

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from client.conformance.bench import Bench, Guest

_MATCHES: Final = 3
_PAGES_MAX: Final = 200
_LOOKS: Final = 5
_DECISION_SECONDS_MAX: Final = 30.0


async def pages(
    call: Callable[[Any], Awaitable[Any]],
    request: Any,
    entries: str,
    between: Callable[[], Awaitable[object]] | None = None,
) -> list[Any]:
    """Everything a list has, page by page; `between` happens behind the first. Raises BrokenError when it has no end."""
    found: list[Any] = []
    tokens: set[str] = set()
    for _ in range(_PAGES_MAX):
        page = await call(request)
        found += getattr(page, entries)
        if not page.next_page_token:
            return found
        expect(page.next_page_token not in tokens, "a page token leads back to an earlier page")
        expect(len(getattr(page, entries)) == request.page_size, "a page that is not the last is not full")
        tokens.add(page.next_page_token)
        request.page_token = page.next_page_token
        if between is not None:
            await between()
            between = None
    raise BrokenError(f"no end after {_PAGES_MAX} pages")


async def finished(bench: Bench) -> tuple[Guest, list[str]]:
    """A guest with a few finished matches, oldest first."""
    guest = await bench.guest()
    matches = []
    for _ in range(_MATCHES):
        matches.append(await _one_more(bench, guest))  # noqa: PERF401  one after the other
    return guest, matches


async def _one_more(bench: Bench, guest: Guest) -> str:
    made = await bench.create(guest, same_device=True)
    await _resigned(bench, made.address, made.match_id, guest)
    return made.match_id


async def _resigned(bench: Bench, address: str, match_id: str, guest: Guest) -> None:
    table = Table(bench, match_id, address, BySeat(guest, guest), one_device=True)
    await table.start()
    await table.do(Resign(NORTH))


async def lists_of_matches_come_in_pages(bench: Bench) -> None:
    """ListMyMatches and ListMatches, page by page, have each finished match once, newest first; one that ends between two
    pages shifts nothing."""
    guest, matches = await finished(bench)
    newest_first = matches[::-1]
    stub = bench.matches(await bench.game())

    async def mine(request: match_service_pb2.ListMyMatchesRequest) -> Any:
        return await bench.ask(stub.ListMyMatches, request, guest)

    async def more() -> None:
        matches.append(await _one_more(bench, guest))

    found = await pages(mine, match_service_pb2.ListMyMatchesRequest(page_size=1), "matches", more)
    expect(
        [match.match_id for match in found] == newest_first,
        "ListMyMatches has other matches, or another order",
    )

    async def history(request: pb.ListMatchesRequest) -> Any:
        return await bench.ask(bench.ladder.ListMatches, request, guest)

    newest_first = matches[::-1]
    found = await pages(history, pb.ListMatchesRequest(page_size=1), "matches", more)
    expect(
        [match.match_id for match in found] == newest_first, "ListMatches has other matches, or another order"
    )


async def a_rated_match_moves_both_ratings(bench: Bench) -> None:
    """A match of the rated pool gets one decision with before and after; both players stand on the ladder; anybody may have
    the record."""
    async with bench.queue:
        (match_id, address), guests = await bench.pair(matchmaking_service_pb2.POOL_RATED)
    table = Table(bench, match_id, address, BySeat(*guests))
    await table.start()
    await table.do(Resign(SOUTH))
    decision = await _decision(bench, match_id, guests[0])
    expect(decision.rated and decision.reason == "rated", f"not rated: {decision.reason}")
    expect(decision.north_after.mu > decision.north_before.mu, "the winner's mean did not grow")
    expect(decision.south_after.mu < decision.south_before.mu, "the loser's mean did not fall")
    request = match_service_pb2.GetRecordRequest(match_id=match_id)
    record = await bench.ask(table.stub.GetRecord, request, await bench.guest())
    expect(record.record, "the record of a rated match is empty for others")
    for guest, rating in zip(guests, (decision.north_after, decision.south_after), strict=True):
        answer = await bench.ask(bench.ladder.GetPlayer, pb.GetPlayerRequest(), guest)
        standing = answer.standing
        expect(standing.rating == rating, "GetPlayer has another rating than the decision")
        expect(standing.rank >= 1, "a player with a rated match has no rank")
        near = await bench.ask(bench.ladder.GetNeighbourhood, pb.GetNeighbourhoodRequest(), guest)
        ids = [other.player.player_id for other in near.standings]
        expect(guest.player_id in ids, "a ranked player is not in the own neighbourhood")


async def _decision(bench: Bench, match_id: str, guest: Guest) -> pb.RatingDecision:
    """The rating decision, which may come a moment after the end."""
    request = pb.GetRatingDecisionRequest(match_id=match_id)
    try:
        async with asyncio.timeout(_DECISION_SECONDS_MAX):
            while True:
                try:
                    answer = await bench.ask(bench.ladder.GetRatingDecision, request, guest)
                except CallError as error:
                    expect_error(error, grpc.StatusCode.NOT_FOUND, "NO_DECISION")
                    await asyncio.sleep(0.1)  # nobody tells when it is made
                else:
                    return answer.decision
    except TimeoutError:
        raise BrokenError(f"no rating decision within {_DECISION_SECONDS_MAX:.0f} s") from None


async def an_unrated_match_says_why(bench: Bench) -> None:
    """The decision about an unrated match says `unrated_mode`, and no rating moves."""
    guest, matches = await finished(bench)
    decision = await _decision(bench, matches[0], guest)
    expect(not decision.rated and decision.reason == "unrated_mode", f"the decision says {decision.reason}")
    answer = await bench.ask(bench.ladder.GetPlayer, pb.GetPlayerRequest(), guest)
    expect(answer.standing.rank == 0, "a player without a rated match has a rank")


async def the_leaderboard_comes_in_pages(bench: Bench) -> None:
    """The leaderboard, page by page, has nobody twice, the best first, and equal ratings share a rank."""
    guest = await bench.guest()
    await a_rated_match_moves_both_ratings(bench)

    async def board(request: pb.GetLeaderboardRequest) -> Any:
        return await bench.ask(bench.ladder.GetLeaderboard, request, guest)

    for _ in range(_LOOKS):
        before = await board(pb.GetLeaderboardRequest(page_size=100))
        size = 1 if len(before.standings) <= 20 else 10
        request = pb.GetLeaderboardRequest(page_size=size)
        found = list(before.standings) if before.next_page_token else await pages(board, request, "standings")
        if await board(pb.GetLeaderboardRequest(page_size=100)) == before:
            break
    else:
        raise NotHereError("the ladder does not stand still: others play on this stack")
    expect(found == list(before.standings), "small pages come to something else than a large one")
    ids = [standing.player.player_id for standing in found]
    expect(len(ids) == len(set(ids)), "somebody stands on two pages")
    ratings = [standing.shown_rating for standing in found]
    expect(ratings == sorted(ratings, reverse=True), "the order is not that of the shown ratings")
    for better, worse in itertools.pairwise(found):
        same = better.shown_rating == worse.shown_rating
        expect(
            same == (better.rank == worse.rank),
            f"ranks {better.rank} and {worse.rank} at equal or other ratings",
        )


async def pages_have_limits(bench: Bench) -> None:
    """A page of more than 100, of less than one, or of a token that is none, is MALFORMED."""
    guest = await bench.guest()
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    for request in (
        pb.GetLeaderboardRequest(page_size=101),
        pb.GetLeaderboardRequest(page_size=-1),
        pb.GetLeaderboardRequest(page_token="no token"),  # noqa: S106
    ):
        expect_error(
            await failure(bench.ask(bench.ladder.GetLeaderboard, request, guest)), invalid, "MALFORMED"
        )


CHECKS: Final = checks_of(
    "ladder",
    lists_of_matches_come_in_pages,
    a_rated_match_moves_both_ratings,
    an_unrated_match_says_why,
    the_leaderboard_comes_in_pages,
    pages_have_limits,
)
