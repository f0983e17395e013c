"""The overlays, built once."""

from __future__ import annotations

import pytest

from tests.k8s import manifests
from tests.k8s.manifests import Manifests


@pytest.fixture(scope="session")
def production() -> Manifests:
    """The overlay of production."""
    return manifests.production()


@pytest.fixture(scope="session")
def development(tmp_path_factory: pytest.TempPathFactory) -> Manifests:
    """The overlay of development."""
    return manifests.development(tmp_path_factory.mktemp("development"))


@pytest.fixture(params=[manifests.PRODUCTION, manifests.DEVELOPMENT])
def overlay(request: pytest.FixtureRequest) -> Manifests:
    """Each of the two."""
    found: Manifests = request.getfixturevalue(request.param)
    return found
