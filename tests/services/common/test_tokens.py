"""What a token must be to open anything: signed by a key of ours, for us alone, short-lived, and true to its claims."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from pathlib import Path
from typing import Any

import grpc
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from services.common.auth import TOKENS_KEPT, TokenIssuer, TokenVerifier, write_new_keys
from services.common.errors import ServiceError

NOW = 1_800_000_000
DAY = 24 * 3600


def _b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


class Forge:
    """The issuer's own key in hostile hands, and a verifier whose clock is set by hand."""

    def __init__(self, folder: Path) -> None:
        self.key_file, self.jwks_file = folder / "key.pem", folder / "jwks.json"
        write_new_keys(self.key_file, self.jwks_file)
        key = load_pem_private_key(self.key_file.read_bytes(), None)
        assert isinstance(key, Ed25519PrivateKey)
        self.key = key
        self.kid = json.loads(self.jwks_file.read_bytes())["keys"][0]["kid"]
        self.now = float(NOW)
        self.revoked: dict[str, int] = {}
        self.verifier = TokenVerifier(
            self.jwks_file,
            "issuer",
            "us",
            revoked=lambda player_id, issued: issued < self.revoked.get(player_id, 0),
            wall=lambda: self.now,
        )

    def claims(self, **claims: Any) -> dict[str, Any]:
        # PyJWT looks at the real clock: whole years lie between it and the one that is set here.
        good = {"iss": "issuer", "aud": "us", "sub": "ann", "iat": NOW, "exp": NOW + DAY}
        return {name: value for name, value in (good | claims).items() if value is not ...}

    def signed(self, header: bytes | dict[str, Any] | None = None, payload: bytes | None = None) -> str:
        """Whatever it is, with a true signature."""
        if not isinstance(header, bytes):
            header = json.dumps({"alg": "EdDSA", "kid": self.kid} | (header or {})).encode()
        text = f"{_b64(header)}.{_b64(json.dumps(self.claims()).encode() if payload is None else payload)}"
        return f"{text}.{_b64(self.key.sign(text.encode()))}"

    def token(self, **claims: Any) -> str:
        return self.signed(payload=json.dumps(self.claims(**claims)).encode())

    def reason(self, token: str) -> str:
        """Why it opens nothing; empty when it does."""
        try:
            self.verifier.verify(token)
        except ServiceError as error:
            return error.reason if error.code is grpc.StatusCode.UNAUTHENTICATED else error.code.name
        return ""


@pytest.fixture
def forge(tmp_path: Path) -> Forge:
    return Forge(tmp_path)


def test_a_good_token_says_who_its_bearer_is(forge: Forge) -> None:
    identity = forge.verifier.verify(forge.token(name="Ann", roles=["operator", ["x"], 3]))
    assert (identity.player_id, identity.suggested_name, identity.bot) == ("ann", "Ann", False)
    assert identity.roles == {"operator"}


@pytest.mark.parametrize("kind", ["JWT", "jwt", "at+jwt", "application/at+jwt"])
def test_types_of_access_tokens_are_accepted(forge: Forge, kind: str) -> None:
    assert forge.reason(forge.signed({"typ": kind})) == ""


HUGE = "9" * 400
SIGNED_FAULTS: list[tuple[str, Any]] = [
    ("another issuer", {"iss": "issuer-2"}),
    ("a part of the issuer", {"iss": "iss"}),
    ("a list of issuers", {"iss": ["issuer"]}),
    ("another audience", {"aud": "others"}),
    ("a part of the audience", {"aud": "u"}),
    ("an audience beside us", {"aud": ["us", "others"]}),
    ("no audience", {"aud": ...}),
    ("no issue", {"iat": ...}),
    ("no end", {"exp": ...}),
    ("an end without a value", {"exp": None}),
    ("an end that is true", {"exp": True}),
    ("an end in words", {"exp": str(NOW + DAY)}),
    ("an end in fractions", {"exp": NOW + 0.5 + DAY}),
    ("an endless life", {"exp": 10**300}),
    ("a life of 32 days", {"exp": NOW + 32 * DAY}),
    ("an end before the issue", {"iat": NOW + 20, "exp": NOW + 10}),
    ("an issue in the future", {"iat": NOW + 61}),
    ("an issue before all time", {"iat": -1, "exp": 5}),
    ("no subject", {"sub": ...}),
    ("a subject that is a number", {"sub": 5}),
    ("a subject with a line break", {"sub": "ann\n"}),
    ("a subject of 65 characters", {"sub": "a" * 65}),
    ("a subject with capitals", {"sub": "Ann"}),
    ("roles that are no list", {"roles": "operator"}),
    ("the id of a house bot for a person", {"sub": "bot-greedy"}),
    ("a house bot with the id of a person", {"bot": True}),
    ("the id of a canary for a person", {"sub": "canary-north"}),
    ("the id of a canary for an operator", {"sub": "canary-north", "roles": ["operator"]}),
]


@pytest.mark.parametrize("claims", [fault[1] for fault in SIGNED_FAULTS], ids=[f[0] for f in SIGNED_FAULTS])
def test_a_token_with_wrong_claims_opens_nothing_whoever_signed_it(
    forge: Forge, claims: dict[str, Any]
) -> None:
    assert forge.reason(forge.token(**claims)) in ("TOKEN_INVALID", "TOKEN_EXPIRED")


def test_house_bots_and_canaries_have_claims_of_their_own(forge: Forge) -> None:
    assert forge.reason(forge.token(sub="bot-greedy", bot=True)) == ""
    assert forge.reason(forge.token(sub="canary-north", roles=["canary"])) == ""


