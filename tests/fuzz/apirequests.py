"""Requests that nobody should send, and the callers nobody should be."""

from __future__ import annotations

import base64
import json
import random
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import jwt
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from engine.shuffle import CONTRIBUTION_MAX
from engine.tiles import DOUBLE_SIX
from services.common.auth import TokenIssuer, write_new_keys
from spectacularbid.match.v1 import match_service_pb2 as pb
from spectacularbid.match.v1 import table_pb2
from tests.seats import new_id, tile_to_pb
from tests.stack import AUDIENCE, ISSUER, Metadata, Stack

NUMBERS: Final = (0, 1, -1, 2, 3, 5, 15, 99, 100, 101, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63))
TEXTS: Final = (
    "",
    "a",
    "\0",
    "x" * 64,
    "x" * 65,
    "x" * 5000,
    "' or 1=1 --",
    "%s%n{0}",
    "\r\nset-cookie: a",
    "\u202eevil",
    "🁣🁣",
    "Ann",
    "en",
    "ja-JP",
    "AAAA====",
    str(uuid.UUID(int=7)),
    str(uuid.UUID(int=11)).upper(),
    "{00000000-0000-0000-0000-000000000001}",
    base64.urlsafe_b64encode(f"0001-01-01T00:00:00+14:00 {uuid.UUID(int=1)}".encode()).decode(),
    base64.urlsafe_b64encode(f"9999-12-31T23:59:59-14:00 {uuid.UUID(int=1)}".encode()).decode(),
    base64.urlsafe_b64encode(rb'["ladder",1,"\ud800"]').decode().rstrip("="),
    base64.urlsafe_b64encode(b'["ladder",1,"' + b"x" * 300 + b'"]').decode().rstrip("="),
    base64.urlsafe_b64encode(b'["results",-1]').decode().rstrip("="),
    base64.urlsafe_b64encode(b'["results",99999999999999999999]').decode().rstrip("="),
    base64.urlsafe_b64encode(b"[" * 300).decode().rstrip("="),
)
PORTS: Final = [*table_pb2.Port.values(), 99]

_FLOATS: Final = (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT)


def anything(rng: random.Random, kind: type[Message], texts: Sequence[str], depth: int = 0) -> Any:
    """A message of a kind with random fields, most of them nonsense. `texts` are ids that mean something."""
    message = kind()
    fields: Any = message.DESCRIPTOR.fields
    for field in fields:
        if rng.random() < 0.45 or depth > 4:
            continue
        count = rng.choice((1, 1, 2, 3)) if field.is_repeated else 1
        for _ in range(count):
            _put(rng, message, field, texts, depth)
    return message


def _put(
    rng: random.Random, message: Message, field: FieldDescriptor, texts: Sequence[str], depth: int
) -> None:
    value: Any
    if field.message_type is not None:
        inner = anything(rng, type(_empty(message, field)), texts, depth + 1)
        if field.is_repeated:
            getattr(message, field.name).append(inner)
        else:
            getattr(message, field.name).CopyFrom(inner)
        return
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        value = rng.choice(texts) if texts and rng.random() < 0.5 else rng.choice(TEXTS)
        if field.type == FieldDescriptor.TYPE_BYTES:
            value = value.encode()
    elif field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        value = rng.random() < 0.5
    elif field.cpp_type in _FLOATS:
        value = rng.choice((0.0, -1.0, 1e300, float("nan"), float("inf")))
    else:
        small = field.cpp_type in (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_ENUM)
        value = rng.choice(NUMBERS) if rng.random() < 0.3 else rng.randrange(7)
        if small and not -(2**31) <= value < 2**31:
            value = rng.randrange(7)
        if field.cpp_type in (FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64):
            value = abs(value) % 2**32
    if field.is_repeated:
        getattr(message, field.name).append(value)
    else:
        setattr(message, field.name, value)


