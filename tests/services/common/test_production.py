"""What a process refuses to start with: in production, and everywhere."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from services.clock.settings import ClockSettings
from services.common.auth import write_new_keys
from services.common.production import LOCAL_KEY_MARK
from services.common.settings import PREFIX, CommonSettings, SettingsError, load
from services.game.settings import GameSettings
from services.matchmaking.settings import MatchmakingSettings
from tests.authority import Authority

SERVICES: list[type[CommonSettings]] = [ClockSettings, GameSettings, MatchmakingSettings]
VERIFIED = "postgresql://u:p@db.example:5432/d?sslmode=verify-full&sslrootcert=/etc/ca.pem"
RANDOM = "Zt0fQ3vN8yHs5kLwR1xJcG7mBdP2uXaE"


class Environment:
    """The settings of a production process, with real certificates; a test changes one of them."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.authority = Authority(folder)
        self.local_keys = folder / "local.json"
        write_new_keys(folder / "key.pem", self.local_keys)
        keys = json.loads(self.local_keys.read_text())
        del keys["keys"][0][LOCAL_KEY_MARK]
        jwks = folder / "jwks.json"
        jwks.write_text(json.dumps(keys))
        cert, key = map(str, self.authority.issue("public", "play.example"))
        internal_cert, internal_key = map(str, self.authority.issue("internal", "clock"))
        self.set(
            ENV="production",
            DATABASE_URL=VERIFIED,
            INTERNAL_SECRET=RANDOM,
            JWKS_FILE=str(jwks),
            TOKEN_ISSUER="https://accounts.example",
            TLS_CERT_FILE=cert,
            TLS_KEY_FILE=key,
            INTERNAL_TLS_CERT_FILE=internal_cert,
            INTERNAL_TLS_KEY_FILE=internal_key,
            INTERNAL_TLS_CA_FILE=str(self.authority.file),
            CLOCK_ADDRESS="clock:7450",
            MATCHMAKING_ADDRESS="matchmaking:7605",
        )

    def set(self, **settings: str) -> None:
        for name, value in settings.items():
            self._monkeypatch.setenv(PREFIX + name, value)


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    return Environment(tmp_path, monkeypatch)


def refusal(kind: type[CommonSettings]) -> str:
    """What the process says as it refuses to start."""
    with pytest.raises(SettingsError) as error:
        load(kind)
    return str(error.value)


@pytest.mark.parametrize("kind", SERVICES)
def test_a_full_production_configuration_is_accepted(
    environment: Environment, kind: type[CommonSettings]
) -> None:
    assert load(kind).env == "production"


FAULTS = [
    ({"TLS_CERT_FILE": "", "TLS_KEY_FILE": ""}, "TLS_CERT_FILE: not set: players would talk in plain text"),
    (
        {"INTERNAL_TLS_CERT_FILE": "", "INTERNAL_TLS_KEY_FILE": "", "INTERNAL_TLS_CA_FILE": ""},
        "INTERNAL_TLS_CERT_FILE: not set: services would talk in plain text",
    ),
    ({"TOKEN_ISSUER": "spectacular-bid-local"}, "TOKEN_ISSUER: spectacular-bid-local is that of stacks"),
    ({"ADDRESS_LIMITS": "false"}, "ADDRESS_LIMITS: must be true in production"),
    ({"INTERNAL_SECRET": RANDOM[:31]}, "INTERNAL_SECRET: must have at least 32 characters in production"),
    ({"INTERNAL_SECRET": "abcd" * 10}, "INTERNAL_SECRET: must have at least 12 different characters"),
    ({"INTERNAL_SECRET": f"{RANDOM}-ChangeMe"}, "INTERNAL_SECRET: must be random in production"),
    ({"INTERNAL_SECRET": "a secret of the tests only, quite long"}, "INTERNAL_SECRET: must be random"),
    ({"DATABASE_URL": "postgresql://u:p@db.example/d"}, "DATABASE_URL: must say sslmode="),
    ({"DATABASE_URL": "postgresql://u:p@db.example/d?sslmode=require"}, "DATABASE_URL: must say sslmode="),
    ({"DATABASE_URL": "postgresql://u:p@localhost/d?sslmode=disable"}, "DATABASE_URL: must say sslmode="),
]


