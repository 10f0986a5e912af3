"""Folders of the image that are covered, and the ways through them to what is shown."""

from __future__ import annotations

from pathlib import Path

from overnight.spawner.masks import ENTER, MASKED, lay_out


def test_where_nothing_is_shown_the_closed_folder_covers(tmp_path: Path) -> None:
    closed = tmp_path / "closed"

    assert lay_out(tmp_path, closed, ["/data", "/opt/x"]) == dict.fromkeys(MASKED, str(closed))


def test_the_way_to_what_is_shown_is_there_and_can_be_entered_but_not_listed(
    tmp_path: Path,
) -> None:
    sources = lay_out(tmp_path, tmp_path / "closed", ["/home/me/data", "/home/me/a/file", "/var/x"])

    home = Path(sources["/home"])
    assert (home / "me" / "data").is_dir()
    assert {p.stat().st_mode & 0o777 for p in (home, home / "me", home / "me/a")} == {ENTER}
    assert Path(sources["/var"]).joinpath("x").is_dir()
    assert sources["/run"] == sources["/root"] == str(tmp_path / "closed")


def test_a_file_that_is_shown_gets_a_file_to_be_mounted_on(tmp_path: Path) -> None:
    shown = Path("/var/log").resolve()
    found = next(path for path in shown.rglob("*") if path.is_file())
    sources = lay_out(tmp_path, tmp_path / "closed", [str(found)])

    assert (Path(sources["/var"]) / found.relative_to("/var")).is_file()


def test_a_name_that_only_begins_alike_is_not_below(tmp_path: Path) -> None:
    sources = lay_out(tmp_path, tmp_path / "closed", ["/variable/x", "/var"])

    assert sources["/var"] == str(tmp_path / "closed")
