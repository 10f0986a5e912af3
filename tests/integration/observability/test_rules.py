"""Alert rules fire when they should and only then, by Prometheus's own tool; each has its page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))

from boards import annotations

ROOT = Path(__file__).parents[3]
PROMETHEUS = ROOT / "config" / "prometheus"
CASES = Path(__file__).parent / "alerts_test.yml"
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text("utf-8")
ALERTS = {
    rule["alert"]: rule
    for group in yaml.safe_load((PROMETHEUS / "rules" / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
}


def _promtool(*words: object) -> str:
    """Its output; it must be there and be content."""
    ran = subprocess.run(
        ["promtool", *map(str, words)], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_each_alert_fires_and_stays_quiet_as_its_cases_say() -> None:
    assert "SUCCESS" in _promtool("test", "rules", CASES)


@pytest.mark.parametrize("alert", ALERTS)
def test_there_are_cases_of_both_kinds(alert: str) -> None:
    cases = [
        case
        for test in yaml.safe_load(CASES.read_text())["tests"]
        for case in test.get("alert_rule_test", ())
        if case["alertname"] == alert
    ]

    assert any(case["exp_alerts"] for case in cases)
    assert any(not case["exp_alerts"] for case in cases) or len(
        {len(case["exp_alerts"]) for case in cases}
    ) > 1  # fmt: skip


@pytest.mark.parametrize("config", ["prometheus.yml", "embedded.yml"])
def test_prometheus_takes_the_configuration(config: str) -> None:
    _promtool("check", "config", PROMETHEUS / config)


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_says_what_it_is_and_where_to_read_on(alert: str) -> None:
    rule: dict[str, Any] = ALERTS[alert]
    section = RUNBOOK.partition(f"\n## {alert}\n")[2].partition("\n## ")[0]

    assert rule["labels"]["severity"] in ("critical", "warning")
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    assert rule["annotations"]["runbook_url"] == f"docs/runbook.md#{alert.lower()}"
    for part in ("**Means**", "**Look**", "**Do**"):
        assert part in section, part


def test_the_runbook_tells_of_no_alert_that_is_not_there() -> None:
    assert sorted(re.findall(r"^## (Overnight\w+)$", RUNBOOK, re.M)) == sorted(ALERTS)


def test_alerts_name_only_metrics_that_are_documented() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    told = set(re.findall(r"^\| `(overnight_\w+)`", page, re.M))

    for rules in (PROMETHEUS / "rules").glob("*.yml"):
        named = set(re.findall(r"(?<![:\w])overnight_\w+", _expressions(rules)))
        bare = {re.sub(r"_(bucket|sum|count)$", "", name) for name in named}
        assert bare <= told, bare - told


def _expressions(rules: Path) -> str:
    groups = yaml.safe_load(rules.read_text())["groups"]
    return "\n".join(rule["expr"] for group in groups for rule in group["rules"])


def test_the_document_tells_of_each_alert() -> None:
    page = (ROOT / "docs" / "observability.md").read_text("utf-8")

    assert re.findall(r"^\| `(Overnight\w+)` \|", page, re.M) == list(ALERTS)


def test_a_keep_is_marked_once_also_after_a_scrape_that_failed(tmp_path: Path) -> None:
    """As Grafana draws it: the points of the annotation that are 1."""
    (query,) = annotations()
    expr = query.with_("s", 0)
    seen = "0 0 1 1 stale 2 2 stale stale 3 3"  # once a second
    marked = {2, 5, 9}
    gaps = {4, 7, 8}
    file = tmp_path / "test.yml"
    file.write_text(
        yaml.safe_dump(
            {
                "evaluation_interval": "1s",
                "tests": [
                    {
                        "interval": "1s",
                        "input_series": [
                            {"series": 'overnight_keeps_total{session="s"}', "values": seen}
                        ],
                        "promql_expr_test": [
                            {
                                "expr": expr,
                                "eval_time": f"{second}s",
                                "exp_samples": []
                                if second in gaps
                                else [{"labels": "{}", "value": int(second in marked)}],
                            }
                            for second in range(1, 11)
                        ],
                    }
                ],
            }
        )
    )

    assert "SUCCESS" in _promtool("test", "rules", file)
