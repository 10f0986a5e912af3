"""Options of the process executor are checked, each error names its key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from overnight.contracts.errors import ConfigError
from overnight.executors.process import ProcessExecutor


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"isolation": "some"}, "isolation"),
        ({"lock_dir": "relative"}, "lock_dir"),
        ({"lock_dir": 3}, "lock_dir"),
        ({"protected": "/a"}, "protected"),
        ({"protected": [1]}, "protected"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        ProcessExecutor({"lock_dir": str(tmp_path), "isolation": "none", **options})
