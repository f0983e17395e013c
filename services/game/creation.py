"""Unrated matches that players ask for themselves."""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass

import asyncpg
import grpc

from engine.clock import BANK, DELAY, SECOND
from engine.deal import Deal
from engine.match import Match
from engine.seats import BySeat, Seat
from services.common.auth import PLAYER_ID, Identity, house_bot_id
from services.common.errors import ServiceError, busy, limit_reached, malformed
from services.common.settings import Environment
from services.game.settings import GameSettings
from services.storage import invitations, matches, players
from services.storage.matches import NewMatch, PlayerBusyError, RequestReusedError
from services.storage.pool import Connection, Pool
from services.storage.script import Script
from services.wire.commands import request_id_from_pb
from services.wire.tables import MILLISECOND, seat_from_pb, tile_from_pb
from spectacularbid.match.v1 import match_service_pb2 as pb

START_LIMIT = 60 * SECOND
CONTINUE_LIMIT = 30 * SECOND
FULL_SECONDS = 5.0
"""When to ask again where too many created matches are played."""
DEALS_MAX = 64
BANK_MS_MAX = 3_600_000
DELAY_MS_MAX = 600_000
LIMIT_MS_MAX = 3_600_000


@dataclass(frozen=True, slots=True)
class Wanted:
    """A CreateMatch request that makes sense."""

    request_id: str
    payload: bytes
    opponent: str | None
    """A player id; None for one device."""
    house_bot: str | None
    seat: Seat
    bank_ns: int
    delay_ns: int
    start_limit_ns: int
    continue_limit_ns: int
    script: Script


def wanted_from_pb(request: pb.CreateMatchRequest, settings: GameSettings) -> Wanted:
    """A request checked as far as it can be without the database. Raises ServiceError naming the field."""
    request_id = request_id_from_pb(request.request_id)
    opponent = house_bot = None
    match request.WhichOneof("opponent"):
        case "player_id":
            opponent = request.player_id
            if not PLAYER_ID.match(opponent):
                raise malformed("player_id: is no player id")
        case "house_bot":
            house_bot = request.house_bot
            if house_bot not in settings.house_bots:
                raise malformed(f"house_bot: must be one of {', '.join(settings.house_bots)}")
        case "same_device":
            if not request.same_device:
                raise malformed("same_device: must be true when given")
        case None:
            raise malformed("opponent: must be given")
    _refuse_test_fields(request, settings)
    bank_ns, delay_ns = _time_control(request)
    return Wanted(
        request_id=request_id,
        payload=hashlib.sha256(request.SerializeToString(deterministic=True)).digest(),
        opponent=opponent,
        house_bot=house_bot,
        seat=seat_from_pb(request.seat, "seat") or Seat.NORTH,
        bank_ns=bank_ns,
        delay_ns=delay_ns,
        start_limit_ns=_limit(request.start_limit_ms, START_LIMIT, "start_limit_ms"),
        continue_limit_ns=_limit(request.continue_limit_ms, CONTINUE_LIMIT, "continue_limit_ms"),
        script=_script(request),
    )


def _refuse_test_fields(request: pb.CreateMatchRequest, settings: GameSettings) -> None:
    if settings.env is Environment.TEST:
        return
    given = [
        name
        for name, there in (
            ("time_control", request.HasField("time_control")),
            ("deals", bool(request.deals)),
            ("balances", request.HasField("balances")),
            ("jockey", request.jockey != 0),
            ("start_limit_ms", request.start_limit_ms != 0),
            ("continue_limit_ms", request.continue_limit_ms != 0),
        )
        if there
    ]
    if given:
        raise ServiceError(
            grpc.StatusCode.FAILED_PRECONDITION,
            "TEST_ONLY",
            f"{', '.join(given)}: only a test configuration allows this",
        )


def _time_control(request: pb.CreateMatchRequest) -> tuple[int, int]:
    if not request.HasField("time_control"):
        return BANK, DELAY
    control = request.time_control
    if not control.HasField("bank_ms") or not control.HasField("delay_ms"):
        raise malformed("time_control: both bank_ms and delay_ms must be given")
    if not 0 <= control.bank_ms <= BANK_MS_MAX:
        raise malformed(f"time_control.bank_ms: must be 0 to {BANK_MS_MAX}")
    if not 1 <= control.delay_ms <= DELAY_MS_MAX:
        raise malformed(f"time_control.delay_ms: must be 1 to {DELAY_MS_MAX}")
    return control.bank_ms * MILLISECOND, control.delay_ms * MILLISECOND


def _limit(given_ms: int, default_ns: int, field: str) -> int:
    if given_ms == 0:
        return default_ns
    if not 1 <= given_ms <= LIMIT_MS_MAX:
        raise malformed(f"{field}: must be 1 to {LIMIT_MS_MAX}")
    return given_ms * MILLISECOND


