"""Settings of the clock process."""

from __future__ import annotations

from typing import ClassVar

from services.common.settings import CommonSettings


class ClockSettings(CommonSettings):
    """What the clock needs. It serves other processes only, so its public address stays unused.

    The policy is not among the settings: a figure that differed between two clocks would let them disagree.
    """

    serves_players: ClassVar[bool] = False

    listen: str = "127.0.0.1:0"
    internal_listen: str = "127.0.0.1:7450"
