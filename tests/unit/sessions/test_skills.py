"""The skill's copy: written whole, brought up to date, and never over what a person edited."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from overnight.contracts.errors import InfrastructureError, UsageError
from overnight.sessions import skills
from overnight.sessions.skills import RECORD, bundled_skill, default_place, install


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A skill of two files."""
    folder = tmp_path / "source"
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_text("one\n")
    (folder / "scripts" / "go.sh").write_text("#!/bin/sh\n")
    (folder / ".DS_Store").write_text("not ours")
    return folder


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where it goes."""
    return tmp_path / "repo" / ".agents" / "skills"


def test_all_files_arrive_and_scripts_can_be_run(source: Path, place: Path) -> None:
    done = install(source, place)

    assert done.written == ("SKILL.md", "scripts/go.sh")
    assert (done.folder / "SKILL.md").read_text() == "one\n"
    assert os.access(done.folder / "scripts" / "go.sh", os.X_OK)
    assert not os.access(done.folder / "SKILL.md", os.X_OK)
    assert sorted(p.name for p in done.folder.iterdir()) == [RECORD, "SKILL.md", "scripts"]


def test_a_second_time_changes_nothing(source: Path, place: Path) -> None:
    first = install(source, place)
    times = {p: p.stat().st_mtime_ns for p in first.folder.rglob("*")}

    again = install(source, place)

    assert (again.written, again.same) == ((), ("SKILL.md", "scripts/go.sh"))
    assert {p: p.stat().st_mtime_ns for p in first.folder.rglob("*")} == times


def test_an_untouched_copy_follows_a_newer_version(source: Path, place: Path) -> None:
    install(source, place)
    (source / "SKILL.md").write_text("two\n")

    assert install(source, place).written == ("SKILL.md",)
    assert (place / "overnight" / "SKILL.md").read_text() == "two\n"


def test_an_edited_copy_is_kept_whole_and_named(source: Path, place: Path) -> None:
    folder = install(source, place).folder
    (folder / "SKILL.md").write_text("mine\n")
    (source / "SKILL.md").write_text("two\n")
    (source / "scripts" / "go.sh").write_text("#!/bin/sh\ntwo\n")

    with pytest.raises(UsageError, match=r"\(SKILL\.md\).*--force"):
        install(source, place)
    assert (folder / "SKILL.md").read_text() == "mine\n"
    assert (folder / "scripts" / "go.sh").read_text() == "#!/bin/sh\n"

    assert install(source, place, force=True).written == ("SKILL.md", "scripts/go.sh")
    assert (folder / "SKILL.md").read_text() == "two\n"


@pytest.mark.parametrize("record", ["", "{", "[]", '{"SKILL.md": 1}', "x" * 100_000])
def test_a_lost_record_only_makes_us_careful(source: Path, place: Path, record: str) -> None:
    folder = install(source, place).folder
    (folder / RECORD).write_text(record)

    assert install(source, place).written == ()
    (folder / RECORD).write_text(record)
    (source / "SKILL.md").write_text("two\n")
    with pytest.raises(UsageError, match="not as we wrote"):
        install(source, place)


def test_a_link_is_not_followed(source: Path, place: Path, tmp_path: Path) -> None:
    folder = install(source, place).folder
    (tmp_path / "theirs").write_text("one\n")
    (folder / "SKILL.md").unlink()
    (folder / "SKILL.md").symlink_to(tmp_path / "theirs")

    with pytest.raises(UsageError):
        install(source, place)
    install(source, place, force=True)

    assert (tmp_path / "theirs").read_text() == "one\n"
    assert not (folder / "SKILL.md").is_symlink()


def test_a_file_where_the_folder_goes_is_refused(source: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(UsageError, match="is no folder"):
        install(source, tmp_path / "file")


def test_the_source_is_not_installed_over_itself() -> None:
    source = bundled_skill()

    with pytest.raises(UsageError, match="where the skill comes from"):
        install(source, source.parent)
    assert not (source / RECORD).exists()


def test_a_full_disk_leaves_no_half_a_file(
    source: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(skills, "write_new", full)
    with pytest.raises(InfrastructureError, match="No space left"):
        install(source, place)
    assert [p for p in place.rglob("*") if p.is_file()] == []


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ((), ".agents/skills"),
        ((".agents",), ".agents/skills"),
        ((".claude",), ".claude/skills"),
    ],
)
def test_the_agents_own_folder_is_found(
    there: tuple[str, ...], expected: str, tmp_path: Path
) -> None:
    for name in there:
        (tmp_path / name).mkdir()

    assert default_place(tmp_path) == tmp_path / expected