@pytest.mark.parametrize(("changed", "said"), FAULTS)
def test_production_refuses_what_is_for_development(
    environment: Environment, changed: dict[str, str], said: str
) -> None:
    """Exactly that fault, by the name of its variable and without its value; in development it is accepted."""
    environment.set(**changed)
    message = refusal(GameSettings)
    assert message.startswith(PREFIX + said)
    assert message.count(PREFIX) == 1
    for value in filter(None, changed.values()):
        assert value not in message or value == "spectacular-bid-local"
    environment.set(ENV="development")
    load(GameSettings)


def test_production_refuses_keys_made_for_one_machine(environment: Environment) -> None:
    environment.set(JWKS_FILE=str(environment.local_keys))
    assert refusal(GameSettings) == (
        "SPECTACULAR_BID_JWKS_FILE: holds a key that was made for a stack on one machine"
    )


def test_production_refuses_guests(environment: Environment) -> None:
    environment.set(GUEST_KEY_FILE="guest.pem")
    assert refusal(MatchmakingSettings).startswith("SPECTACULAR_BID_GUEST_KEY_FILE: must not be set")


def test_scripted_deals_and_other_time_controls_are_no_part_of_production(environment: Environment) -> None:
    """What accepts them is the value `test` of the same variable."""
    environment.set(ENV="production,test")
    assert refusal(GameSettings).startswith("SPECTACULAR_BID_ENV: ")


def test_all_faults_are_named_at_once(environment: Environment) -> None:
    environment.set(JWKS_FILE=str(environment.local_keys), GUEST_KEY_FILE="guest.pem")
    for changed, _ in FAULTS:
        environment.set(**changed)
    named = {part.split(":")[0].removeprefix(PREFIX) for part in refusal(MatchmakingSettings).split("; ")}
    assert named == {
        *("TLS_CERT_FILE", "INTERNAL_TLS_CERT_FILE", "TOKEN_ISSUER", "JWKS_FILE"),
        *("INTERNAL_SECRET", "DATABASE_URL", "GUEST_KEY_FILE", "ADDRESS_LIMITS"),
    }


def test_a_process_ends_with_status_1_and_one_line_that_names_it_all(environment: Environment) -> None:
    environment.set(TLS_CERT_FILE="", TLS_KEY_FILE="", TOKEN_ISSUER="spectacular-bid-local")
    ended = subprocess.run(
        [sys.executable, "-m", "services.game"], capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.returncode == 1
    assert ended.stderr == (
        "cannot start: SPECTACULAR_BID_TLS_CERT_FILE: not set: players would talk in plain text; "
        "SPECTACULAR_BID_TOKEN_ISSUER: spectacular-bid-local is that of stacks on one machine\n"
    )


def test_the_clock_needs_no_certificate_for_players(environment: Environment) -> None:
    environment.set(TLS_CERT_FILE="", TLS_KEY_FILE="")
    load(ClockSettings)


def test_a_database_behind_a_local_socket_needs_no_tls(environment: Environment) -> None:
    for url in ("postgresql://u:p@/d?host=/run/postgresql", "postgresql://u:p@%2Frun%2Fpostgresql/d"):
        environment.set(DATABASE_URL=url)
        load(GameSettings)


@pytest.mark.parametrize("env", ["production", "development", "test"])
def test_half_of_the_files_of_a_port_are_refused_everywhere(environment: Environment, env: str) -> None:
    environment.set(ENV=env, TLS_KEY_FILE="", INTERNAL_TLS_CA_FILE="")
    assert refusal(GameSettings) == (
        "SPECTACULAR_BID_TLS_KEY_FILE: not set; it takes all of SPECTACULAR_BID_TLS_CERT_FILE,"
        " SPECTACULAR_BID_TLS_KEY_FILE, or none; "
        "SPECTACULAR_BID_INTERNAL_TLS_CA_FILE: not set; it takes all of SPECTACULAR_BID_INTERNAL_TLS_CERT_FILE,"
        " SPECTACULAR_BID_INTERNAL_TLS_KEY_FILE, SPECTACULAR_BID_INTERNAL_TLS_CA_FILE, or none"
    )


def test_files_that_cannot_be_used_are_refused_everywhere(environment: Environment) -> None:
    environment.set(ENV="development")
    environment.authority.issue("public", "play.example", lasts=-timedelta(days=1))
    assert refusal(GameSettings).startswith("SPECTACULAR_BID_TLS_CERT_FILE: ")
