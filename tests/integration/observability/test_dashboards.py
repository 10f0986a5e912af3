"""The committed dashboards are the built ones, and Grafana's own SDK understands all of them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

sys.path.insert(0, str(Path(__file__).parent))

from boards import FOLDER, NAMES, ROOT, annotations, board, queries

GRAFANA = ROOT / "config" / "grafana"
DOCUMENT = (ROOT / "docs" / "observability.md").read_text("utf-8")
UNITS = {"none", "short", "s", "percentunit", "decbytes", None}


def _panels() -> list[tuple[str, dict[str, Any]]]:
    return [(name, panel) for name in NAMES for panel in board(name)["panels"]]


def _name_of(value: Any) -> str:
    return value if isinstance(value, str) else str(value["title"])


def test_the_committed_files_are_the_built_ones() -> None:
    program = "import build, json; print(json.dumps({p.name: t for p, t in build.built()}))"
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=GRAFANA, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    committed = {path.name: path.read_text("utf-8") for path in FOLDER.glob("*.json")}

    assert json.loads(ran.stdout) == committed, "run: python config/grafana/build.py"


@pytest.mark.parametrize("name", NAMES)
def test_grafanas_sdk_reads_it_and_drops_nothing(name: str) -> None:
    """A key that it does not know it would drop without a word."""
    there_and_back = json.loads(json.dumps(Dashboard.from_json(board(name)), cls=JSONEncoder))

    assert there_and_back == board(name)


@pytest.mark.parametrize("name", NAMES)
def test_panels_lie_side_by_side(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    ids = [panel["id"] for panel in board(name)["panels"]]
    for panel in board(name)["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24, panel["title"]
        taken |= cells

    assert len(set(ids)) == len(ids) > 0
    width, height = (max(cell[i] for cell in taken) + 1 for i in (0, 1))
    assert len(taken) == width * height, "no holes"


@pytest.mark.parametrize(("name", "panel"), _panels(), ids=_name_of)
def test_a_panel_says_what_it_is_and_asks_the_chosen_prometheus(
    name: str, panel: dict[str, Any]
) -> None:
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"].get("unit") in UNITS
    for source in (panel["datasource"], *(t["datasource"] for t in panel["targets"])):
        assert source == {"type": "prometheus", "uid": "${datasource}"}
    for target in panel["targets"]:
        assert "$session" in target["expr"] or target["expr"].startswith("count(up")
    assert f"| {panel['title']} |" in DOCUMENT, "told in docs/observability.md"


def test_panels_and_annotations_name_only_metrics_that_are_documented() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    told = set(re.findall(r"^\| `(overnight_\w+)`", page, re.M))

    for query in (*queries(), *annotations()):
        named = set(re.findall(r"overnight_\w+", query.expr))
        bare = {n if n in told else re.sub(r"_(bucket|sum|count)$", "", n) for n in named}
        assert bare <= told, bare - told


def test_provisioning_finds_the_dashboards_and_prometheus() -> None:
    folder = GRAFANA / "provisioning"
    (source,) = yaml.safe_load((folder / "datasources/overnight.yaml").read_text())["datasources"]
    (provider,) = yaml.safe_load((folder / "dashboards/overnight.yaml").read_text())["providers"]

    assert (source["type"], source["url"]) == ("prometheus", "http://prometheus:9090")
    scrape = yaml.safe_load((ROOT / "config/prometheus/prometheus.yml").read_text())["global"]
    assert source["jsonData"]["timeInterval"] == scrape["scrape_interval"]
    assert provider["options"]["path"] == "/etc/grafana/dashboards"
