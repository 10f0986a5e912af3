"""Prints the dashboards as TypeScript whose types are Grafana's; for typecheck.sh."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

#: Panel type -> where its options and its fields' own settings are defined, and under which names.
KINDS = {
    "stat": ("stat/panelcfg/x/StatPanelCfg_types.gen", "Options", None),
    "bargauge": ("bargauge/panelcfg/x/BarGaugePanelCfg_types.gen", "Options", None),
    "timeseries": ("timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen", "Options", "FieldConfig"),
    "table": ("table/panelcfg/x/TablePanelCfg_types.gen", "Options", "FieldConfig"),
    "state-timeline": (
        "statetimeline/panelcfg/x/StateTimelinePanelCfg_types.gen", "Options", "FieldConfig",
    ),
}  # fmt: skip

HEAD = """\
import type { Dashboard } from '@grafana/schema';
// An enum's words as JSON holds them.
type Plain<T> = T extends string ? `${T}` : T extends number | boolean | null | undefined ? T
  : T extends (infer U)[] ? Plain<U>[] : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;
// What Grafana fills in by itself may be left out.
type Some<T> = T extends (infer U)[] ? Some<U>[] : T extends object ? { [K in keyof T]?: Some<T[K]> } : T;
"""


def _without_the_known(board: dict[str, Any]) -> dict[str, Any]:
    """Less what the SDK writes beyond these types: fields of an interval variable on each
    variable, and an annotation's `expr`, which Grafana's Prometheus itself moves to `target`."""
    for variable in board["templating"]["list"]:
        for name in ("auto", "auto_count", "auto_min"):
            del variable[name]
    for annotation in board["annotations"].get("list", ()):
        del annotation["expr"]
    return board


def main() -> None:
    """All of them."""
    print(HEAD)
    for kind, (path, *_) in KINDS.items():
        name = kind.replace("-", "_")
        print(
            f"import type * as {name} from '@grafana/schema/dist/esm/raw/composable/{path}.d.ts';"
        )
    for file in sorted((Path(__file__).parent / "dashboards").glob("*.json")):
        board = _without_the_known(json.loads(file.read_text("utf-8")))
        print(f"export const {file.stem}: Plain<Dashboard> = {json.dumps(board)};")
        for panel in board["panels"]:
            _, options, fields = KINDS[panel["type"]]
            name, number = panel["type"].replace("-", "_"), panel["id"]
            told = json.dumps(panel.get("options", {}))
            print(f"export const {file.stem}_{number}: Some<Plain<{name}.{options}>> = {told};")
            custom = panel["fieldConfig"]["defaults"].get("custom")
            if fields and custom:
                told = json.dumps(custom)
                print(f"export const {file.stem}_f{number}: Some<Plain<{name}.{fields}>> = {told};")


if __name__ == "__main__":
    main()
