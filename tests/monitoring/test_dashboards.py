"""The committed dashboards are those of the descriptions, and sound for Grafana."""

from __future__ import annotations

import json
from typing import Any

import pytest

from k8s.dashboards.__main__ import DASHBOARDS, FOLDER, text
from k8s.dashboards.panels import WIDTH


@pytest.fixture(params=sorted(DASHBOARDS))
def dashboard(request: pytest.FixtureRequest) -> Any:
    return json.loads((FOLDER / f"{request.param}.json").read_text("utf-8"))


def test_the_files_are_those_of_the_descriptions() -> None:
    """After a change: python -m k8s.dashboards."""
    assert {path.stem: path.read_text("utf-8") for path in FOLDER.iterdir()} == {
        name: text(dashboard) for name, dashboard in DASHBOARDS.items()
    }


def test_panels_have_room_and_a_number_of_their_own(dashboard: Any) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= WIDTH
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(numbers)) == len(numbers)


def test_every_query_goes_to_the_chosen_prometheus(dashboard: Any) -> None:
    (variable,) = dashboard["templating"]["list"]
    assert (variable["type"], variable["query"]) == ("datasource", "prometheus")
    chosen = {"type": "prometheus", "uid": f"${{{variable['name']}}}"}
    for panel in dashboard["panels"]:
        if panel["type"] == "row":
            continue
        assert panel["datasource"] == chosen
        assert panel["targets"], panel["title"]
        assert all(target["datasource"] == chosen and target["expr"] for target in panel["targets"])
        letters = [target["refId"] for target in panel["targets"]]
        assert len(set(letters)) == len(letters)
    assert all(annotation["datasource"] == chosen for annotation in dashboard["annotations"]["list"])


def test_pages_are_told_apart() -> None:
    assert len({dashboard.uid for dashboard in DASHBOARDS.values()}) == len(DASHBOARDS)
    assert all(len(dashboard.uid) <= 40 for dashboard in DASHBOARDS.values()), "Grafana takes no longer one"
    for dashboard in DASHBOARDS.values():
        titles = [(row.title, panel.title) for row in dashboard.rows for panel in row.panels]
        assert len(set(titles)) == len(titles)
