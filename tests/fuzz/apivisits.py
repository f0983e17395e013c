"""Calls by all sorts of people to everything that is not a match, and what each of them must be told."""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Callable
from typing import Any, Final

from google.protobuf.message import DecodeError

from spectacularbid.identity.v1 import guest_service_pb2, player_service_pb2
from spectacularbid.ladder.v1 import ladder_service_pb2 as ladder_pb
from spectacularbid.match.v1 import match_service_pb2 as pb
from tests.fuzz.apicalls import METHODS, OPEN, Heard, Method
from tests.fuzz.apirequests import Guise, anything, broken
from tests.fuzz.apiworld import World
from tests.stack import SECRET

PLAYER_ID: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,63}\Z")
MATCH_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
ANY_TIME: Final = frozenset({"LIMIT_REACHED", "TRY_AGAIN", "LOST"})
"""What a busy service may say to anything, with RetryInfo; and what a client does not get to know."""
TOO_LARGE: Final = frozenset({"RESOURCE_EXHAUSTED", "LIMIT_REACHED"})
BYTES_MAX: Final = 64 * 1024
NAMES: Final = frozenset({"OK", "NAME_INVALID", "NAME_TAKEN", "NAME_CONFUSABLE"})
NO_PLACE: Final = "UNIMPLEMENTED"


