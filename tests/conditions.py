"""What only a configuration for tests allows."""

from __future__ import annotations

from typing import Any, Final

from spectacularbid.match.v1 import table_pb2
from tests.engine.tables import deal
from tests.seats import scripted
from tests.stack import time_control

TEST_ONLY: Final[dict[str, Any]] = {
    "time_control": time_control(1000, 1000),
    "deals": scripted(deal()),
    "balances": table_pb2.Balances(north=100, south=200),
    "jockey": table_pb2.SEAT_NORTH,
    "start_limit_ms": 1000,
    "continue_limit_ms": 1000,
}
"""A value of each field of CreateMatch that is refused elsewhere, in the order in which they are named."""
