"""What one hostile client does at full speed, attack by attack: every public rpc in turn, and everything below rpcs.

An attack is a way of asking (`Kind`) and what it asks. `python -m tests.bench.flooder` carries it out.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from google.protobuf.descriptor import FileDescriptor, MethodDescriptor
from google.protobuf.message import Message

from spectacularbid.identity.v1 import guest_service_pb2, player_service_pb2
from spectacularbid.ladder.v1 import ladder_service_pb2
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import table_pb2
from spectacularbid.matchmaking.v1 import matchmaking_service_pb2 as mm
from spectacularbid.rules.v1 import rules_service_pb2

GAME: Final = "game"
MATCHMAKING: Final = "matchmaking"
PUBLIC: Final[tuple[tuple[str, FileDescriptor], ...]] = (
    (GAME, pb.DESCRIPTOR),
    (MATCHMAKING, mm.DESCRIPTOR),
    (MATCHMAKING, guest_service_pb2.DESCRIPTOR),
    (MATCHMAKING, player_service_pb2.DESCRIPTOR),
    (MATCHMAKING, ladder_service_pb2.DESCRIPTOR),
    (MATCHMAKING, rules_service_pb2.DESCRIPTOR),
)
"""Which process answers the services of which file."""
GET_MATCH: Final = "/spectacularbid.match.v1.MatchService/GetMatch"
HEALTH: Final = "/grpc.health.v1.Health"
REFLECTION: Final = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"


class Kind(StrEnum):
    """A way to be a burden."""

    SPIN = "spin"
    """Nothing is asked: the processor is kept busy, which is what an attack on the same machine costs by itself."""
    CALL = "call"
    """Unary calls, as many as come back."""
    STREAM = "stream"
    """Streams opened, read once and cancelled."""
    COMMANDS = "commands"
    """Illegal commands on a Play stream, without end."""
    RESET = "reset"
    """Calls that are cancelled as soon as they are made."""
    HOLD = "hold"
    """As many streams as there are, kept open."""
    SILENT = "silent"
    """The same for calls whose message never comes."""
    CONNECT = "connect"
    """TCP connections without a word, and with no more than the preface of HTTP/2."""
    LEAVE = "leave"
    """Many players of one person leave their matches in the same moment, again and again."""


class As(StrEnum):
    """With which token."""

    PLAYER = "player"
    NOBODY = "nobody"
    FORGER = "forger"


@dataclass(frozen=True)
class Scene:
    """What there is to be asked for."""

    match_id: str = ""
    """A match that others play."""
    own_match_id: str = ""
    """A match of the attacker's own, on one device."""
    victim: str = ""
    """A player who seeks."""


Ask = Callable[[Scene], Message]


@dataclass(frozen=True)
class Attack:
    """One row of the table."""

    name: str
    target: str
    kind: Kind
    method: str = ""
    ask: Ask = lambda _scene: pb.GetMatchRequest()
    caller: As = As.PLAYER
    fresh: bool = False
    """Whether each call has a message of its own."""
    players: int = 1
    """How many tokens the attacker has."""
    takes_part: bool = False
    """Whether the attacker has a match of his own."""


def _submit(scene: Scene) -> pb.SubmitRequest:
    return pb.SubmitRequest(
        match_id=scene.own_match_id,
        request_id=str(uuid.uuid4()),
        decision_id=1,
        seat=table_pb2.SEAT_NORTH,
        command=pb.Command(draw=pb.Draw()),
    )