class Visits:
    """Somebody who asks for anything in any way."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self.world = world
        self.rng = rng
        self.nobody = f"visitor-{rng.randrange(10**9)}"

    async def one(self) -> None:
        """One call."""
        rng = self.rng
        method = METHODS[rng.choice(sorted(METHODS))]
        guise = self._guise(method)
        request = anything(rng, method.request, self.world.ids())
        if isinstance(request, pb.CreateMatchRequest):
            self._harmless(request)
        if isinstance(request, pb.PlayRequest) and rng.random() < 0.5:
            request.join.match_id = rng.choice(self.world.ids() or ["x"])
        sent = request.SerializeToString()
        if rng.random() < 0.2:
            sent = broken(rng, sent)
        if rng.random() < 0.01:
            sent += b"\x7a\xff\xff\x07" + bytes(BYTES_MAX)
        home = method.home
        if rng.random() < 0.05:
            home = rng.choice(("game", "matchmaking", "placement", "clock"))
        heard = await self._call(method, sent, guise, home)
        wrong = self._wrong(method, sent, guise, home, heard)
        if wrong:
            self.world.find(f"{home} {method.path} by {guise.name}: {heard.said}, {wrong}: {sent[:300]!r}")

    def _guise(self, method: Method) -> Guise:
        rng, guises = self.rng, self.world.guises
        if not method.public:
            # With the secret the internal services are no business of players; only refusals are tried.
            return rng.choice(
                (
                    guises.wrong(rng, self.nobody),
                    guises.right(self.nobody),
                    guises.right(self.nobody, roles=("admin", "Operator", "")),
                    Guise("half a secret", (("authorization", f"Bearer {SECRET[:-1]}"),), "TOKEN_INVALID"),
                    Guise("the secret in another header", (("x-secret", SECRET),), "TOKEN_INVALID"),
                )
            )
        if rng.random() < 0.25:
            return guises.wrong(rng, self.nobody)
        return guises.right(self.nobody)

    def _harmless(self, request: pb.CreateMatchRequest) -> None:
        """Whatever is created ends soon, and nobody else is drawn into it."""
        request.start_limit_ms = 200
        if request.WhichOneof("opponent") == "player_id":
            request.player_id = self.rng.choice((self.nobody, "nobody-at-all", "\0", "x" * 65))

    async def _call(self, method: Method, sent: bytes, guise: Guise, home: str) -> Heard:
        name = next(name for name, each in METHODS.items() if each is method)
        # Of a stream that lasts, the first message is enough.
        return await self.world.call(name, sent, guise, home=home, most=1)

    # What it must be told.

    def _wrong(self, method: Method, sent: bytes, guise: Guise, home: str, heard: Heard) -> str:
        """What is wrong with the answer; empty when it is right."""
        right = self._right(method, sent, guise, home)
        if heard.said in ANY_TIME or heard.said in right:
            return "" if heard.error is not None else self._wrong_content(method, sent, heard)
        return f"not one of {sorted(right)}"

    def _right(self, method: Method, sent: bytes, guise: Guise, home: str) -> frozenset[str]:
        if home != method.home:
            return frozenset({NO_PLACE})
        refused = guise.refused if method.name not in OPEN else None
        if not method.public and refused is None:
            refused = "ROLE_MISSING" if method.operators else "TOKEN_INVALID"
        elif not method.public and not method.operators:
            refused = "TOKEN_INVALID"
        size = TOO_LARGE if len(sent) > BYTES_MAX - 1024 else frozenset[str]()
        if refused is not None:
            return frozenset({refused}) | size
        request = method.request()
        try:
            request.ParseFromString(sent)
        except DecodeError:
            return frozenset({"MALFORMED"}) | size
        return frozenset(_EXPECTED[method.name](self, request)) | size

    def _wrong_content(self, method: Method, sent: bytes, heard: Heard) -> str:
        request = method.request()
        request.ParseFromString(sent)
        if not heard.messages:
            return "" if method.answers else "an answer without a message"
        answer: Any = heard.messages[0]
        if isinstance(request, ladder_pb.GetLeaderboardRequest):
            shown = [standing.shown_rating for standing in answer.standings]
            ids = [standing.player.player_id for standing in answer.standings]
            if shown != sorted(shown, reverse=True) or len(set(ids)) < len(ids):
                return "a leaderboard out of order"
            if len(ids) > (request.page_size or 20):
                return "a page too long"
        if isinstance(request, pb.ListMyMatchesRequest):
            return "" if len(answer.matches) <= (request.page_size or 20) else "a page too long"
        if isinstance(request, player_service_pb2.GetProfileRequest):
            asked = request.player_id or self.nobody
            return "" if answer.profile.player_id == asked else "the profile of another player"
        if isinstance(request, guest_service_pb2.CreateGuestRequest):
            return "" if PLAYER_ID.match(answer.player_id) and answer.token else "no guest"
        return ""

    def player(self, player_id: str) -> set[str]:
        """What a question about a player is told."""
        if player_id in ("", self.nobody):
            return {"OK"}
        if not PLAYER_ID.match(player_id):
            return {"MALFORMED", "PLAYER_NOT_FOUND"}
        return {"OK"} if player_id in self.world.known else {"PLAYER_NOT_FOUND"}

    def match(self, match_id: str, *right: str) -> set[str]:
        """What a question about a match is told."""
        if match_id in self.world.ever:
            # Visitors know one game process. Where there are more, the match may be played elsewhere.
            return set(right) | ({"WRONG_ADDRESS"} if len(self.world.games) > 1 else set())
        try:
            uuid.UUID(match_id)
        except ValueError:
            return {"MALFORMED"}
        return {"MATCH_NOT_FOUND"} if MATCH_ID.match(match_id) else {"MALFORMED", "MATCH_NOT_FOUND"}

    def create(self, request: pb.CreateMatchRequest) -> set[str]:
        """What CreateMatch is told, as far as it is known beforehand."""
        if request.WhichOneof("opponent") is None or not re.fullmatch(r"[!-~]{1,64}", request.request_id):
            return {"MALFORMED"}
        if request.WhichOneof("opponent") == "player_id":
            return {"MALFORMED", "PLAYER_NOT_FOUND", "PLAYER_BUSY", "REQUEST_ID_REUSED"}
        return {"OK", "MALFORMED", "PLAYER_BUSY", "REQUEST_ID_REUSED"}


def _page(size: int, token: str, right: set[str], *, most: int = 100, negative: bool = False) -> set[str]:
    """What a question for a page is told: tokens are not made up here, so at best one is none."""
    if not (0 <= size <= most):
        return {"MALFORMED"} | ({"PLAYER_NOT_FOUND"} if right == {"PLAYER_NOT_FOUND"} else set())
    return right | {"MALFORMED"} if token else right


def _joined(visits: Visits, request: pb.PlayRequest) -> set[str]:
    if request.WhichOneof("message") != "join":
        return {"MALFORMED"}
    return _watched(visits, request.join)


def _watched(visits: Visits, request: pb.WatchRequest) -> set[str]:
    right = visits.match(request.match_id, "OK")
    return {"MALFORMED"} if "OK" in right and request.resume_after < 0 else right


def _submitted(visits: Visits, request: pb.SubmitRequest) -> set[str]:
    return visits.match(request.match_id, "NOT_SEATED", "MALFORMED")


_EXPECTED: Final[dict[str, Callable[[Visits, Any], set[str]]]] = {
    "Submit": _submitted,
    "Watch": _watched,
    "Play": _joined,
    "GetMatch": lambda visits, request: visits.match(request.match_id, "OK"),
    "ListMyMatches": lambda visits, request: _page(request.page_size, request.page_token, {"OK"}),
    "GetRecord": lambda visits, request: visits.match(request.match_id, "MATCH_LIVE", "RECORD_PRIVATE", "OK"),
    "CreateMatch": Visits.create,
    "Seek": lambda visits, request: {"OK", "MALFORMED", "PLAYER_BUSY"},
    "CancelSeek": lambda visits, request: {"OK", "NO_SEEK"},
    "LocateMatch": lambda visits, request: visits.match(request.match_id, "OK"),
    "GetLeaderboard": lambda visits, request: _page(request.page_size, request.page_token, {"OK"}),
    "GetNeighbourhood": lambda visits, request: _page(
        request.each_way, "", visits.player(request.player_id), most=50
    ),
    "GetPlayer": lambda visits, request: visits.player(request.player_id),
    "ListMatches": lambda visits, request: _page(
        request.page_size, request.page_token, visits.player(request.player_id)
    ),
    "GetRatingDecision": lambda visits, request: visits.match(
        request.match_id, "MATCH_LIVE", "NO_DECISION", "OK"
    ),
    "Register": lambda visits, request: {*NAMES, "NAME_CHOSEN"},
    "GetProfile": lambda visits, request: visits.player(request.player_id),
    "CreateGuest": lambda visits, request: set(NAMES),
    "GetRules": lambda visits, request: {"OK", "MALFORMED"},
}
"""What each call of a player without a match may be told, apart from limits."""
