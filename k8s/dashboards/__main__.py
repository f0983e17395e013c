"""`python -m k8s.dashboards` writes the dashboards' JSON to `k8s/base/monitoring/dashboards`."""

from __future__ import annotations

import json
from pathlib import Path

from k8s.dashboards.capacity import CAPACITY
from k8s.dashboards.clock import CLOCK
from k8s.dashboards.database import DATABASE
from k8s.dashboards.panels import Dashboard, to_json
from k8s.dashboards.player import PLAYER

FOLDER = Path(__file__).resolve().parents[1] / "base" / "monitoring" / "dashboards"
DASHBOARDS = {"player": PLAYER, "clock": CLOCK, "database": DATABASE, "capacity": CAPACITY}


def text(dashboard: Dashboard) -> str:
    """What is in the file."""
    return json.dumps(to_json(dashboard), indent=1) + "\n"


def main() -> None:
    """Writes all of them."""
    for name, dashboard in DASHBOARDS.items():
        (FOLDER / f"{name}.json").write_text(text(dashboard), "utf-8")
        print(f"wrote {name}.json: {dashboard.title}")


if __name__ == "__main__":
    main()
