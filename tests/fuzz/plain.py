"""Fuzz targets for texts: names, tokens, key sets, settings, log lines, and the small grammars of the API."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import random
import re
import time
import traceback
import zlib
from collections.abc import Iterator
from functools import cache
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from engine.rules.book import matching
from services.canary.settings import CanarySettings
from services.clock.settings import ClockSettings
from services.common import redaction
from services.common.auth import PLAYER_ID, Identity, TokenVerifier
from services.common.errors import ServiceError
from services.common.names import NameFaultError, parse_name, skeleton
from services.common.peers import FORWARDED, LOCAL, Peers, read_networks
from services.common.settings import PREFIX, CommonSettings, SettingsError, load
from services.common.tracing import TraceContext
from services.game.settings import GameSettings
from services.matchmaking.settings import MatchmakingSettings
from services.wire import pages
from services.wire.commands import match_id_from_pb, request_id_from_pb
from tests.fuzz.mutation import mutate_bytes, mutate_json_bytes, mutate_text, some_text
from tests.fuzz.target import Target, scratch

ISSUER: Final = "fuzz"
SECRET: Final = "correct-horse-battery-staple"
"""Whatever settings say, no text of theirs shows this."""


def _text(data: bytes) -> str:
    """Any bytes as text that a protobuf string or an environment can hold."""
    return data.decode("utf-8", "replace")


# Names


def run_name(data: bytes) -> None:
    """A name is refused, or has one form, a key and a skeleton that fit the database, and stays the same when read again."""
    text = data.decode("utf-8", "surrogatepass") if _is_almost_utf8(data) else data.decode("latin1")
    try:
        name = parse_name(text)
    except NameFaultError as fault:
        str(fault).encode()
        return
    name.shown.encode()
    assert 1 <= len(name.key) <= 128, name
    assert 1 <= len(name.skeleton) <= 512, name
    assert parse_name(name.shown) == name, "reading it again gives another name"
    assert skeleton(name.shown) == name.skeleton


def _is_almost_utf8(data: bytes) -> bool:
    with contextlib.suppress(UnicodeDecodeError):
        data.decode("utf-8", "surrogatepass")
        return True
    return False


_LETTERS: Final = (
    *(
        "abcXYZ019",
        "abc -_.'",
        "\u0300\u0301\u0307\u0345\u0327",
        "ßſİıiIl1ǰΐŉẖﬁﬀᾳῼϓẞ",
        "αβγςσΣ",
        "абвЭ",
        "漢字ひカ",
    ),
    *(
        "ابتث",
        "אבגי",
        "가각\u1100\u1161",
        "０１ａＡ",
        "①½ªº",
        "ᏣᏤꭰ",
        "Ⅻⅻ",
        "ԱԵև",
        "𝐀𝒜𝔞",
        "\u200d\u200c\u00ad",
        "ﷺ",
        "ɑɡʟʔ",
    ),
)


def mutate_name(data: bytes, rng: random.Random) -> bytes:
    """A name with other characters in it."""

    def letter(rng: random.Random) -> str:
        if rng.random() < 0.7:
            return rng.choice(rng.choice(_LETTERS))
        return chr(rng.choice((rng.randrange(0x20, 0x3000), rng.randrange(0x110000))))

    text = data.decode("utf-8", "surrogatepass") if _is_almost_utf8(data) else data.decode("latin1")
    return mutate_text(text, rng, letter).encode("utf-8", "surrogatepass")


def name_seeds() -> Iterator[bytes]:
    """Names of several scripts, and some that are refused."""
    for name in (
        "Ana",
        "Spectacular Bid",
        "O'Neil Jr. Z",
        "Ζωή",
        "漢字カナ",
        "ﬁn",
        "ı̇x",
        "ß1",
        "Éva-Ｍ",
        "player-abcdef",
    ):
        yield name.encode()


# Tokens and keys


@cache
def _keys() -> tuple[Ed25519PrivateKey, Path, dict[str, Any]]:
    """A key that is always the same, and the file of its key set."""
    key = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"a key for fuzzing").digest())
    jwk = jwt.algorithms.OKPAlgorithm.to_jwk(key.public_key(), as_dict=True)
    jwk |= {"kid": "fuzz", "use": "sig", "alg": "EdDSA"}
    file = scratch() / "jwks.json"
    file.write_text(json.dumps({"keys": [jwk]}), "utf-8")
    return key, file, jwk


@cache
def _verifier() -> TokenVerifier:
    return TokenVerifier(_keys()[1], ISSUER, ISSUER)


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def token_of(data: bytes) -> str:
    """Two lines, `{header}` and `{claims}`, are signed with the right key; `$NOW` in them is now, `$SOON` in five minutes.
    Anything else is a token as it stands."""
    if not data.startswith(b"{"):
        return data.decode("latin1")
    now = int(time.time())
    data = data.replace(b"$SOON", str(now + 300).encode()).replace(b"$NOW", str(now).encode())
    header, _, claims = data.partition(b"\n")
    signed = f"{_b64(header)}.{_b64(claims)}"
    return f"{signed}.{_b64(_keys()[0].sign(signed.encode()))}"


def run_token(data: bytes) -> None:
    """A token is refused as such, or it is signed with the key, and says who somebody is."""
    token = token_of(data)
    said: Identity | ServiceError
    try:
        said = _verifier().verify(token)
    except ServiceError as error:
        said = error
    if isinstance(said, ServiceError):
        assert said.code.name == "UNAUTHENTICATED", said
        return
    assert PLAYER_ID.match(said.player_id), said
    signed, _, signature = token.rpartition(".")
    try:
        _keys()[0].public_key().verify(base64.urlsafe_b64decode(signature + "=="), signed.encode())
    except InvalidSignature:
        raise AssertionError(f"a forged token is accepted: {token}") from None


def mutate_token(data: bytes, rng: random.Random) -> bytes:
    """Header or claims of a signed token changed, or a token that is none."""
    if not data.startswith(b"{") or rng.random() < 0.1:
        return mutate_bytes(data, rng)
    lines = data.replace(b"$SOON", b"9999999999").replace(b"$NOW", b"9999999990").split(b"\n")
    at = rng.randrange(len(lines))
    lines[at] = mutate_json_bytes(lines[at], rng)
    return _relative(b"\n".join(lines))


def _relative(data: bytes) -> bytes:
    return data.replace(b"9999999999", b"$SOON").replace(b"9999999990", b"$NOW")


def token_seeds() -> Iterator[bytes]:
    """A guest, an operator, a house bot; other algorithms; and the same as three segments."""
    header = {"alg": "EdDSA", "kid": "fuzz", "typ": "JWT"}
    claims = {
        "iss": ISSUER,
        "aud": ISSUER,
        "sub": "guest-1",
        "name": "N",
        "iat": 9999999990,
        "exp": 9999999999,
    }
    for change in (
        {},
        {"roles": ["operator"]},
        {"bot": True, "sub": "bot-easy"},
        {"nbf": 1, "jti": "x"},
    ):
        signed = json.dumps(header) + "\n" + json.dumps(claims | change)
        yield _relative(signed.encode())
    for algorithm in ("none", "HS256", "RS256", None):
        yield _relative((json.dumps(header | {"alg": algorithm}) + "\n" + json.dumps(claims)).encode())
    yield token_of((json.dumps(header) + "\n" + json.dumps(claims | {"exp": 1})).encode()).encode()


def run_jwks(data: bytes) -> None:
    """A key set is refused with ValueError, or has a key by which tokens are checked; none of them opens by itself."""
    file = _keys()[1].with_name("other.json")
    file.write_bytes(data)
    try:
        verifier = TokenVerifier(file, ISSUER, ISSUER)
    except ValueError as fault:
        str(fault).encode("utf-8", "backslashreplace")
        return
    for token in ("", "a.b.c", token_of(next(token_seeds()))):
        with contextlib.suppress(ServiceError):
            verifier.verify(token)


def jwks_seeds() -> Iterator[bytes]:
    """Key sets of each kind of key."""
    jwk = _keys()[2]
    yield json.dumps({"keys": [jwk]}).encode()
    yield json.dumps({"keys": [jwk, jwk | {"kid": "two", "use": "enc"}]}).encode()
    yield json.dumps(
        {"keys": [{"kty": "RSA", "n": "w" * 342, "e": "AQAB", "kid": "r", "alg": "RS256"}]}
    ).encode()
    point = {
        "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
        "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM",
    }
    yield json.dumps({"keys": [{"kty": "EC", "crv": "P-256", **point, "kid": "e", "alg": "ES256"}]}).encode()
    yield json.dumps({"keys": [{"kty": "oct", "k": "AAAA", "alg": "HS256", "kid": "o"}]}).encode()


# Settings


_SECRETS: Final = ("DATABASE_URL", "INTERNAL_SECRET")
KINDS: Final = (GameSettings, ClockSettings, MatchmakingSettings, CanarySettings)


def run_settings(data: bytes) -> None:
    """An environment is refused with SettingsError, or makes settings; a password is in no text of either."""
    wanted = {}
    for line in data.split(b"\0"):
        name, _, value = line.decode("utf-8", "surrogateescape").partition("=")
        if re.fullmatch(r"[A-Z0-9_]{1,60}", name):
            # Only what is a secret is kept as one: the address that is no address is shown to whoever wrote it.
            wanted[PREFIX + name] = value.replace("$SECRET", SECRET if name in _SECRETS else "")
    kept = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith(PREFIX)}
    os.environ.update(wanted)
    try:
        # One of them, decided by the input: each takes a while.
        _load(KINDS[zlib.crc32(data) % len(KINDS)])
    finally:
        for name in wanted:
            os.environ.pop(name, None)
        os.environ.update(kept)


def _load(kind: Any) -> None:
    try:
        settings = load(kind)
    except SettingsError as fault:
        shown = "".join(traceback.format_exception(fault))
    else:
        shown = repr(settings)
        if isinstance(settings, CommonSettings):
            shown += json.dumps(settings.redacted(), default=str)
    assert SECRET not in shown, f"a secret is shown by {kind.__name__}: {shown[-300:]}"


_BASE: Final = {
    "DATABASE_URL": "postgresql://u:$SECRET@host:5432/db",
    "LISTEN": "127.0.0.1:0",
    "INTERNAL_SECRET": "$SECRET",
    "JWKS_FILE": "/nonexistent",
    "CLOCK_ADDRESS": "clock:1",
    "MATCHMAKING_ADDRESS": "matchmaking:1",
}


def _environment(**change: str) -> bytes:
    return "\0".join(f"{name}={value}" for name, value in (_BASE | change).items()).encode(
        "utf-8", "surrogateescape"
    )


def mutate_settings(data: bytes, rng: random.Random) -> bytes:
    """Variables changed, dropped, or added by the names that there are."""
    pairs = data.split(b"\0")
    at = rng.randrange(len(pairs) + 1)
    match rng.randrange(6):
        case 0:
            del pairs[at : at + 1]
        case 1 | 2:
            value = some_text(rng).replace("\0", "").encode("utf-8", "replace")
            pairs[at:at] = [rng.choice(_variables()).encode() + b"=" + value]
        case 3:
            number = rng.choice(
                ("nan", "inf", "1e999", "-1", "0", "9" * 5000, "1_0", "8.0", "true", "[]", "{}", '["a"]')
            )
            pairs[at:at] = [rng.choice(_variables()).encode() + b"=" + number.encode()]
        case _ if at < len(pairs):
            name, _, value = pairs[at].partition(b"=")
            pairs[at] = name + b"=" + mutate_bytes(value, rng).replace(b"\0", b"")
    return b"\0".join(pairs)


@cache
def _variables() -> tuple[str, ...]:
    return tuple(sorted({name.upper() for kind in KINDS for name in kind.model_fields}))


def settings_seeds() -> Iterator[bytes]:
    """Environments that nearly start a process, in production too."""
    yield _environment()
    yield _environment(ENV="production", TOKEN_ISSUER="https://issuer")
    yield _environment(ENV="test", HOUSE_BOTS='["easy"]', TRACING_ENDPOINT="http://h:4317")
    yield _environment(DATABASE_URL="postgresql://u:$SECRET@[x/db")
    yield _environment(LISTEN="[::1]:0", KEEPALIVE_SECONDS="30", LOG_LEVEL="debug")


# Log lines


_SECRET_SHAPES: Final = tuple(
    map(
        re.compile,
        (
            r"eyJ[\w-]{4,4096}\.",
            r"(?<![\w|])[0-6]\|[0-6](?![\w|])",
            r"(?<![0-9A-Za-z])[0-9a-f]{64}(?![0-9A-Za-z])",
            r"[Bb]earer [a-z0-9]",
            r"[Pp]assword=[a-z0-9]",
        ),
    )
)


def run_redact(data: bytes) -> None:
    """A line stays one object of JSON, on one line, without what has the shape of a secret; doing it twice changes nothing."""
    text = data.decode("latin1")
    line = redaction.render(None, "info", {"event": "x", "text": text, "password": text})
    assert line.isascii()
    assert "\n" not in line
    assert isinstance(json.loads(line), dict), line
    shown = json.loads(line)["text"]
    for shape in _SECRET_SHAPES:
        found = shape.search(shown)
        assert found is None, f"{found[0]!r} is shown: {line}"


def redact_seeds() -> Iterator[bytes]:
    """Each shape that is looked for."""
    for text in (
        *(
            "password=abc",
            "Bearer abc",
            "://a:b@c",
            "salt: b'x'",
            "eyJhbGci.abc.def",
            "low 1 high 3",
            "6|6 1|2",
        ),
        *("a\n6|6\n1|2", "a\n" + "f" * 64, "a\nBearer abc", "a\x0eeyJhbGci.abc.def", "salt: b'abc"),
        *("salt " + "0" * 32, "f" * 64, "Password: 'x'", "low=1, high=2", 'password": "x"', "'Bearer x'"),
    ):
        yield text.encode()


# The small grammars of the API


def run_words(data: bytes) -> None:
    """Tags, ids, page tokens and traces: read or refused as the API says, and what is read fits the database."""
    text = _text(data)
    if len(text) > 5 and (trace := TraceContext.parse(text)) is not None:
        assert TraceContext.parse(str(trace)) == trace
    with contextlib.suppress(ValueError):
        matching(text)
    _address(text)
    for read in (match_id_from_pb, request_id_from_pb):
        with contextlib.suppress(ServiceError):
            read(text)
    with contextlib.suppress(ServiceError):
        key = pages.ladder_key(text)
        if key is not None:
            assert PLAYER_ID.match(key.player_id), key
            assert pages.ladder_key(pages.ladder_token(key)) == key
    with contextlib.suppress(ServiceError):
        number = pages.results_key(text)
        assert number is None or 0 <= number < 2**63
    with contextlib.suppress(ServiceError):
        page = pages.matches_key(text)
        assert page is None or pages.matches_key(pages.matches_token(*page)) == page


_PEERS: Final = Peers(read_networks(("10.0.0.0/8", "fd00::/8")))


def _address(text: str) -> None:
    """Whoever it is said to be behind a proxy or on the connection, it is one address, or what has none."""
    with contextlib.suppress(ValueError):
        read_networks([text])
    forwarded = ((FORWARDED, text), (FORWARDED, f"{text}, 10.1.2.3"))
    for peer in (text, f"ipv4:{text}:1", f"ipv6:%5B{text}%5D:1", "ipv4:10.0.0.1:5", "ipv6:%5Bfd00::1%5D:5"):
        found = _PEERS.address(peer, forwarded)
        assert found == LOCAL or str(ip_network(found)).startswith(found), found


def words_seeds() -> Iterator[bytes]:
    """One of each."""
    yield b"00-" + b"1" * 32 + b"-" + b"2" * 16 + b"-01"
    yield from (
        b"192.0.2.1",
        b"192.0.2.1, 10.0.0.1",
        b"[2001:db8::1%eth0]",
        b"::ffff:10.0.0.1",
        b"192.0.2.0/24",
    )
    yield from (b"en-US", b"ja", b"hi_IN", b"00000000-0000-0000-0000-000000000001", b"request-1")
    for value in (
        *(["ladder", 1500, "guest-1"], ["results", 5], ["ladder", 1, "\ud800"], ["results", True]),
        *(
            ["matches", 1_700_000_000_000_000, "00000000-0000-0000-0000-000000000001"],
            ["matches", 10**18, "x"],
        ),
    ):
        yield base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")
    for at in ("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"):
        yield base64.urlsafe_b64encode(f"{at} 00000000-0000-0000-0000-000000000001".encode())


def mutate_words(data: bytes, rng: random.Random) -> bytes:
    """As bytes, or the inside of a page token."""
    with contextlib.suppress(ValueError):
        inside = base64.urlsafe_b64decode(data + b"=" * (-len(data) % 4))
        if inside and rng.random() < 0.6:
            return base64.urlsafe_b64encode(mutate_json_bytes(inside, rng)).rstrip(b"=")
    return mutate_bytes(data, rng)


TARGETS: Final = (
    Target("name", run_name, mutate_name, name_seeds, ("services.common.names",), size_max=800, weight=2),
    Target("token", run_token, mutate_token, token_seeds, ("services.common.auth",)),
    Target("jwks", run_jwks, mutate_json_bytes, jwks_seeds, ("services.common.keys",)),
    Target(
        "settings",
        run_settings,
        mutate_settings,
        settings_seeds,
        ("services.common.settings", "services.common.production", "services.common.redaction"),
        size_max=8192,
    ),
    Target("redact", run_redact, mutate_bytes, redact_seeds, ("services.common.redaction",)),
    Target(
        "words",
        run_words,
        mutate_words,
        words_seeds,
        ("services.wire.pages", "services.common.tracing", "services.common.peers"),
        size_max=1024,
    ),
)