def test_numbers_that_python_cannot_hold_are_no_fault_of_ours(forge: Forge) -> None:
    """Such a token was INTERNAL once: an integer of 400 digits is no float."""
    plain = json.dumps(forge.claims()).encode()
    for end in (f'"exp":{HUGE}', '"exp":1e999', '"exp":NaN', f'"iat":{HUGE}', '"nbf":1e999', f'"nbf":{HUGE}'):
        assert forge.reason(forge.signed(payload=plain[:-1] + f",{end}}}".encode())) == "TOKEN_INVALID"


def test_the_header_decides_nothing(forge: Forge) -> None:
    """No algorithm of the token's choice, no key of its own, nothing that is no header."""
    public = forge.key.public_key()
    good = forge.token()
    head, body, signature = good.split(".")
    algorithms: list[Any] = ["none", "None", "HS256", "ES256", "RS256", "EdDSA ", [], None]
    key_ids: list[Any] = [[1], {"a": 1}, 5, None, "../../etc/passwd", "' or 1=1", "x" * 5000]
    kinds: list[Any] = ["id_token", "dpop+jwt", "logout+jwt", 1, None, []]
    hostile = [
        *(forge.signed({"alg": alg}) for alg in algorithms),
        *(forge.signed({"kid": kid}) for kid in key_ids),
        *(forge.signed({"typ": kind}) for kind in kinds),
        forge.signed({"crit": ["x"], "x": 1}),
        forge.signed({"b64": False, "crit": ["b64"]}),
        forge.signed(b"[" * 3000),
        forge.signed(b'{"a":' * 1000),
        forge.signed(b"\xff\xfe"),
        forge.signed(payload=b"[" * 3000),
        f"{_b64(json.dumps({'alg': 'none', 'kid': forge.kid}).encode())}.{body}.",
        f"{head}.{body}.{_b64(b'0' * 64)}",
        f"{head}.{body}.{signature[:-2]}",
        *("", ".", "..", "a.b.c.d.e", "\xff.é.x", f"{good}~", "x" * 9000),
    ]
    for secret in (
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.Raw, PublicFormat.Raw),
        json.loads(forge.jwks_file.read_bytes())["keys"][0]["x"].encode(),
    ):
        text = f"{_b64(json.dumps({'alg': 'HS256', 'kid': forge.kid}).encode())}.{body}"
        hostile.append(f"{text}.{_b64(hmac.new(secret, text.encode(), hashlib.sha256).digest())}")
    assert {forge.reason(token) for token in hostile} == {"TOKEN_INVALID"}


def test_a_token_ends_at_its_second_and_not_before(forge: Forge) -> None:
    """Also one that was checked before, and one that is asked about while a stream runs."""
    token = forge.token(exp=NOW + 60)
    identity = forge.verifier.verify(token)
    forge.now = NOW + 59.999
    assert (forge.reason(token), forge.verifier.ended(identity)) == ("", None)
    forge.now = NOW + 60.0
    ended = forge.verifier.ended(identity)
    assert ended is not None
    assert (forge.reason(token), ended.reason) == ("TOKEN_EXPIRED", "TOKEN_EXPIRED")


def test_an_identity_counts_no_more_when_its_key_has_gone(forge: Forge, tmp_path: Path) -> None:
    identity = forge.verifier.verify(forge.token())
    write_new_keys(tmp_path / "other.pem", forge.jwks_file)
    forge.verifier.look()
    ended = forge.verifier.ended(identity)
    assert ended is not None
    assert ended.reason == "TOKEN_INVALID"
    # The same kid on another key is another key.
    keys = json.loads(forge.jwks_file.read_bytes())
    keys["keys"][0]["kid"] = forge.kid
    forge.jwks_file.write_text(json.dumps(keys))
    forge.verifier.look()
    assert forge.verifier.ended(identity) is not None
    assert forge.reason(forge.token()) == "TOKEN_INVALID"


def test_a_player_whose_tokens_are_revoked_needs_a_newer_one(forge: Forge) -> None:
    old, others = forge.token(), forge.token(sub="ben")
    identity = forge.verifier.verify(old)
    forge.revoked["ann"] = NOW + 1
    ended = forge.verifier.ended(identity)
    assert ended is not None
    assert (ended.reason, forge.reason(old), forge.reason(others)) == ("TOKEN_REVOKED", "TOKEN_REVOKED", "")
    assert forge.reason(forge.token(iat=NOW + 1)) == ""


def test_remembered_tokens_are_bounded_and_the_oldest_is_forgotten(
    forge: Forge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody with many tokens must not make every other player's be checked again."""
    monkeypatch.setattr("services.common.auth.TOKENS_KEPT", 10)
    assert TOKENS_KEPT >= 1000
    for number in range(25):
        forge.verifier.verify(forge.token(sub=f"p{number}"))
    assert [identity.player_id for identity in forge.verifier._known.values()] == [
        f"p{number}" for number in range(15, 25)
    ]


def test_the_local_issuer_makes_tokens_that_are_accepted(tmp_path: Path) -> None:
    write_new_keys(tmp_path / "key.pem", tmp_path / "jwks.json")
    token, expires = TokenIssuer(tmp_path / "key.pem", "issuer", "us").issue("ann", "Ann")
    grant = TokenVerifier(tmp_path / "jwks.json", "issuer", "us").verify(token).grant
    assert grant is not None
    assert grant.expires == expires > time.time()
    assert jwt.get_unverified_header(token)["kid"] == grant.key_id
