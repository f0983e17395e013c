"""A player's session: who one is, finding a match, playing it, looking things up."""

from __future__ import annotations

import asyncio
import time
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Self

import grpc

from client.connection import PATIENCE_SECONDS, Addresses, Backoff, Connections
from client.errors import UnreachableError, from_rpc
from client.match import MatchStream, Transport
from client.table import Player
from client.wire import player_from_pb, seat_to_pb, some_seat_from_pb, table_from_pb
from engine.seats import NORTH, SOUTH
from spectacularbid.identity.v1 import guest_service_pb2, player_service_pb2
from spectacularbid.ladder.v1 import ladder_service_pb2
from spectacularbid.match.v1 import match_service_pb2
from spectacularbid.matchmaking.v1 import matchmaking_service_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
    from types import TracebackType

    from client.table import TableState
    from engine.seats import Seat
    from spectacularbid.matchmaking.v1.matchmaking_service_pb2 import Waiting

RATED: Final = matchmaking_service_pb2.POOL_RATED
CASUAL: Final = matchmaking_service_pb2.POOL_CASUAL

_SEEK_SILENCE_SECONDS: Final = 30.0
# It may last many minutes: whoever asked decides what to do meanwhile.
_NOT_WAITED_FOR: Final = frozenset({"SEEK_COOLDOWN", "POOL_DRAINING"})
_PAGE_SIZE: Final = 100


@dataclass(frozen=True, slots=True)
class Identity:
    """A player and the token that proves it."""

    player_id: str
    name: str
    token: str = field(repr=False)
    expires_at: int
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class MatchHandle:
    """A match that was found or created, and where it is played."""

    match_id: str
    address: str
    seat: Seat
    opponent: Player | None = None
    opponent_rating: int = 0
    """In whole points; 0 when unrated."""


