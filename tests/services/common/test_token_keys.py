"""The keys of players' tokens are those of the file, also after it has changed."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from jwt.algorithms import RSAAlgorithm
from structlog.testing import capture_logs

from services.common.auth import LOOK_AGAIN_SECONDS, TokenIssuer, TokenVerifier, write_new_keys
from services.common.errors import ServiceError
from services.common.keys import read_keys
from tests.authority import replace

ISSUER, AUDIENCE = "issuer", "audience"


class Keys:
    """Two signing keys, a file that holds public keys, and a verifier with a clock that is set by hand."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "jwks.json"
        self.public: list[Any] = []
        self.tokens = []
        for name in ("old", "new"):
            write_new_keys(folder / f"{name}.pem", self.file)
            self.public += json.loads(self.file.read_text())["keys"]
            issuer = TokenIssuer(folder / f"{name}.pem", ISSUER, AUDIENCE)
            self.tokens.append(issuer.issue("ann", "Ann")[0])
        self.write(self.public[0])
        self.now = 1000.0
        self.verifier = TokenVerifier(self.file, ISSUER, AUDIENCE, monotonic=lambda: self.now)

    def write(self, *keys: Any) -> None:
        replace(self.file, json.dumps({"keys": keys}).encode())

    def accepted(self) -> list[bool]:
        """Whether the token of each key opens something."""
        found = []
        for token in self.tokens:
            try:
                found.append(self.verifier.verify(token).player_id == "ann")
            except ServiceError as error:
                if error.reason != "TOKEN_INVALID":
                    raise
                found.append(False)
        return found


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path)


def test_keys_change_without_a_restart(keys: Keys) -> None:
    """A new one opens from the next look on; one that is gone does not open, though its token was known."""
    assert keys.accepted() == [True, False]
    keys.write(*keys.public)
    keys.verifier.look()
    assert keys.accepted() == [True, True]
    keys.write(keys.public[1])
    assert keys.accepted() == [True, True], "not before it was looked at"
    with capture_logs() as logs:
        keys.verifier.look()
        keys.verifier.look()
    assert keys.accepted() == [False, True]
    assert [(line["event"], line["keys"]) for line in logs] == [("token_keys_read", 1)]


def test_an_unknown_key_is_looked_for_at_once_but_not_each_time(
    keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys.now += LOOK_AGAIN_SECONDS
    keys.write(*keys.public)
    assert keys.accepted() == [True, True]
    keys.write(keys.public[0])
    keys.verifier.look()
    looked = []
    look = keys.verifier.look

    def counted() -> None:
        looked.append(keys.now)
        look()

    monkeypatch.setattr(keys.verifier, "look", counted)
    for _ in range(100):
        assert keys.accepted() == [True, False]
    keys.now += LOOK_AGAIN_SECONDS
    for _ in range(100):
        assert keys.accepted() == [True, False]
    assert looked == [keys.now], "whoever makes up keys has the file read once a second at most"


def test_a_file_that_makes_no_sense_is_said_once_and_changes_nothing(keys: Keys) -> None:
    with capture_logs() as logs:
        for content in (
            b"{",
            b'{"keys": []}',
            b"\xff",
            b'{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}',
            b"[]",
            b'{"keys":' + b"[" * 100_000,
        ):
            replace(keys.file, content)
            keys.verifier.look()
            keys.verifier.look()
        keys.file.unlink()
        keys.verifier.look()
    assert [line["event"] for line in logs] == 7 * ["token_keys_refused"]
    assert keys.accepted() == [True, False]


def okp(y: int, **more: Any) -> dict[str, Any]:
    """An Ed25519 key from the encoding of its point."""
    x = base64.urlsafe_b64encode(y.to_bytes(32, "little")).rstrip(b"=").decode()
    return {"kty": "OKP", "crv": "Ed25519", "x": x, "kid": "k", **more}


def rsa(bits: int, **more: Any) -> dict[str, Any]:
    """An RSA key of that size."""
    return RSAAlgorithm.to_jwk(generate_private_key(65537, bits).public_key(), as_dict=True) | {
        "kid": "k",
        **more,
    }


P = 2**255 - 19
ORDER_8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
GOOD = okp(4 * pow(5, -1, P) % P)
"""The base point."""
GOOD_TOO = 46316835694926478169428394003475163141307993866256225615783033603165251855960 ^ 1
BAD_KIDS: list[Any] = [{}, [], 5, None, "", "x" * 257]


def read(*keys: object) -> list[str]:
    return list(read_keys(Path("keys.json"), json.dumps({"keys": keys}).encode()))


def test_keys_for_something_else_are_left_out() -> None:
    assert read(GOOD, {**GOOD, "kid": "e", "use": "enc"}, {"kty": "oct", "k": "c2VjcmV0", "kid": "o"}) == [
        "k"
    ]
    others = (
        {"kty": "new"},
        rsa(2048, alg="RS512", kid="r"),
        okp(9, alg="X25519", kid="x"),
        {**GOOD, "kid": "n", "alg": "none"},
        {**GOOD, "kid": "s", "key_ops": ["sign"]},
    )
    assert read(GOOD, *others) == ["k"]


@pytest.mark.parametrize(
    ("key", "why"),
    [
        *((okp(y), "low order") for y in (0, 1, P - 1, P, P + 1, ORDER_8, P - ORDER_8)),
        # The sign of the other coordinate changes nothing.
        *((okp(y | 1 << 255), "low order") for y in (0, 1, ORDER_8)),
        (rsa(1024), "1024 bits"),
        *(({**GOOD, "kid": kid}, "has no kid") for kid in BAD_KIDS),
        ({name: value for name, value in GOOD.items() if name != "kid"}, "has no kid"),
        ({**GOOD, "d": GOOD["x"]}, "is a private one"),
        ({**GOOD, "x": "AAAA"}, "makes no sense"),
        ({**GOOD, "x": 5}, "makes no sense"),
        ({"kty": "RSA", "n": "AQ", "e": "AQ", "kid": "k"}, "makes no sense"),
    ],
)
def test_an_unsafe_key_makes_the_whole_file_unusable(key: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read({**GOOD, "kid": "first"}, key)


def test_two_keys_never_share_a_kid() -> None:
    """Which of them counts would depend on their order."""
    with pytest.raises(ValueError, match="key 2 has the kid of another one"):
        read(GOOD, okp(GOOD_TOO))


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 100_000,
        b'{"keys":' + b"[" * 100_000,
        b'{"keys": [[]]}',
        b'{"keys": {}}',
        b"x" * 1_000_001,
        b"5",
    ],
)
def test_a_file_that_is_no_key_set_is_one_plain_error(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"keys\.json is "):
        read_keys(Path("keys.json"), content)