ASKED: Final[dict[str, Ask]] = {
    "Submit": _submit,
    "Watch": lambda scene: pb.WatchRequest(match_id=scene.match_id),
    "Play": lambda scene: pb.PlayRequest(join=pb.WatchRequest(match_id=scene.match_id)),
    "GetMatch": lambda scene: pb.GetMatchRequest(match_id=scene.match_id),
    "ListMyMatches": lambda _: pb.ListMyMatchesRequest(page_size=100),
    "GetRecord": lambda scene: pb.GetRecordRequest(match_id=scene.match_id),
    "CreateMatch": lambda _: pb.CreateMatchRequest(request_id=str(uuid.uuid4()), same_device=True),
    "Seek": lambda _: mm.SeekRequest(request_id=str(uuid.uuid4()), pool=mm.POOL_RATED, lowest_rating=9000),
    "CancelSeek": lambda _: mm.CancelSeekRequest(),
    "LocateMatch": lambda scene: mm.LocateMatchRequest(match_id=scene.match_id),
    "CreateGuest": lambda _: guest_service_pb2.CreateGuestRequest(),
    "Register": lambda _: player_service_pb2.RegisterRequest(name=f"flood {uuid.uuid4().hex[:8]}"),
    "GetProfile": lambda _: player_service_pb2.GetProfileRequest(),
    "GetLeaderboard": lambda _: ladder_service_pb2.GetLeaderboardRequest(page_size=100),
    "GetNeighbourhood": lambda _: ladder_service_pb2.GetNeighbourhoodRequest(each_way=10),
    "GetPlayer": lambda _: ladder_service_pb2.GetPlayerRequest(),
    "ListMatches": lambda _: ladder_service_pb2.ListMatchesRequest(page_size=100),
    "GetRatingDecision": lambda scene: ladder_service_pb2.GetRatingDecisionRequest(match_id=scene.match_id),
    "GetRules": lambda _: rules_service_pb2.GetRulesRequest(),
}
"""The message of each public rpc, the dearest that a client can make of it."""
FRESH: Final = frozenset({"Submit", "CreateMatch", "Seek", "Register"})


def public_methods() -> list[tuple[str, MethodDescriptor]]:
    """Every public rpc, and the process that answers it."""
    return [
        (target, method)
        for target, file in PUBLIC
        for service in file.services_by_name.values()
        for method in service.methods
    ]


def _of(target: str, method: Any) -> Attack:
    return Attack(
        name=method.name,
        target=target,
        kind=Kind.STREAM if method.server_streaming else Kind.CALL,
        method=f"/{method.containing_service.full_name}/{method.name}",
        ask=ASKED[method.name],
        caller=As.NOBODY if method.name == "CreateGuest" else As.PLAYER,
        fresh=method.name in FRESH,
        takes_part=method.name == "Submit",
    )


def _seize(scene: Scene) -> pb.CreateMatchRequest:
    return pb.CreateMatchRequest(request_id=str(uuid.uuid4()), player_id=scene.victim)


def attacks() -> list[Attack]:
    """All of them, in order; those that last on others come last."""
    play = "/spectacularbid.match.v1.MatchService/Play"
    watch = "/spectacularbid.match.v1.MatchService/Watch"
    return [
        Attack("nothing: the attacker's own work", GAME, Kind.SPIN),
        *(_of(target, method) for target, method in public_methods()),
        Attack("illegal commands on Play", GAME, Kind.COMMANDS, play, takes_part=True),
        Attack("without a token", GAME, Kind.CALL, GET_MATCH, caller=As.NOBODY),
        Attack("forged token", GAME, Kind.CALL, GET_MATCH, caller=As.FORGER),
        Attack("unknown method", GAME, Kind.CALL, "/spectacularbid.match.v1.MatchService/Cheat"),
        Attack("Health/Check", GAME, Kind.CALL, f"{HEALTH}/Check", caller=As.NOBODY),
        Attack("Health/Check", MATCHMAKING, Kind.CALL, f"{HEALTH}/Check", caller=As.NOBODY),
        Attack("Health/Watch held", GAME, Kind.HOLD, f"{HEALTH}/Watch", caller=As.NOBODY),
        Attack("reflection held", GAME, Kind.HOLD, REFLECTION, caller=As.NOBODY),
        Attack("Watch held", GAME, Kind.HOLD, watch, ask=ASKED["Watch"]),
        Attack("calls whose message never comes", GAME, Kind.SILENT, GET_MATCH),
        Attack("calls made and cancelled", GAME, Kind.RESET, GET_MATCH, ask=ASKED["GetMatch"]),
        Attack("the same without a token", GAME, Kind.RESET, GET_MATCH, caller=As.NOBODY),
        Attack("streams made and cancelled", GAME, Kind.RESET, watch, ask=ASKED["Watch"]),
        Attack("connections", GAME, Kind.CONNECT),
        Attack("connections", MATCHMAKING, Kind.CONNECT),
        Attack(
            "seats of a seeker taken",
            GAME,
            Kind.CALL,
            _method("CreateMatch"),
            ask=_seize,
            fresh=True,
            players=2,
        ),
        Attack("24 players of one person leave", GAME, Kind.LEAVE, watch, players=24),
    ]


def _method(name: str) -> str:
    return f"/spectacularbid.match.v1.MatchService/{name}"
