"""A dashboard as a value, and the JSON that Grafana 10 and newer read.

Only what our four dashboards use: rows of panels side by side, each with queries to one Prometheus that is chosen at
the top of the page.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

WIDTH: Final = 24
"""Columns of Grafana's grid."""
SCHEMA_VERSION: Final = 38
"""Of Grafana 10.1; newer ones migrate it by themselves."""
TAG: Final = "spectacular-bid"
DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True)
class Query:
    """One query; `legend` names each of its series by labels in double braces."""

    expr: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """One picture. `unit` is one of Grafana's: s, ops, percentunit, short, bytes, none."""

    title: str
    queries: tuple[Query, ...]
    unit: str = "short"
    text: str = ""
    """What it tells and when to worry."""
    kind: str = "timeseries"
    """Or `stat`: the latest value, large."""
    stacked: bool = False
    red_from: float | None = None
    """From this value on it is drawn red."""
    red_below: float | None = None
    """Below this value it is drawn red."""


@dataclass(frozen=True)
class Row:
    """Panels side by side under a title."""

    title: str
    panels: tuple[Panel, ...]
    height: int = 8
    in_a_line: int = 3


@dataclass(frozen=True)
class Dashboard:
    """One page."""

    uid: str
    title: str
    text: str
    rows: tuple[Row, ...]


def panel(title: str, *queries: tuple[str, str] | str, **wanted: Any) -> Panel:
    """A panel of queries, each with its legend or without one."""
    made = tuple(Query(one) if isinstance(one, str) else Query(*one) for one in queries)
    return Panel(title, made, **wanted)


def to_json(dashboard: Dashboard) -> dict[str, Any]:
    """The model that Grafana imports."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.text,
        "tags": [TAG],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "10s",
        "timezone": "utc",
        "time": {"from": "now-1h", "to": "now"},
        "annotations": {"list": [_annotation("page", "red"), _annotation("ticket", "yellow")]},
        "links": [
            {
                "title": "The others",
                "type": "dashboards",
                "tags": [TAG],
                "asDropdown": False,
                "includeVars": True,
                "keepTime": True,
            }
        ],
        "templating": {
            "list": [
                {
                    "name": "datasource",
                    "label": "Prometheus",
                    "type": "datasource",
                    "query": "prometheus",
                    "refresh": 1,
                    "hide": 0,
                    "includeAll": False,
                    "multi": False,
                    "options": [],
                    "regex": "",
                    "current": {},
                }
            ]
        },
        "panels": _panels(dashboard),
    }


def _panels(dashboard: Dashboard) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    top = 0
    for row in dashboard.rows:
        place = {"x": 0, "y": top, "w": WIDTH, "h": 1}
        made.append(
            {
                "id": len(made) + 1,
                "type": "row",
                "title": row.title,
                "collapsed": False,
                "gridPos": place,
                "panels": [],
            }
        )
        top += 1
        width = WIDTH // row.in_a_line
        for number, one in enumerate(row.panels):
            line, column = divmod(number, row.in_a_line)
            place = {"x": column * width, "y": top + line * row.height, "w": width, "h": row.height}
            made.append({"id": len(made) + 1, "gridPos": place, **_panel(one)})
        top += row.height * -(-len(row.panels) // row.in_a_line)
    return made


def _panel(one: Panel) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if one.red_from is not None:
        steps.append({"color": "red", "value": one.red_from})
    if one.red_below is not None:
        steps = [{"color": "red", "value": None}, {"color": "green", "value": one.red_below}]
    stat = one.kind == "stat"
    guarded = one.red_from is not None or one.red_below is not None
    custom = {
        "lineWidth": 1,
        "fillOpacity": 30 if one.stacked else 5,
        "showPoints": "never",
        "spanNulls": False,
        "stacking": {"mode": "normal" if one.stacked else "none", "group": "A"},
        "thresholdsStyle": {"mode": "line" if guarded else "off"},
    }
    defaults: dict[str, Any] = {
        "unit": one.unit,
        "min": 0,
        "thresholds": {"mode": "absolute", "steps": steps},
        "color": {"mode": "thresholds" if stat else "palette-classic"},
        "custom": {} if stat else custom,
    }
    options: dict[str, Any] = {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    if stat:
        options = {
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "colorMode": "value",
            "graphMode": "area",
            "textMode": "auto",
        }
    return {
        "type": one.kind,
        "title": one.title,
        "description": one.text,
        "datasource": DATASOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": DATASOURCE,
                "editorMode": "code",
                "expr": query.expr,
                "legendFormat": query.legend or "__auto",
                "range": not stat,
                "instant": stat,
            }
            for number, query in enumerate(one.queries)
        ],
    }


def _annotation(severity: str, color: str) -> dict[str, Any]:
    return {
        "name": f"Alerts: {severity}",
        "datasource": DATASOURCE,
        "enable": True,
        "hide": False,
        "iconColor": color,
        "expr": f'ALERTS{{alertstate="firing", severity="{severity}"}}',
        "titleFormat": "{{alertname}}",
        "step": "30s",
    }
