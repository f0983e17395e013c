"""Tokens of pages: where the next page begins, written so that nothing but what this service wrote can be read.

They are no secret and not signed: whoever makes one up gets a page of what everybody may see, or MALFORMED.
"""

from __future__ import annotations

import base64
import binascii
import json
from datetime import UTC, datetime, timedelta
from typing import Final

from services.common.auth import PLAYER_ID
from services.common.errors import ServiceError, malformed
from services.storage.standings import LadderKey
from services.wire.commands import match_id_from_pb

TOKEN_LENGTH_MAX: Final = 512
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_MICROSECONDS_MAX: Final = (datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH) // _MICROSECOND


def ladder_token(key: LadderKey) -> str:
    """The token of the page after `key`."""
    return _token("ladder", [key.shown, key.player_id])


def ladder_key(token: str) -> LadderKey | None:
    """Where the page begins that a token names; None for the first. Raises ServiceError."""
    match _fields("ladder", token):
        case None:
            return None
        case [int(shown), str(player_id)] if abs(shown) < 2**31 and PLAYER_ID.match(player_id):
            return LadderKey(shown, player_id)
        case _:
            raise _bad_token()


def results_token(ended_no: int) -> str:
    """The token of the page after the match of this number."""
    return _token("results", [ended_no])


def results_key(token: str) -> int | None:
    """The number before which the page begins; None for the first page. Raises ServiceError."""
    match _fields("results", token):
        case None:
            return None
        case [int(ended_no)] if 0 <= ended_no < 2**63:
            return ended_no
        case _:
            raise _bad_token()


def matches_token(created_at: datetime, match_id: str) -> str:
    """The token of the page after this match of a player's own."""
    return _token("matches", [(created_at - _EPOCH) // _MICROSECOND, match_id])


def matches_key(token: str) -> tuple[datetime, str] | None:
    """The match before which the page begins; None for the first page. Raises ServiceError."""
    match _fields("matches", token):
        case None:
            return None
        case [int(microseconds), str(match_id)] if 0 <= microseconds <= _MICROSECONDS_MAX:
            try:
                return _EPOCH + microseconds * _MICROSECOND, match_id_from_pb(match_id)
            except ServiceError:
                raise _bad_token() from None
        case _:
            raise _bad_token()


def _token(kind: str, fields: list[int | str]) -> str:
    text = json.dumps([kind, *fields], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _fields(kind: str, token: str) -> list[object] | None:
    if not token:
        return None
    if len(token) > TOKEN_LENGTH_MAX:
        raise _bad_token()
    try:
        padded = token.encode("ascii") + b"=" * (-len(token) % 4)
        fields = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError):
        raise _bad_token() from None
    if not isinstance(fields, list) or fields[:1] != [kind]:
        raise _bad_token()
    # `true` would pass as the number 1.
    return [None if isinstance(field, bool) else field for field in fields[1:]]


def _bad_token() -> ServiceError:
    return malformed("page_token: must be empty or the next_page_token of the page before")