def _empty(message: Message, field: FieldDescriptor) -> Message:
    if field.is_repeated:
        added: Message = getattr(type(message)(), field.name).add()
        return added
    inner: Message = getattr(message, field.name)
    return inner


def broken(rng: random.Random, sent: bytes) -> bytes:
    """The bytes of a message, damaged; with luck still a message."""
    raw = bytearray(sent)
    match rng.randrange(7):
        case 0:
            return bytes(raw[: rng.randrange(len(raw) + 1)])
        case 1:
            return rng.randbytes(rng.randrange(1, 60))
        case 2:  # a field that there is not
            return bytes(raw) + b"\xfa\x3f\x05hello"
        case 3:  # groups without end
            return bytes(raw) + b"\x0b" * rng.choice((10, 200, 20_000))
        case 4:  # text that is no UTF-8
            return bytes(raw) + b"\x0a\x04\xff\xfe\xc0\x80"
        case 5:  # twice: the last one counts, or all of them
            return bytes(raw + raw)
        case _:
            if raw:
                raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
            return bytes(raw)


def nonsense(rng: random.Random) -> pb.Command:
    """Any command but Resign, most likely wrong now."""
    tile, other = (tile_to_pb(each.text) for each in rng.sample(DOUBLE_SIX, 2))
    end = table_pb2.End(tile=other, port=table_pb2.Port.ValueType(rng.choice(PORTS)))
    makers: list[Callable[[], pb.Command]] = [
        lambda: pb.Command(play=pb.PlaceTile(tile=tile, end=end)),
        lambda: pb.Command(play=pb.PlaceTile(tile=tile)),
        lambda: pb.Command(play=pb.PlaceTile(tile=table_pb2.Tile(low=3))),
        lambda: pb.Command(play=pb.PlaceTile(tile=table_pb2.Tile(low=5, high=2))),
        lambda: pb.Command(bid=pb.Bid(amount=rng.randrange(-10, 320))),
        lambda: pb.Command(bid=pb.Bid(amount=5 * rng.randrange(0, 40))),
        lambda: pb.Command(bid=pb.Bid()),
        lambda: pb.Command(draw=pb.Draw()),
        lambda: pb.Command(pass_turn=pb.Pass()),
        lambda: pb.Command(accept=pb.Accept()),
        lambda: pb.Command(decline=pb.Decline()),
        lambda: pb.Command(start=pb.Start()),
        lambda: pb.Command(continue_round=pb.Continue()),
        lambda: pb.Command(reveal=pb.Reveal()),
        lambda: pb.Command(),
    ]
    return rng.choice(makers)()


def near(rng: random.Random, table: table_pb2.Table) -> pb.Command:
    """A command that fits the table nearly, or quite."""
    ends = [end.end for end in table.layout.ends]
    spinner = table.layout.spinner
    ends += [
        table_pb2.End(tile=spinner, port=port)
        for port in (table_pb2.PORT_BRANCH_A, table_pb2.PORT_BRANCH_B)
        if table.layout.HasField("spinner")
    ]
    ends += [table_pb2.End(tile=placed.tile, port=table_pb2.PORT_HIGH) for placed in table.layout.placements]
    tiles = [*table.hand, *(tile_to_pb(tile.text) for tile in rng.sample(DOUBLE_SIX, 2))]
    bids = (
        0,
        10,
        15,
        17,
        150,
        155,
        165,
        300,
        table.standing_bid,
        table.standing_bid + 5,
        table.standing_bid + 10,
    )
    kind = rng.randrange(10)
    if kind < 5:
        end = rng.choice(ends) if ends and rng.random() < 0.9 else None
        return pb.Command(play=pb.PlaceTile(tile=rng.choice(tiles), end=end))
    if kind < 7:
        return pb.Command(bid=pb.Bid(amount=rng.choice(bids)))
    return rng.choice(
        (
            pb.Command(draw=pb.Draw()),
            pb.Command(pass_turn=pb.Pass()),
            pb.Command(accept=pb.Accept()),
            pb.Command(decline=pb.Decline()),
        )
    )


