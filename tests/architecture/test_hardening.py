"""docs/hardening.md: each row of the abuse catalogue has a test in every profile that owes one."""

from __future__ import annotations

from pathlib import Path

from tests import hardening

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = [ROOT / "tests" / name for name in hardening.FOLDERS]


def test_every_row_has_a_test_in_every_profile_that_owes_one() -> None:
    assert hardening.missing(hardening.collect(FOLDERS)) == []


def test_the_page_is_what_the_tests_say() -> None:
    written = hardening.PAGE.read_text("utf-8")

    assert written == hardening.page(written, hardening.collect(FOLDERS)), (
        "write it again: python -m tests.hardening --write"
    )


def test_a_row_that_only_other_profiles_show_is_missed() -> None:
    shown = [item for item in hardening.collect(FOLDERS) if item.row != "P07"]
    elsewhere = hardening.Shown("P07", "tests/x.py", "test_x", "", (hardening.AS_ROOT,))
    strange = hardening.Shown("P99", "tests/x.py", "test_x", "", (hardening.DOCKER,))

    assert hardening.missing([*shown, elsewhere, strange]) == [
        "P07: no test in the profile 'process, ordinary user'",
        "P07: no test in the profile 'docker'",
        "P99: no row of the catalogue",
    ]
