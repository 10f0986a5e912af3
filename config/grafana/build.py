"""Writes the dashboards: `python config/grafana/build.py` (with the `dev` extra).

Panels live in tonight.py and fleet.py: edit them there, run this, commit both. A test compares.
docs/observability.md tells what each panel means.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from fleet import fleet
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from tonight import tonight

FOLDER = Path(__file__).parent / "dashboards"


def built() -> Iterator[tuple[Path, str]]:
    """Each file and what belongs into it."""
    for name, board in (("tonight", tonight()), ("fleet", fleet())):
        text = json.dumps(board.build(), cls=JSONEncoder, indent=2, sort_keys=True)
        yield FOLDER / f"{name}.json", text + "\n"


if __name__ == "__main__":
    for path, text in built():
        path.write_text(text)
        print(f"wrote {path}")