def add(rng: random.Random, command: pb.Command, *, most: int = CONTRIBUTION_MAX) -> None:
    """What a player may add to a deal, with the press for it."""
    action = command.WhichOneof("action")
    if action in ("start", "continue_round") and rng.random() < 0.7:
        getattr(command, action).contribution = rng.randbytes(rng.randrange(most + 1))


def request_id(rng: random.Random) -> str:
    """One that nobody has used, or one that counts as other clients' do."""
    return new_id() if rng.random() < 0.85 else rng.choice(("1", "2", "3", "move-1", "move-2", "r" * 64))


@dataclass(frozen=True, slots=True)
class Guise:
    """How a call says who makes it."""

    name: str
    metadata: Metadata
    refused: str | None
    """What it is answered with everywhere; None for a good token."""
    player_id: str = ""
    bot: bool = False


class Guises:
    """Tokens that are none."""

    def __init__(self, made: Stack, folder: Path) -> None:
        write_new_keys(folder / "foreign.pem", folder / "foreign.json")
        self._issuer = made.issuer
        self._foreign = TokenIssuer(folder / "foreign.pem", ISSUER, AUDIENCE)
        self._elsewhere = TokenIssuer(folder / "key.pem", ISSUER, "another-service")
        self._stranger = TokenIssuer(folder / "key.pem", "another-issuer", AUDIENCE)
        self._public = (folder / "jwks.json").read_text("utf-8")

    def wrong(self, rng: random.Random, player_id: str) -> Guise:
        """Somebody who says to be this player and is not believed."""
        good = self._issuer.issue(player_id, player_id[:20], seconds=3600)[0]
        head, body, signature = good.split(".")
        kid = jwt.get_unverified_header(good)["kid"]
        claims = jwt.decode(good, options={"verify_signature": False})
        unsigned = jwt.encode(claims, "", algorithm="none", headers={"kid": kid})
        makers: dict[str, Callable[[], str | None]] = {
            "nobody": lambda: None,
            "expired": lambda: self._issuer.issue(player_id, "x", seconds=-30)[0],
            "foreign key": lambda: self._foreign.issue(player_id, "x", seconds=3600)[0],
            "other audience": lambda: self._elsewhere.issue(player_id, "x", seconds=3600)[0],
            "other issuer": lambda: self._stranger.issue(player_id, "x", seconds=3600)[0],
            "no algorithm": lambda: unsigned,
            "public key as secret": lambda: _symmetric(claims, kid, self._public),
            "no signature": lambda: f"{head}.{body}.",
            "other claims": lambda: f"{head}.{_claims({**claims, 'sub': 'bot-strong'})}.{signature}",
            "garbage": lambda: rng.choice(("", "x", "a.b.c", "." * 40, "x" * 9000)),
            "no player": lambda: self._issuer.issue(
                rng.choice(("", "A", "-a", "a b", "x" * 65)), "x", seconds=3600
            )[0],
        }
        name = rng.choice(sorted(makers))
        token = makers[name]()
        reason = "TOKEN_EXPIRED" if name == "expired" else "TOKEN_INVALID"
        if token is None:
            return Guise(name, rng.choice(((), (("authorization", "Basic eA=="),))), reason)
        return Guise(name, (("authorization", f"Bearer {token}"),), reason)

    def right(self, player_id: str, *, bot: bool = False, roles: Sequence[str] = ()) -> Guise:
        """A good token."""
        token = self._issuer.issue(player_id, player_id[:20], bot=bot, roles=roles, seconds=3600)[0]
        return Guise(
            "bot" if bot else "player", (("authorization", f"Bearer {token}"),), None, player_id, bot
        )


def _claims(claims: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")


def _symmetric(claims: dict[str, Any], kid: str, public: str) -> str:
    key = json.loads(public)["keys"][0]["x"]
    return jwt.encode(claims, key.ljust(64, "="), algorithm="HS256", headers={"kid": kid})
