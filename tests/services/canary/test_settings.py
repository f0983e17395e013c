"""What the canary refuses to begin with."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from services.canary.settings import CanarySettings
from services.common.settings import SettingsError, load

ENOUGH = {"CANARY_SERVER": "play.example.org:443,10.0.0.2:7600", "CANARY_TOKENS_FILE": "/tokens.json"}


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name, value in ENOUGH.items():
        monkeypatch.setenv(f"SPECTACULAR_BID_{name}", value)
    return monkeypatch


def test_it_needs_no_secret_and_no_database(environment: pytest.MonkeyPatch) -> None:
    settings = load(CanarySettings)
    assert (settings.canary_game, settings.canary_period_seconds, settings.canary_tls) == ("", 60.0, False)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"ENV": "production"}, "CANARY_TLS"),
        ({"CANARY_CA_FILE": "/ca.pem"}, "CANARY_CA_FILE"),
        ({"CANARY_SERVER": "play.example.org"}, "CANARY_SERVER"),
        ({"CANARY_GAME": "somewhere"}, "CANARY_GAME"),
        ({"CANARY_PERIOD_SECONDS": "0"}, "CANARY_PERIOD_SECONDS"),
        ({"LOG_LEVEL": "loud"}, "LOG_LEVEL"),
    ],
)
def test_what_makes_no_sense_is_named(
    environment: pytest.MonkeyPatch, wrong: Mapping[str, str], named: str
) -> None:
    for name, value in wrong.items():
        environment.setenv(f"SPECTACULAR_BID_{name}", value)
    with pytest.raises(SettingsError, match=f"SPECTACULAR_BID_{named}"):
        load(CanarySettings)


def test_production_speaks_tls(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("SPECTACULAR_BID_ENV", "production")
    environment.setenv("SPECTACULAR_BID_CANARY_TLS", "true")
    assert load(CanarySettings).canary_tls
