"""
Draws the dashboards by Grafana's own panel components, from a real session: docs/dashboards/*.png.

    python -m benchmarks.dashboards                 # 2 minutes, and 1 to install Grafana's library
    python -m benchmarks.dashboards --packages DIR  # node_modules of an earlier run
    python -m benchmarks.dashboards --answers FILE  # a session that was kept with --keep FILE

Needs npm, Chromium and Prometheus; 600 MB of packages while it runs. It shows how panels look with
real answers. That a Grafana server loads the files is not tried by it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from PIL import Image
from tests.integration.observability.boards import NAMES, Query, board
from tests.prometheus_server import PrometheusServer

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PLACE = ROOT / "docs" / "dashboards"
PACKAGES = (
    "@grafana/ui@11.6.0", "@grafana/data@11.6.0", "@grafana/schema@11.6.0", "react@18.3.1",
    "react-dom@18.3.1", "@fontsource/inter@5.1.0", "esbuild@0.25.0",
)  # fmt: skip
IDEAS, SHOWN_AT = 22, 19  #: the pictures are taken while the last ones run
DEMO = ("demo", "--experiments", str(IDEAS), "--gate", "steps", "--budget", "60", "--json")
WIDTH, ROW, HEAD = 1500, 38, 56  #: pixels, as in page.tsx
BROWSER = (
    "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run", "--hide-scrollbars",
    "--virtual-time-budget=8000", "--enable-logging=stderr",
)  # fmt: skip
PAGE = """\
<link rel="stylesheet" href="page.css">
<div id="root"></div>
<script src="page.js"></script>
"""
COLOURS = 128
LIMIT_BYTES = 200_000  #: of a picture


def main() -> None:
    """Play, ask, draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    parser.add_argument("--packages", type=Path, help="a folder with node_modules")
    parser.add_argument("--answers", type=Path, help="of an earlier run")
    parser.add_argument("--keep", type=Path, help="write the answers there too")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ovd-") as name:
        folder = Path(name)
        told = chosen.answers.read_text() if chosen.answers else json.dumps(answers(folder))
        if chosen.keep:
            chosen.keep.write_text(told)
        packages = chosen.packages.resolve() if chosen.packages else install(folder / "packages")
        PLACE.mkdir(exist_ok=True)
        for each in NAMES:
            draw(each, told, packages, folder)
            size = (PLACE / f"{each}.png").stat().st_size
            print(f"{size:>8} {each}.png")
            assert size < LIMIT_BYTES, "too large to keep"


def answers(folder: Path) -> dict[str, Any]:
    """What Prometheus says to each panel while a session of the bundled track runs."""
    targets = folder / "targets"
    targets.mkdir()
    env = {**os.environ, "PYTHONPATH": str(ROOT / "services"), "OVERNIGHT_STATE": f"{folder}/state"}
    env["OVERNIGHT_SUPERVISOR_TARGETS_DIR"] = str(targets)
    cli = (sys.executable, "-m", "overnight.cli")
    with PrometheusServer(folder / "prometheus", targets) as prometheus:
        run = subprocess.Popen(
            (*cli, *DEMO, "--dir", "demo"), cwd=folder, env=env, stdout=subprocess.DEVNULL
        )
        try:
            began = time.time()
            while (prometheus.value("sum(overnight_experiments)") or 0) < SHOWN_AT:
                assert run.poll() is None, "the session ended early"
                time.sleep(1)
            return asked(prometheus, began)
        finally:
            run.terminate()
            run.wait(60)


def asked(prometheus: PrometheusServer, began: float) -> dict[str, Any]:
    """As Grafana asks, over the time since *began*."""
    now = time.time()
    sid, tag = next(
        (labels["session"], labels["tag"]) for labels, _ in prometheus.now("overnight_ledger_rows")
    )
    told: dict[str, Any] = {}
    for name in NAMES:
        whole = board(name)
        found = {}
        for panel in whole["panels"]:
            for target in panel["targets"]:
                expr = Query(name, panel["title"], target["expr"], False).with_(
                    sid, int(now - began)
                )
                if target.get("instant"):
                    data = prometheus.get("query", query=expr, time=f"{now}")["data"]
                else:
                    data = over(prometheus, expr, (began, now))
                found[f"{panel['id']} {target['refId']}"] = {
                    "type": data["resultType"],
                    "result": data["result"],
                }
        told[name] = {
            "board": whole, "answers": found, "from": began, "to": now, "tag": tag,
            "keeps": keeps(prometheus, whole, sid, (began, now)),
        }  # fmt: skip
    return told


def over(prometheus: PrometheusServer, expr: str, span: tuple[float, float]) -> Any:
    """A range query, a point a second."""
    start, end = map(str, span)
    return prometheus.get("query_range", query=expr, start=start, end=end, step="1")["data"]


def keeps(
    prometheus: PrometheusServer, whole: dict[str, Any], sid: str, span: tuple[float, float]
) -> list[float]:
    """The times that the dashboard's annotation marks."""
    times = []
    for each in whole["annotations"].get("list", ()):
        expr = Query("", each["name"], each["expr"], False).with_(sid, int(span[1] - span[0]))
        found = over(prometheus, expr, span)["result"]
        times += [float(at) for series in found for at, value in series["values"] if value == "1"]
    return times


def install(folder: Path) -> Path:
    """Grafana's library, for the time of this run."""
    folder.mkdir()
    (folder / "package.json").write_text('{"private": true, "type": "module"}\n')
    words = ("npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts")
    subprocess.run((*words, *PACKAGES), cwd=folder, check=True)
    return folder


def draw(name: str, told: str, packages: Path, folder: Path) -> None:
    """One dashboard, by Chromium without a window."""
    work = folder / name
    work.mkdir()
    (work / "answers.json").write_text(told)
    (work / "page.tsx").write_text((HERE / "page.tsx").read_text())
    (work / "index.html").write_text(PAGE)
    # Bundled, its default export is not the component that tables expect.
    scrollbars = f"{packages}/node_modules/react-custom-scrollbars-2/lib/index.js"
    (work / "scrollbars.js").write_text(
        f'export {{ Scrollbars as default }} from "{scrollbars}";\n'
    )
    build = (
        f"{packages}/node_modules/.bin/esbuild", "page.tsx", "--bundle", "--outfile=page.js",
        f'--define:BOARD="{name}"', '--define:process.env.NODE_ENV="production"',
        "--loader:.svg=dataurl", "--loader:.ttf=empty", "--loader:.woff=empty",
        "--loader:.woff2=dataurl", "--log-level=error", "--define:global=window",
        "--alias:react-custom-scrollbars-2=./scrollbars.js",
    )  # fmt: skip
    env = {**os.environ, "NODE_PATH": f"{packages}/node_modules"}
    subprocess.run(build, cwd=work, env=env, check=True)
    rows = max(p["gridPos"]["y"] + p["gridPos"]["h"] for p in board(name)["panels"])
    size = f"--window-size={WIDTH},{HEAD + ROW * rows}"
    picture = work / "picture.png"
    said = subprocess.run(
        (*BROWSER, f"--user-data-dir={work}/profile", size, f"--screenshot={picture}",
         f"file://{work}/index.html"),
        cwd=work, check=True, capture_output=True, text=True,
    ).stderr  # fmt: skip
    assert "Uncaught" not in said, said[said.index("Uncaught") :][:1000]
    Image.open(picture).convert("RGB").quantize(COLOURS).save(PLACE / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
