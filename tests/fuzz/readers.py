"""Which functions read which messages: every request that there is, and what clients read of the answers.

Each reader may raise what it documents and nothing else; `tests/fuzz/test_targets.py` holds the table to the protos.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Mapping
from typing import Any, Final

from google.protobuf.message import Message

from client import errors as client_errors
from client import wire as client_wire
from engine.match import Match, Phase, decide
from engine.refusal import Refusal
from engine.seats import SEATS
from services.common.errors import ServiceError
from services.common.settings import Environment
from services.game import creation
from services.game.settings import GameSettings
from services.matchmaking.identity import _name
from services.storage.script import Script, start_of
from services.wire import (
    clock,
    clock_news,
    commands,
    identity,
    ladder,
    matchmaking,
    operations,
    pages,
    processes,
    results,
    rules,
)
from services.wire.tables import seat_from_pb
from spectacularbid.identity.v1 import guest_service_pb2, player_service_pb2
from spectacularbid.internal.clock.v1 import clock_service_pb2 as clock_pb
from spectacularbid.internal.operations.v1 import operations_service_pb2 as operations_pb
from spectacularbid.internal.operations.v1 import results_pb2 as results_pb
from spectacularbid.internal.placement.v1 import placement_service_pb2 as placement_pb
from spectacularbid.ladder.v1 import ladder_service_pb2 as ladder_pb
from spectacularbid.match.v1 import match_service_pb2 as match_pb
from spectacularbid.matchmaking.v1 import matchmaking_service_pb2 as matchmaking_pb
from spectacularbid.rules.v1 import rules_service_pb2 as rules_pb
from tests.engine.randomplay import steps
from tests.fuzz.records import check_match

Read = Callable[[Any], object]


def refusing(*reads: Read, refusal: type[Exception] = ServiceError) -> Read:
    """Reads with each of these; what one refuses, the next looks at all the same."""

    def read(message: Any) -> None:
        for each in reads:
            with contextlib.suppress(refusal):
                each(message)

    return read


# Players' requests


def _states() -> tuple[Match, ...]:
    """A match at several moments, for commands to be said in."""
    first = Match.start()
    passed = [first, *(state for state, _ in steps(first, random.Random(5)))]
    return tuple({state.phase: state for state in passed}.values())


_STATES: Final = _states()


def _submit(request: match_pb.SubmitRequest) -> None:
    """The command is read for both seats, and said in every phase; a refusal and a ruling both leave a whole match."""
    with contextlib.suppress(ServiceError):
        commands.match_id_from_pb(request.match_id)
    with contextlib.suppress(ServiceError):
        commands.request_id_from_pb(request.request_id)
    with contextlib.suppress(ServiceError):
        seat_from_pb(request.seat, "seat")
    for seat in SEATS:
        assert len(commands.payload_hash(request, seat)) == 32
        try:
            command = commands.command_from_pb(request, seat)
        except ServiceError as refused:
            refused.status()
            continue
        assert command.seat is seat
        for state in _STATES:
            if state.phase is Phase.AWAITING_DEAL:
                continue
            ruling = decide(state, command)
            if isinstance(ruling, Refusal):
                commands.refused_to_pb(commands.refusal_error(ruling))


def _play(request: match_pb.PlayRequest) -> None:
    if request.WhichOneof("message") == "submit":
        _submit(request.submit)
    else:
        commands.match_id_from_pb(request.join.match_id)


def _settings(env: Environment) -> GameSettings:
    return GameSettings.model_construct(env=env, house_bots=("easy",))


_CREATING: Final = tuple(map(_settings, (Environment.TEST, Environment.PRODUCTION)))


def _create(request: match_pb.CreateMatchRequest) -> None:
    """What is accepted can be stored, read back and begun."""
    for settings in _CREATING:
        with contextlib.suppress(ServiceError):
            wanted = creation.wanted_from_pb(request, settings)
            stored = wanted.script.dump()
            assert Script.load(stored) == wanted.script
            state = start_of(stored, wanted.bank_ns, wanted.delay_ns, same_device=True)
            check_match(state)


PUBLIC: Final[Mapping[type[Message], Read]] = {
    guest_service_pb2.CreateGuestRequest: refusing(lambda r: _name(r.name)),
    player_service_pb2.RegisterRequest: refusing(lambda r: _name(r.name)),
    player_service_pb2.GetProfileRequest: refusing(lambda r: identity.player_id_from_pb(r.player_id)),
    ladder_pb.GetLeaderboardRequest: refusing(
        lambda r: ladder.page_size(r.page_size), lambda r: pages.ladder_key(r.page_token)
    ),
    ladder_pb.GetNeighbourhoodRequest: refusing(lambda r: ladder.each_way(r.each_way)),
    ladder_pb.GetPlayerRequest: refusing(lambda r: identity.player_id_from_pb(r.player_id)),
    ladder_pb.ListMatchesRequest: refusing(
        lambda r: ladder.page_size(r.page_size), lambda r: pages.results_key(r.page_token)
    ),
    ladder_pb.GetRatingDecisionRequest: refusing(lambda r: commands.match_id_from_pb(r.match_id)),
    rules_pb.GetRulesRequest: refusing(rules.language_from_pb),
    matchmaking_pb.SeekRequest: refusing(matchmaking.wanted_from_pb),
    matchmaking_pb.CancelSeekRequest: refusing(),
    matchmaking_pb.LocateMatchRequest: refusing(lambda r: commands.match_id_from_pb(r.match_id)),
    match_pb.SubmitRequest: _submit,
    match_pb.WatchRequest: refusing(lambda r: commands.match_id_from_pb(r.match_id)),
    match_pb.PlayRequest: refusing(_play),
    match_pb.GetMatchRequest: refusing(lambda r: commands.match_id_from_pb(r.match_id)),
    match_pb.ListMyMatchesRequest: refusing(lambda r: pages.matches_key(r.page_token)),
    match_pb.GetRecordRequest: refusing(lambda r: commands.match_id_from_pb(r.match_id)),
    match_pb.CreateMatchRequest: _create,
}


# Operators' requests and the streams between services


OPERATIONS: Final[Mapping[type[Message], Read]] = {
    operations_pb.GetPoolsRequest: refusing(operations.order_count_from_pb),
    operations_pb.SetPoolModeRequest: refusing(lambda r: operations.mode_order_from_pb(r, "author")),
    operations_pb.AnnounceRequest: refusing(lambda r: operations.announcement_from_pb(r, "author")),
    operations_pb.RevokeTokensRequest: refusing(lambda r: identity.revocation_from_pb(r, "author")),
    operations_pb.GetGamesRequest: refusing(processes.order_count_from_pb),
    operations_pb.DrainGameRequest: refusing(
        lambda r: processes.engine_id_from_pb(r.engine_id), lambda r: operations.reason_from_pb(r.reason)
    ),
    operations_pb.ResumeGameRequest: refusing(
        lambda r: processes.engine_id_from_pb(r.engine_id), lambda r: operations.reason_from_pb(r.reason)
    ),
    results_pb.DeclareIncidentRequest: refusing(lambda r: results.declaration_from_pb(r, "author")),
    results_pb.CloseIncidentRequest: refusing(
        lambda r: results.id_from_pb(r.incident_id, "incident_id"),
        lambda r: results.reason_from_pb(r.reason),
        results.end_from_pb,
    ),
    results_pb.VoidMatchRequest: refusing(
        lambda r: results.id_from_pb(r.match_id, "match_id"),
        lambda r: results.act_from_pb(r.reason, "author"),
    ),
    results_pb.RuleResultsRequest: refusing(
        lambda r: results.ruling_from_pb(r, "author"), lambda r: results.limit_from_pb(r.limit)
    ),
    results_pb.RecomputeLadderRequest: refusing(
        lambda r: results.reason_from_pb(r.reason), lambda r: results.limit_from_pb(r.limit)
    ),
}


def _register(request: placement_pb.RegisterRequest) -> None:
    for read in (matchmaking.hello_from_pb, matchmaking.report_from_pb):
        with contextlib.suppress(ServiceError):
            read(request)


def _govern(request: clock_pb.GovernRequest) -> None:
    said = clock.request_from_pb(request)
    assert clock.request_from_pb(clock.request_to_pb(said)) == said


def _governed(response: clock_pb.GovernResponse) -> None:
    said = clock.response_from_pb(response)
    assert clock.response_from_pb(clock.response_to_pb(said)) == said


def _bulletin(response: clock_pb.WatchResponse) -> None:
    bulletin = clock_news.bulletin_from_pb(response)
    assert clock_news.bulletin_from_pb(clock_news.bulletin_to_pb(bulletin)) == bulletin


def _nonsense(read: Read) -> Read:
    def shorter(message: Any) -> None:
        said = ""
        try:
            read(message)
        except clock.MalformedClockMessageError as fault:
            said = str(fault)
        # It is logged and sent back.
        assert len(said) < 1000, f"a fault of {len(said)} characters"

    return shorter


STREAMS: Final[Mapping[type[Message], Read]] = {
    clock_pb.GovernRequest: _nonsense(_govern),
    clock_pb.GovernResponse: _nonsense(_governed),
    clock_pb.WatchRequest: refusing(),
    clock_pb.WatchResponse: _nonsense(_bulletin),
    placement_pb.RegisterRequest: _register,
}


# What a client reads


def _news(response: match_pb.WatchResponse) -> None:
    table = client_wire.table_from_pb(response.snapshot, 0.0)
    for event in response.events:
        table = client_wire.evolve(table, event)
    if response.HasField("prompt"):
        client_wire.prompt_from_pb(response.prompt, 0.0)


def _answer(answer: match_pb.Answer) -> None:
    assert str(client_errors.from_refused(answer.refused)).isprintable()


def _outcome(match: ladder_pb.FinishedMatch) -> None:
    assert client_wire.outcome_from_pb(match.outcome).detail.isprintable()
    assert client_wire.player_from_pb(match.north).name.isprintable()


CLIENT: Final[Mapping[type[Message], Read]] = {
    match_pb.WatchResponse: refusing(_news, refusal=client_wire.WireError),
    match_pb.Answer: _answer,
    ladder_pb.FinishedMatch: refusing(_outcome, refusal=client_wire.WireError),
}