def _script(request: pb.CreateMatchRequest) -> Script:
    if len(request.deals) > DEALS_MAX:
        raise malformed(f"deals: at most {DEALS_MAX}")
    deals = []
    for number, scripted in enumerate(request.deals):
        tiles = [tile_from_pb(tile, f"deals[{number}].tiles[{n}]") for n, tile in enumerate(scripted.tiles)]
        try:
            deals.append(Deal.from_shuffle(tiles))
        except ValueError as error:
            raise malformed(f"deals[{number}]: {error}") from None
    balances = None
    jockey = seat_from_pb(request.jockey, "jockey")
    if request.HasField("balances"):
        balances = (request.balances.north, request.balances.south)
        try:
            Match.start(balances=BySeat(*balances))
        except ValueError as error:
            raise malformed(f"balances: {error}") from None
    return Script(balances, jockey, tuple(deals))


async def create(pool: Pool, wanted: Wanted, creator: Identity, engine_id: str, *, room: bool = True) -> str:
    """Creates the match, or finds the one an earlier call with this request_id created. Returns its id.

    Another player is invited, and has nothing to do with the match before accepting. Without `room` nothing new is
    made. Raises ServiceError: PLAYER_NOT_FOUND, PLAYER_BUSY, REQUEST_ID_REUSED, INVITATION_REFUSED, LIMIT_REACHED.
    """
    try:
        async with pool.acquire() as connection, connection.transaction():
            known = await matches.find_created(
                connection, creator.player_id, wanted.request_id, wanted.payload
            )
            if known is not None:
                return known
            if not room:
                raise limit_reached(
                    "too many created matches, or of yours, are played or just over", FULL_SECONDS
                )
            new = await _new_match(connection, wanted, creator)
            invited = await _invited(connection, new)
            await matches.create_match(connection, new, engine_id, invited=invited)
            if invited is not None:
                await invitations.invite(connection, new.match_id, creator.player_id, invited)
            return new.match_id
    except asyncpg.UniqueViolationError:
        # The same call came twice at once and the other was first.
        known = await matches.find_created(pool, creator.player_id, wanted.request_id, wanted.payload)
        if known is None:
            raise
        return known
    except RequestReusedError:
        raise ServiceError(
            grpc.StatusCode.INVALID_ARGUMENT, "REQUEST_ID_REUSED", "request_id: was used with another payload"
        ) from None
    except PlayerBusyError as other:
        # The creator alone was to be seated: what the other player does is not told.
        raise busy(other.match_id) from None


async def _invited(connection: Connection, new: NewMatch) -> str | None:
    """Who is invited to a match; None for a match against a house bot or on one device.

    Raises ServiceError when this creator may not invite that player now.
    """
    creator = new.created_by
    others = [player for player in (new.north, new.south) if player != creator]
    if creator is None or not others:
        return None
    other = await matches.get_player(connection, others[0])
    if other is None or other.bot:
        return None
    match await invitations.may_invite(connection, creator, other.player_id):
        case invitations.Refused.BLOCKED:
            raise ServiceError(
                grpc.StatusCode.FAILED_PRECONDITION,
                "INVITATION_REFUSED",
                "the player does not want to be invited by you",
            )
        case invitations.TooMany(whose, wait):
            raise limit_reached(f"too many invitations {whose} were not accepted", wait.total_seconds())
        case _:
            return other.player_id


async def _new_match(connection: Connection, wanted: Wanted, creator: Identity) -> NewMatch:
    await players.put_player(connection, creator.player_id, creator.suggested_name, bot=creator.bot)
    if wanted.house_bot is not None:
        other = house_bot_id(wanted.house_bot)
        await players.put_player(connection, other, wanted.house_bot, bot=True)
    elif wanted.opponent is not None:
        other = wanted.opponent
        if await matches.get_player(connection, other) is None:
            raise ServiceError(grpc.StatusCode.NOT_FOUND, "PLAYER_NOT_FOUND", "there is no such player")
        if other == creator.player_id:
            raise malformed("player_id: nobody plays against themselves; ask for same_device")
    else:
        other = creator.player_id
    north, south = (creator.player_id, other) if wanted.seat is Seat.NORTH else (other, creator.player_id)
    return NewMatch(
        match_id=str(uuid.uuid4()),
        mode="same_device" if wanted.opponent is wanted.house_bot is None else "created",
        rated=False,
        north=north,
        south=south,
        bank_ns=wanted.bank_ns,
        delay_ns=wanted.delay_ns,
        start_limit_ns=wanted.start_limit_ns,
        continue_limit_ns=wanted.continue_limit_ns,
        script=wanted.script.dump(),
        created_by=creator.player_id,
        request_id=wanted.request_id,
        request_hash=wanted.payload,
    )
