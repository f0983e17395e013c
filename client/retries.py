"""Which calls may be repeated on UNAVAILABLE: `service_config.json`, one list for every client.

The file is a gRPC service config. A client in any language hands it to its channel (`grpc.service_config`), which then
repeats by itself what is safe to repeat, and nothing else. This library keeps to the same list but repeats on its own,
because it does more than a channel can: it waits as long as RetryInfo asks, turns to the next of several addresses, and
follows a match to another process. A channel that repeated underneath would only delay that.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

SERVICE_CONFIG: Final = Path(__file__).with_name("service_config.json").read_text("utf-8")
"""For the channel option `grpc.service_config`."""

_NAMES: Final = frozenset(
    (name["service"], name.get("method", ""))
    for config in json.loads(SERVICE_CONFIG)["methodConfig"]
    for name in config["name"]
)


def may_repeat(service: str, method: str) -> bool:
    """Whether the very same request of this method, sent again, has no second effect.

    Not `CreateGuest`, which makes another player each time (without a name that is harmless, and this library does it).
    Not `Play`, which is joined anew instead, with the last number that was heard.
    """
    return (service, method) in _NAMES or (service, "") in _NAMES
