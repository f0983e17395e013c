"""Requests of players read, and answers written: messages of spectacularbid.match.v1."""

from __future__ import annotations

import hashlib
import re
from typing import Final

import grpc

from engine import command as commands
from engine.command import Command
from engine.refusal import Refusal
from engine.seats import Seat
from engine.shuffle import CONTRIBUTION_MAX
from services.common.errors import ServiceError, malformed
from services.wire.tables import end_from_pb, tile_from_pb
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import refusal_pb2

REQUEST_ID: Final = re.compile(r"[!-~]{1,64}\Z")
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
_HARMLESS: Final = re.compile(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}\Z")

_INVALID: Final = grpc.StatusCode.INVALID_ARGUMENT
_PRECONDITION: Final = grpc.StatusCode.FAILED_PRECONDITION
_WRONG_IN_ANY_STATE: Final = frozenset({Refusal.BID_NOT_A_MULTIPLE_OF_FIVE, Refusal.NOT_SAME_DEVICE})

STATUS: Final = {
    refusal: grpc.StatusCode.ABORTED
    if refusal is Refusal.STALE_DECISION
    else _INVALID
    if refusal in _WRONG_IN_ANY_STATE
    else _PRECONDITION
    for refusal in Refusal
}
"""The status of each refusal: wrong in any state, stale, or wrong now."""


def refusal_error(refusal: Refusal) -> ServiceError:
    """A refusal as the failure of a unary call. Equal refusals give equal errors, whatever the hidden tiles are."""
    return ServiceError(
        STATUS[refusal], refusal.value, refusal_message(refusal), metadata={"rule": refusal.rule}
    )


def refusal_message(refusal: Refusal) -> str:
    """A sentence for people."""
    return f"{refusal.value.lower().replace('_', ' ')} (rule {refusal.rule})"


def refused_to_pb(error: ServiceError) -> pb.Refused:
    """A failure as a message of a Play stream."""
    reason = error.reason if error.reason in Refusal.__members__ else "UNSPECIFIED"
    return pb.Refused(
        reason=refusal_pb2.RefusalReason.Value(f"REFUSAL_REASON_{reason}"),
        rule=error.metadata.get("rule", ""),
        code=error.code_number,
        message=error.message,
        reason_word=error.reason,
        retry_after_ms=int((error.retry_after_seconds or 0) * 1000),
    )


_NAMED: Final = {seat: seat.value.encode() for seat in Seat}


def is_match_id(text: str) -> bool:
    """Whether it has the form of a match id."""
    return _UUID.match(text) is not None


def is_request_id(text: str) -> bool:
    """Whether it has the form of a request id."""
    return REQUEST_ID.match(text) is not None


def is_harmless(text: str) -> bool:
    """Whether it is a UUID, with hyphens or without, as nearly all ids are: it can hold nothing that must not be seen."""
    return _HARMLESS.match(text) is not None


def match_id_from_pb(text: str) -> str:
    """A match id. Raises ServiceError."""
    if not is_match_id(text):
        raise malformed("match_id: must be a lower-case UUID")
    return text


def request_id_from_pb(text: str) -> str:
    """A request id. Raises ServiceError."""
    if REQUEST_ID.match(text) is None:
        raise malformed("request_id: must be 1 to 64 visible ASCII characters")
    return text


def payload_hash(request: pb.SubmitRequest, seat: Seat) -> bytes:
    """What makes two requests the same apart from their id."""
    named = b"%b %d " % (_NAMED[seat], request.decision_id)
    return hashlib.sha256(named + request.command.SerializeToString(deterministic=True)).digest()


def _contribution(given: bytes, field: str) -> bytes:
    if len(given) > CONTRIBUTION_MAX:
        raise malformed(f"{field}.contribution: must have at most {CONTRIBUTION_MAX} bytes")
    return given


def command_from_pb(request: pb.SubmitRequest, seat: Seat) -> Command:
    """The command of a seat. Raises ServiceError (MALFORMED) naming the field at fault."""
    command = request.command
    action = command.WhichOneof("action")
    if action is None:
        raise malformed("command: no action is given")
    if action != "resign" and request.decision_id <= 0:
        raise malformed("decision_id: must name the question on the table")
    match action:  # the most frequent ones first
        case "play":
            play = command.play
            if not play.HasField("tile"):
                raise malformed("command.play.tile: must be given")
            tile = tile_from_pb(play.tile, "command.play.tile")
            end = end_from_pb(play.end, "command.play.end") if play.HasField("end") else None
            return commands.Play(seat, tile, end)
        case "draw":
            return commands.Draw(seat)
        case "start":
            return commands.Start(seat, _contribution(command.start.contribution, "command.start"))
        case "continue_round":
            given = command.continue_round.contribution
            return commands.Continue(seat, _contribution(given, "command.continue_round"))
        case "reveal":
            return commands.Reveal(seat)
        case "bid":
            if not command.bid.HasField("amount"):
                raise malformed("command.bid.amount: must be given")
            return commands.Bid(seat, command.bid.amount)
        case "accept":
            return commands.Accept(seat)
        case "decline":
            return commands.Decline(seat)
        case "pass_turn":
            return commands.Pass(seat)
        case "resign":
            return commands.Resign(seat)
