"""The forms in which dashboards ask for counters and histograms."""

from __future__ import annotations

from typing import Final

SPAN: Final = "$__rate_interval"
"""Grafana's choice: at least four scrapes."""


def by(labels: str) -> str:
    """The grouping before an aggregate's argument; empty for none."""
    return f" by ({labels}) " if labels else ""


def rate(counter: str, labels: str = "", where: str = "") -> str:
    """A second, summed by labels; `where` are conditions on labels."""
    chosen = f"{{{where}}}" if where else ""
    return f"sum{by(labels)}(rate({counter}{chosen}[{SPAN}]))"


def quantile(share: float, histogram: str, labels: str = "", where: str = "") -> str:
    """An upper bound for this share of what was observed."""
    grouped = ", ".join(filter(None, ("le", labels)))
    return f"histogram_quantile({share:g}, {rate(f'{histogram}_bucket', grouped, where)})"


def mean(histogram: str, labels: str = "") -> str:
    """The mean of what was observed."""
    return f"{rate(f'{histogram}_sum', labels)} / {rate(f'{histogram}_count', labels)}"


def spread(histogram: str) -> tuple[tuple[str, str], ...]:
    """Half, 9 of 10 and 99 of 100, with their legends."""
    return tuple((quantile(share, histogram), f"p{share * 100:g}") for share in (0.5, 0.9, 0.99))
