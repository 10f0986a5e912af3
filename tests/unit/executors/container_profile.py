"""Writes config/seccomp.json: `python -m tests.unit.executors.container_profile`."""

from __future__ import annotations

from pathlib import Path

from overnight.executors.container_seccomp import profile_text

FILE = Path(__file__).resolve().parents[3] / "config" / "seccomp.json"


def main() -> None:
    """Write the file; then read it and commit it."""
    FILE.write_text(profile_text(), "utf-8")


if __name__ == "__main__":
    main()