async def new_guest(
    address: str,
    name: str = "",
    credentials: grpc.ChannelCredentials | None = None,
    *,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Identity:
    """A new player of a service that has guests, with that name registered if there is one.

    Raises UnreachableError, or CallError: NAME_TAKEN, NAME_CONFUSABLE or NAME_INVALID when the name is refused.
    """
    connections = Connections(None, credentials, patience_seconds=patience_seconds)
    try:
        # In two steps: only a call that is safe to repeat may give the name, or a lost answer would leave it taken.
        request = guest_service_pb2.CreateGuestRequest()
        made = await connections.ask(Addresses(address), lambda service: service.guests.CreateGuest, request)
    finally:
        await connections.close()
    identity = Identity(made.player_id, made.name, made.token, made.expires_at)
    if not name:
        return identity
    async with Client(
        address, made.token, credentials=credentials, patience_seconds=patience_seconds
    ) as client:
        return replace(identity, name=(await client.register(name)).name)


class Client:
    """One player, connected. An async context manager.

    Every method raises CallError for what the service says and UnreachableError when nobody answers; each call is
    repeated where that is safe.
    """

    def __init__(
        self,
        matchmaking_address: str,
        token: str,
        *,
        game_address: str | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        patience_seconds: float = PATIENCE_SECONDS,
        renew: Callable[[], Awaitable[str]] | None = None,
    ) -> None:
        """`matchmaking_address` is `host:port`, or several with commas between: a leader and its standbys, of which the
        one that leads is found. `game_address` is where any game process answers; by default the same as matchmaking,
        as behind one front door. `credentials` for TLS. `patience_seconds` is how long a call is repeated. `renew` makes
        another token when the present one has expired, was revoked, or its key has gone: calls and streams go on with it.
        Without it they end with TOKEN_EXPIRED, TOKEN_REVOKED or TOKEN_INVALID.
        """
        self._matchmaking = Addresses(matchmaking_address)
        self.game_address = game_address or self._matchmaking.current
        self._connections = Connections(
            token, credentials, patience_seconds=patience_seconds, new_token=renew
        )

    @property
    def address(self) -> str:
        """Where matchmaking is asked now."""
        return self._matchmaking.current

    @classmethod
    async def guest(cls, address: str, name: str = "", *, game_address: str | None = None) -> Self:
        """A client for a new guest player."""
        identity = await new_guest(address, name)
        return cls(address, identity.token, game_address=game_address)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; open streams end."""
        await self._connections.close()

    # Who one is

    async def register(self, name: str) -> player_service_pb2.Profile:
        """Take a name, once and for good. Raises CallError NAME_TAKEN, NAME_CONFUSABLE, NAME_INVALID or NAME_CHOSEN."""
        request = player_service_pb2.RegisterRequest(name=name)
        answer = await self._connections.ask(
            self._matchmaking, lambda service: service.players.Register, request
        )
        return answer.profile

    async def profile(self, player_id: str = "") -> player_service_pb2.Profile:
        """What a player is called, and whether for good; by default the caller."""
        request = player_service_pb2.GetProfileRequest(player_id=player_id)
        answer = await self._connections.ask(
            self._matchmaking, lambda service: service.players.GetProfile, request
        )
        return answer.profile

    # Finding a match

    async def seek(
        self,
        pool: matchmaking_service_pb2.Pool.ValueType = RATED,
        *,
        lowest: int | None = None,
        highest: int | None = None,
        blocked: Iterable[str] = (),
        waiting: Callable[[Waiting], None] | None = None,
        request_id: str | None = None,
    ) -> MatchHandle:
        """Wait for an opponent, for as long as it takes; `waiting` hears about the queue. Cancelling this ends the seek.

        Opponents rated below `lowest` or above `highest` (points of the mean), and the players `blocked`, are never
        accepted. A lost connection, or a leader that dies, costs no waiting time: the seek goes on under its
        `request_id`. Who gives an own one can go on with a seek after a restart of the program, for a minute. A player
        who has a live match gets that one.

        Raises CallError: SEEK_COOLDOWN when the player did not come to a match, and POOL_DRAINING while operators let
        nobody in, with the time to wait in `retry_after_seconds`; SEEK_CANCELLED and SEEK_REPLACED when another call
        ended the seek.
        """
        backoff = Backoff()
        request = matchmaking_service_pb2.SeekRequest(
            request_id=request_id or str(uuid.uuid4()),
            pool=pool,
            lowest_rating=lowest,
            highest_rating=highest,
            blocked_player_ids=blocked,
        )
        heard = time.monotonic()
        while True:
            address = self._matchmaking.current
            service = self._connections.at(address)
            metadata = self._connections.metadata
            call = service.matchmaking.Seek(request, metadata=metadata)
            try:
                while True:
                    async with asyncio.timeout(_SEEK_SILENCE_SECONDS):
                        news = await call.read()
                    if not isinstance(news, matchmaking_service_pb2.SeekResponse):
                        break
                    heard = time.monotonic()
                    backoff.reset()
                    if news.HasField("matched"):
                        return self._handle(news.matched)
                    if waiting is not None and news.HasField("waiting"):
                        waiting(news.waiting)
                pause = backoff.next_seconds()
            except grpc.aio.AioRpcError as problem:
                error = from_rpc(problem)
                if await self._connections.renewed(error, metadata):
                    continue
                if not error.retryable or error.reason in _NOT_WAITED_FOR:
                    raise error from None
                self._matchmaking.failed(address)
                pause = backoff.next_seconds(error.retry_after_seconds)
            except TimeoutError:
                self._connections.renew(address, service)
                self._matchmaking.failed(address)
                pause = backoff.next_seconds()
            finally:
                call.cancel()
            if time.monotonic() - heard > self._connections.patience_seconds + _SEEK_SILENCE_SECONDS:
                raise UnreachableError(f"nobody answers at {address}")
            await asyncio.sleep(pause)

    def _handle(self, matched: matchmaking_service_pb2.Matched) -> MatchHandle:
        return MatchHandle(
            match_id=matched.match_id,
            address=matched.address or self.game_address,
            seat=some_seat_from_pb(matched.seat),
            opponent=player_from_pb(matched.opponent),
            opponent_rating=matched.opponent_rating,
        )

    async def cancel_seek(self) -> None:
        """Cancel the open seek. Raises CallError NO_SEEK, or ALREADY_MATCHED with the match in its metadata."""
        request = matchmaking_service_pb2.CancelSeekRequest()
        await self._connections.ask(
            self._matchmaking, lambda service: service.matchmaking.CancelSeek, request
        )

    async def create_match(self, request: match_service_pb2.CreateMatchRequest) -> MatchHandle:
        """Create an unrated match; a request id is made when there is none."""
        wanted = match_service_pb2.CreateMatchRequest()
        wanted.CopyFrom(request)
        wanted.request_id = request.request_id or str(uuid.uuid4())
        made = await self._connections.call(
            self.game_address, lambda service: service.matches.CreateMatch, wanted
        )
        return MatchHandle(made.match_id, made.address or self.game_address, some_seat_from_pb(made.seat))

    async def challenge(
        self, *, house_bot: str = "", player_id: str = "", seat: Seat | None = None
    ) -> MatchHandle:
        """Create an unrated match against a house bot, or invite a named player to one."""
        request = match_service_pb2.CreateMatchRequest(seat=seat_to_pb(seat))
        if house_bot:
            request.house_bot = house_bot
        else:
            request.player_id = player_id
        return await self.create_match(request)

    # Playing and watching

    def play(
        self,
        match: MatchHandle | str,
        address: str | None = None,
        *,
        transport: Transport = Transport.PLAY,
        seat: Seat | None = None,
        resume: TableState | None = None,
        house_bot: bool = False,
    ) -> MatchStream:
        """A match to follow and play; see MatchStream. A player without a seat in it is a spectator."""
        if isinstance(match, MatchHandle):
            match_id, address = match.match_id, address or match.address
        else:
            match_id = match
        return MatchStream(
            self._connections,
            match_id,
            address or self.game_address,
            transport=transport,
            seat=seat,
            resume=resume,
            locate=self.locate,
            house_bot=house_bot,
        )

    async def locate(self, match_id: str) -> str:
        """Where a match is played, or can be read when it is over, as host:port; empty while it is moving.

        Raises CallError MATCH_NOT_FOUND.
        """
        request = matchmaking_service_pb2.LocateMatchRequest(match_id=match_id)
        found = await self._connections.ask(
            self._matchmaking, lambda service: service.matchmaking.LocateMatch, request
        )
        return found.address

    async def get_match(self, match_id: str, address: str | None = None) -> TableState:
        """The caller's view of a match now."""
        request = match_service_pb2.GetMatchRequest(match_id=match_id)
        answer = await self._connections.call(
            address or self.game_address, lambda service: service.matches.GetMatch, request
        )
        return table_from_pb(answer.snapshot, time.monotonic())

    async def live_match(self) -> MatchHandle | None:
        """The match that the caller is in now; None for none."""
        own = (await self.profile()).player_id
        async for live in self.my_matches(live_only=True):
            seat = NORTH if live.north.player_id == own else SOUTH
            other = player_from_pb(live.south if seat is NORTH else live.north)
            return MatchHandle(live.match_id, live.address or self.game_address, seat, other)
        return None

    async def my_matches(
        self, *, live_only: bool = False, invitations: bool = False
    ) -> AsyncIterator[match_service_pb2.MatchSummary]:
        """The caller's matches, newest first; or, with `invitations`, those that others have created against the caller.

        Pressing Start in one accepts it; resigning before declines it.
        """
        request = match_service_pb2.ListMyMatchesRequest(
            page_size=_PAGE_SIZE, live_only=live_only, invitations=invitations
        )
        while True:
            page = await self._connections.call(
                self.game_address, lambda service: service.matches.ListMyMatches, request
            )
            for summary in page.matches:
                yield summary
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def record(self, match_id: str) -> str:
        """The record of a finished match, JSON Lines."""
        request = match_service_pb2.GetRecordRequest(match_id=match_id)
        answer = await self._connections.call(
            self.game_address, lambda service: service.matches.GetRecord, request
        )
        return answer.record

    # The ladder

    async def leaderboard(self, count: int = 20) -> list[ladder_service_pb2.Standing]:
        """The best `count` players, best first."""
        standings: list[ladder_service_pb2.Standing] = []
        request = ladder_service_pb2.GetLeaderboardRequest()
        while len(standings) < count:
            request.page_size = min(_PAGE_SIZE, count - len(standings))
            page = await self._connections.ask(
                self._matchmaking, lambda service: service.ladder.GetLeaderboard, request
            )
            standings.extend(page.standings)
            if not page.next_page_token:
                break
            request.page_token = page.next_page_token
        return standings

    async def standing(self, player_id: str = "") -> ladder_service_pb2.Standing:
        """A player's place on the ladder; by default the caller's."""
        request = ladder_service_pb2.GetPlayerRequest(player_id=player_id)
        answer = await self._connections.ask(
            self._matchmaking, lambda service: service.ladder.GetPlayer, request
        )
        return answer.standing

    async def neighbourhood(
        self, player_id: str = "", each_way: int = 5
    ) -> tuple[list[ladder_service_pb2.Standing], int]:
        """A player (by default the caller) between those just better and just worse, best first, and how many are ranked.

        Nobody when the player has no rated match.
        """
        request = ladder_service_pb2.GetNeighbourhoodRequest(player_id=player_id, each_way=each_way)
        answer = await self._connections.ask(
            self._matchmaking, lambda service: service.ladder.GetNeighbourhood, request
        )
        return list(answer.standings), answer.ranked_players

    async def history(self, player_id: str = "", count: int = 20) -> list[ladder_service_pb2.FinishedMatch]:
        """A player's last finished matches, newest first; by default the caller's."""
        matches: list[ladder_service_pb2.FinishedMatch] = []
        request = ladder_service_pb2.ListMatchesRequest(player_id=player_id)
        while len(matches) < count:
            request.page_size = min(_PAGE_SIZE, count - len(matches))
            page = await self._connections.ask(
                self._matchmaking, lambda service: service.ladder.ListMatches, request
            )
            matches.extend(page.matches)
            if not page.next_page_token:
                break
            request.page_token = page.next_page_token
        return matches

    async def rating_decision(self, match_id: str) -> ladder_service_pb2.RatingDecision:
        """Whether a match was rated and why. Raises CallError NO_DECISION while it is not made."""
        request = ladder_service_pb2.GetRatingDecisionRequest(match_id=match_id)
        answer = await self._connections.ask(
            self._matchmaking, lambda service: service.ladder.GetRatingDecision, request
        )
        return answer.decision
