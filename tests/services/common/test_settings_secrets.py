"""No setting that makes no sense shows what it holds: a password may stand where a host would."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from services.common import redaction
from services.common.production import database_faults, is_database_url
from services.common.settings import PREFIX, CommonSettings, SettingsError, load, split_address
from services.game.settings import GameSettings

SECRET = "zq7Hx9KvTw2"

BROKEN = [
    f"postgresql://u:{SECRET}\u2100rd@host/db",
    f"postgresql://u:{SECRET}@[h/db",
    f"postgresql://u:{SECRET}@h]/db",
    f"postgresql://u:x/{SECRET}@h/db",
    f"postgresql://u:{SECRET}?x@h/db",
    f"postgresql://u:{SECRET}#@h/db",
    f"postgresql://u:pw@h:{SECRET}/db",
    f"postgresql://u:pw@h:99999999{SECRET}/db",
    f"postgresql://u:pw@{SECRET} h/db",
    f"mysql://u:{SECRET}@h/db",
    SECRET,
    f"//{SECRET}",
    "",
]
GOOD = [
    "postgresql://u:p@db.example:5432/d?sslmode=verify-full",
    "postgres://u@localhost/d",
    "postgresql://u:p@/d?host=/run/postgresql",
    "postgresql://u:p@%2Frun%2Fpostgresql/d",
    "postgresql://u:p@[::1]:5432/d",
    "postgresql://u:p@one:5432,two:5433/d",
]


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    for name, value in {
        "DATABASE_URL": GOOD[0],
        "INTERNAL_SECRET": "a secret of the tests",
        "JWKS_FILE": str(tmp_path / "jwks.json"),
        "LISTEN": "127.0.0.1:0",
        "CLOCK_ADDRESS": "clock:1",
        "MATCHMAKING_ADDRESS": "matchmaking:1",
    }.items():
        monkeypatch.setenv(PREFIX + name, value)
    return monkeypatch


def parts_of(secret: str) -> list[str]:
    """Every piece of it that would still give something away."""
    return [secret[at : at + 5] for at in range(len(secret) - 4)]


@pytest.mark.parametrize("url", BROKEN)
def test_a_database_url_that_makes_no_sense_is_refused_without_a_word_of_it(
    environment: pytest.MonkeyPatch, url: str
) -> None:
    environment.setenv(f"{PREFIX}DATABASE_URL", url)
    assert not is_database_url(url)
    with pytest.raises(SettingsError) as error:
        load(GameSettings)
    assert str(error.value).startswith(f"{PREFIX}DATABASE_URL: ")
    assert not [part for part in parts_of(SECRET) if part in str(error.value)]
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__


@pytest.mark.parametrize("url", GOOD)
def test_every_form_of_a_database_url_is_accepted(environment: pytest.MonkeyPatch, url: str) -> None:
    environment.setenv(f"{PREFIX}DATABASE_URL", url)
    assert load(GameSettings).database_url.get_secret_value() == url
    list(database_faults(url))


def test_a_process_with_a_broken_url_ends_with_one_line(environment: pytest.MonkeyPatch) -> None:
    environment.setenv(f"{PREFIX}DATABASE_URL", BROKEN[0])
    ended = subprocess.run(
        [sys.executable, "-m", "services.game"], capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith(
        f"cannot start: {PREFIX}DATABASE_URL: Value error, is no URL of a PostgreSQL"
    )
    assert ended.stderr.count("\n") == 1
    assert not [part for part in parts_of(SECRET) if part in ended.stderr + ended.stdout]


@pytest.mark.parametrize(
    "address", ["a:\uff11\uff12", " \n:1", ":1", "a:", "a:65536", "a:-1", "a\0:1", "a:1\n"]
)
def test_an_address_is_a_name_that_can_be_seen_and_plain_digits(address: str) -> None:
    with pytest.raises(ValueError, match="is not host:port"):
        split_address(address)


@pytest.mark.parametrize("endpoint", ["http://[", "http://", "https://[x", "ftp://h", "h:4317"])
def test_an_endpoint_of_traces_is_a_url(environment: pytest.MonkeyPatch, endpoint: str) -> None:
    environment.setenv(f"{PREFIX}TRACING_ENDPOINT", endpoint)
    with pytest.raises(SettingsError, match=f"^{PREFIX}TRACING_ENDPOINT: "):
        load(CommonSettings)


def test_one_text_does_not_fill_the_log_and_no_half_of_a_secret_is_left_at_its_end() -> None:
    """What others can make long is cut where a word ends: half a digest or a token has no shape any more."""
    for secret in ("e" * 64, "eyJ" + "a" * 300 + "." + "b" * 300, "3|5 " * 3):
        for before in range(redaction.TEXT_MAX - 400, redaction.TEXT_MAX - 40, 7):
            line = redaction.render(
                None, "info", {"event": "x", "text": "- " * (before // 2) + secret + "y" * 99_999}
            )
            assert len(line) < redaction.TEXT_MAX + 100
            text = json.loads(line)["text"]
            assert text.endswith(" characters more]")
            assert secret[:20] not in text
            assert redaction.clean(text) == text
