"""`overnight bench startup` where no engine answers."""

from __future__ import annotations

import json

from tests.e2e.stage import Stage


def test_without_an_engine_it_says_so_and_compares_processes(stage: Stage) -> None:
    nowhere = f"unix://{stage.folder}/no.sock"
    stage.environment = {"DOCKER_HOST": nowhere, "TMPDIR": str(stage.folder)}

    shown = stage.ask("bench", "startup", "--pairs", "1")
    found = stage.ask("bench", "startup", "--pairs", "1", "--json")

    assert (shown.code, found.code) == (0, 0)
    (line,) = [line for line in shown.output.splitlines() if "container" in line]
    assert line.strip().startswith(f"container: not measured: no container engine at {nowhere}")
    assert [row["name"] for row in json.loads(found.output)["rows"]] == [
        "bare process",
        "sandboxed process",
    ]
    assert not list(stage.folder.glob("overnight-startup-*"))


def test_a_number_of_pairs_below_one_is_refused(stage: Stage) -> None:
    refused = stage.ask("bench", "startup", "--pairs", "0")

    assert refused.code == 2
    assert "--pairs" in refused.errors
