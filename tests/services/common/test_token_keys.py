"""The keys of players' tokens are those of the file, also after it has changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from services.common.auth import LOOK_AGAIN_SECONDS, TokenIssuer, TokenVerifier, write_new_keys
from services.common.errors import ServiceError
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
        ):
            replace(keys.file, content)
            keys.verifier.look()
            keys.verifier.look()
        keys.file.unlink()
        keys.verifier.look()
    assert [line["event"] for line in logs] == 6 * ["token_keys_refused"]
    assert keys.accepted() == [True, False]
