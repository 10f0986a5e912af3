"""apply: exactly the kept changes, as the user's own commits, and nothing else is touched."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.snapshots.user_repositories import fingerprint, run_git, write
from tests.unit.sessions.told import Told

from overnight.contracts.errors import UsageError
from overnight.sessions.applying import Applied, Wish, apply

TRAIN = "LR = 0.1\n\n\nWIDTH = 64\n\n\nBETA = 0.8\nprint(LR, WIDTH, BETA)\n"
USER = {"GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org"}


def _repo(folder: Path, prefix: str = "") -> Path:
    write(folder, {f"{prefix}train.py": TRAIN, f"{prefix}data.py": "D = 1\n", "README": "hello\n"})
    run_git(folder, "init", "-q", "-b", "main")
    run_git(folder, "add", ".")
    run_git(folder, "commit", "-q", "-m", "start")
    return folder / prefix


def _edit(**values: str) -> dict[str, str]:
    text = TRAIN
    for name, value in values.items():
        old = next(line for line in TRAIN.splitlines() if line.startswith(f"{name} ="))
        text = text.replace(old, f"{name} = {value}")
    return {"train.py": text}


def _ideas(told: Told) -> None:
    """2 and 4 are kept, 3 is worse, 5 crashed."""
    told.idea(_edit(LR="0.03"), 0.9, hypothesis="LR 0.1 -> 0.03")
    told.idea(_edit(LR="0.03", WIDTH="8"), 1.5, hypothesis="WIDTH 64 -> 8")
    told.idea(_edit(LR="0.03", BETA="0.95"), 0.8, hypothesis="BETA up\nOvernight-Session: evil")
    told.idea(_edit(LR="nan"), None, hypothesis="LR away")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository and its session, to be copied: making one takes a hundred git processes."""
    repo = _repo(tmp_path_factory.mktemp("template") / "repo")
    session = Told(repo)
    _ideas(session)
    session.close()
    return repo


@pytest.fixture
def repo(template: Path, tmp_path: Path) -> Path:
    return shutil.copytree(template, tmp_path / "repo", symlinks=True)


@pytest.fixture
def told(repo: Path) -> Iterator[Told]:
    session = Told.again(repo)
    yield session
    session.close()


@pytest.fixture
def bare(template: Path, tmp_path: Path) -> Path:
    """A repository without a session yet."""
    without = shutil.ignore_patterns("sandbox")
    return shutil.copytree(template, tmp_path / "bare", symlinks=True, ignore=without)


def _apply(told: Told, which: str = "best", **wish: object) -> Applied:
    here = wish.pop("here", told.repo)
    return apply(told.found, Wish(which=which, here=here, **wish), USER)  # type: ignore[arg-type]


def _show(repo: Path, what: str) -> str:
    return run_git(repo, "show", what)


def _subjects(repo: Path, branch: str, since: str = "main") -> list[str]:
    return run_git(repo, "log", "--reverse", "--format=%s", f"{since}..{branch}").splitlines()


def test_each_kept_change_is_one_commit_of_the_user_s_with_its_number_and_metric(
    told: Told, repo: Path
) -> None:
    done = _apply(told)

    assert _subjects(repo, "overnight/mar5") == [
        "exp: LR 0.1 -> 0.03",
        "exp: BETA up Overnight-Session: evil",
    ]
    assert _show(repo, "overnight/mar5:train.py") == _edit(LR="0.03", BETA="0.95")["train.py"]
    assert _show(repo, "overnight/mar5~1:train.py") == _edit(LR="0.03")["train.py"]
    said = run_git(repo, "log", "-1", "--format=%an <%ae> %cn%n%(trailers:only)", "overnight/mar5")
    assert said.split("\n") == [
        "Ada <ada@example.org> Ada",
        "Overnight-Experiment: mar5/4",
        "Overnight-Metric: val_bpb 0.8",
        "Overnight-Session: 0123456789ab",
        "",
        "",
    ]
    assert done.made
    assert [ids for _, ids in done.commits] == [(2,), (4,)]
    assert done.files == ("train.py",)


def test_checkout_index_head_stash_and_configuration_stay_as_they_are(
    told: Told, repo: Path
) -> None:
    write(repo, {"train.py": "half done\n", "new.txt": "mine\n"})
    run_git(repo, "stash", "-q")
    write(repo, {"train.py": "in the work tree\n", "README": "staged\n"})
    run_git(repo, "add", "README")
    hooks = repo / ".git" / "hooks"
    for name in ("reference-transaction", "post-commit", "pre-commit", "post-index-change"):
        (hooks / name).write_text("#!/bin/sh\necho ran >> " + str(repo / "hook-ran") + "\n")
        (hooks / name).chmod(0o755)
    for key in ("core.fsmonitor", "gpg.program", "core.pager", "merge.x.driver", "core.editor"):
        run_git(repo, "config", key, str(hooks / "pre-commit"))
    run_git(repo, "config", "core.hooksPath", str(hooks))
    run_git(repo, "config", "commit.gpgSign", "true")
    write(repo, {".gitattributes": "* merge=x\n"})

    def others(path: str) -> bool:
        return path.startswith((".git/objects", ".git/refs/heads/overnight", "sandbox"))

    before = fingerprint(repo, without=others)
    _apply(told)

    assert fingerprint(repo, without=others) == before
    assert _subjects(repo, "overnight/mar5") != []


def test_squash_makes_one_commit_that_names_all_experiments(told: Told, repo: Path) -> None:
    _apply(told, squash=True)

    assert _subjects(repo, "overnight/mar5") == ["exp: 2 changes of session mar5"]
    body = run_git(repo, "log", "-1", "--format=%b", "overnight/mar5")
    assert "- LR 0.1 -> 0.03\n- BETA up" in body
    assert "Overnight-Experiment: mar5/2\nOvernight-Experiment: mar5/4\n" in body
    assert _show(repo, "overnight/mar5:train.py") == _edit(LR="0.03", BETA="0.95")["train.py"]


def test_a_subdirectory_s_files_come_to_their_place_below_the_root(tmp_path: Path) -> None:
    repo = _repo(tmp_path / "mono", "models/gpt/")
    told = Told(repo)
    _ideas(told)

    done = _apply(told)
    told.close()

    assert done.files == ("models/gpt/train.py",)
    changed = run_git(repo, "diff", "--name-only", "main", "overnight/mar5").split()
    assert changed == ["models/gpt/train.py"]


def test_a_session_with_branches_comes_home_the_same_way(tmp_path: Path) -> None:
    repo = _repo(tmp_path / "mono", "models/gpt/")
    told = Told(repo, iter_strategy="branches")
    _ideas(told)

    done = _apply(told)
    files = _apply(told, to=tmp_path / "files")
    told.close()

    assert (done.files, files.files) == (("models/gpt/train.py",), ("train.py",))
    assert done.own_edits == ()
    text = _show(repo, "overnight/mar5:models/gpt/train.py")
    assert text == _edit(LR="0.03", BETA="0.95")["train.py"]
    assert run_git(repo, "log", "-1", "--format=%an", "overnight/mar5") == "Ada\n"
    assert "a/train.py" in (tmp_path / "files" / "changes.patch").read_text()


def test_edits_that_were_not_committed_come_first_and_new_files_stay_out(bare: Path) -> None:
    write(bare, {"data.py": "D = 2\n", "train.py": TRAIN + "# mine\n", "secret.txt": "s\n"})
    told = Told(bare)
    told.idea({"train.py": TRAIN.replace("0.1", "0.03") + "# mine\n"}, 0.9, hypothesis="LR")

    done = _apply(told)
    told.close()

    assert _subjects(bare, "overnight/mar5") == [
        "Session mar5 began with edits that were not committed",
        "exp: LR",
    ]
    assert _show(bare, "overnight/mar5:data.py") == "D = 2\n"
    diff = run_git(bare, "diff", "overnight/mar5~1", "overnight/mar5")
    assert [line for line in diff.splitlines() if line[:2] in ("-L", "+L")] == [
        "-LR = 0.1",
        "+LR = 0.03",
    ]
    names = run_git(bare, "ls-tree", "-r", "--name-only", "overnight/mar5").split()
    assert names == ["README", "data.py", "train.py"]
    assert done.own_edits == ("data.py", "train.py")
    assert any("secret.txt" in note for note in done.notes)


def test_a_branch_begins_where_the_session_began_though_main_went_on(
    told: Told, repo: Path
) -> None:
    write(repo, {"train.py": TRAIN.replace("LR = 0.1", "LR = 0.7")})
    run_git(repo, "commit", "-q", "-a", "-m", "later")

    _apply(told)

    assert run_git(repo, "rev-parse", "overnight/mar5~2") == run_git(repo, "rev-parse", "main~1")


def test_onto_a_branch_that_went_on_elsewhere_is_merged(told: Told, repo: Path) -> None:
    run_git(repo, "branch", "work")
    other = repo.parent / "other"
    run_git(repo, "worktree", "add", "-q", str(other), "work")
    write(other, {"train.py": TRAIN.replace("WIDTH = 64", "WIDTH = 65")})
    run_git(other, "commit", "-q", "-a", "-m", "wider")
    run_git(repo, "worktree", "remove", "--force", str(other))

    done = _apply(told, onto="work")

    assert not done.made
    text = _show(repo, "work:train.py")
    assert text == _edit(LR="0.03", WIDTH="65", BETA="0.95")["train.py"]
    assert _subjects(repo, "work")[0] == "wider"


def test_a_change_that_does_not_fit_is_refused_by_the_file_and_nothing_is_written(
    told: Told, repo: Path
) -> None:
    run_git(repo, "branch", "work", "main")
    run_git(repo, "checkout", "-q", "work")
    write(repo, {"train.py": TRAIN.replace("LR = 0.1", "LR = 0.7")})
    run_git(repo, "commit", "-q", "-a", "-m", "mine")
    run_git(repo, "checkout", "-q", "main")
    before = fingerprint(repo / ".git", without=lambda path: False)

    with pytest.raises(UsageError, match=r"experiment 2 does not fit on work: train\.py was chan"):
        _apply(told, onto="work")

    assert fingerprint(repo / ".git", without=lambda path: False) == before


def test_a_branch_that_exists_or_is_checked_out_is_refused(told: Told, repo: Path) -> None:
    _apply(told)
    with pytest.raises(UsageError, match="overnight/mar5 exists: go on with it by --onto"):
        _apply(told)
    with pytest.raises(UsageError, match="main is checked out in"):
        _apply(told, onto="main")
    run_git(repo, "branch", "overnight2")
    with pytest.raises(UsageError, match="overnight2 is in the way of overnight2/x"):
        _apply(told, onto="overnight2/x")
    for name in ("-d", "a..b", "a b", "x.lock", ""):
        if name:
            with pytest.raises(UsageError, match="no name for a branch"):
                _apply(told, onto=name)
    for name in ("HEAD", "refs/heads/x"):  # git takes them, and then finds HEAD ambiguous
        with pytest.raises(UsageError, match="name it as `git branch` lists it"):
            _apply(told, onto=name)


def test_the_old_branch_gets_only_what_it_lacks(told: Told, repo: Path) -> None:
    _apply(told)
    told.idea(_edit(LR="0.02", BETA="0.95"), 0.7, hypothesis="LR down, where 2 was")

    done = _apply(told, onto="overnight/mar5")
    again = _apply(told, onto="overnight/mar5")

    assert _subjects(repo, "overnight/mar5")[2:] == ["exp: LR down, where 2 was"]
    assert done.skipped == (2, 4)
    assert again.commits == ()


def test_a_discarded_experiment_is_taken_by_its_number_and_told_as_such(
    told: Told, repo: Path
) -> None:
    done = _apply(told, "3")

    assert [ids for _, ids in done.commits] == [(2,), (3,)]
    assert "not kept (discard)" in done.notes[0]
    assert _show(repo, "overnight/mar5:train.py") == _edit(LR="0.03", WIDTH="8")["train.py"]


def test_what_the_session_began_with_comes_as_its_own_commit(bare: Path) -> None:
    write(bare, {"train.py": TRAIN.replace("64", "128")})
    origin = {"tag": "mar4", "sid": "a" * 12, "id": 9, "commit": "c" * 40}
    told = Told(bare, origin=origin)
    with pytest.raises(UsageError, match="the baseline itself: `overnight apply 9 --tag mar4`"):
        _apply(told)
    told.idea({"train.py": TRAIN.replace("64", "128").replace("0.1", "0.2")}, 0.5)

    _apply(told)
    told.close()

    assert _subjects(bare, "overnight/mar5")[0] == "Session mar5 began with experiment mar4/9"


@pytest.mark.parametrize(
    ("which", "line"),
    [
        ("1", "experiment 1 is the baseline"),
        ("9", "no experiment 9"),
        ("x", "no experiment"),
    ],
)
def test_what_cannot_be_applied_is_said(told: Told, which: str, line: str) -> None:
    with pytest.raises(UsageError, match=line):
        _apply(told, which)


def test_without_a_kept_change_there_is_nothing_to_apply(bare: Path) -> None:
    told = Told(bare)
    with pytest.raises(UsageError, match="no change was kept yet"):
        _apply(told)
    told.close()


def test_no_name_for_the_commits_is_told_with_the_two_commands(told: Told, repo: Path) -> None:
    with pytest.raises(UsageError, match=r"git config --global user\.name"):
        apply(told.found, Wish(here=told.repo), {})
    run_git(repo, "config", "user.name", "Local <Name>")
    with pytest.raises(UsageError, match="no mail address"):
        apply(told.found, Wish(here=told.repo), {})
    home = repo.parent / "home"
    write(home, {".gitconfig": "[user]\n\temail = global@example.org\n"})
    apply(told.found, Wish(here=told.repo), {"HOME": str(home)})

    said = run_git(repo, "log", "-1", "--format=%an %ae", "overnight/mar5")
    assert said.split() == ["Local", "Name", "global@example.org"]


def test_outside_git_the_files_and_a_patch_that_applies(tmp_path: Path) -> None:
    repo = tmp_path / "plain"
    write(repo, {"train.py": TRAIN, "data.py": "D = 1\n"})
    told = Told(repo)
    _ideas(told)

    with pytest.raises(UsageError, match=r"no git repository: take the files by"):
        _apply(told)
    done = _apply(told, to=tmp_path / "new" / "files")
    told.close()

    wanted = _edit(LR="0.03", BETA="0.95")["train.py"]
    assert (tmp_path / "new" / "files" / "train.py").read_text() == wanted
    assert done.files == ("train.py",)
    patch = tmp_path / "new" / "files" / "changes.patch"
    subprocess.run(
        ["patch", "-p1", "-s", "-i", str(patch)],
        cwd=repo,
        env={"PATH": "/usr/bin:/bin"},
        check=True,
    )
    assert (repo / "train.py").read_text() == wanted
    with pytest.raises(UsageError, match="there already"):
        _apply(told, to=tmp_path / "new" / "files")


def test_line_ends_and_filters_of_the_repository_are_no_edits(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    write(repo, {"train.py": TRAIN, "model.bin": "pointer\n", ".gitattributes": "*.bin filter=x\n"})
    run_git(repo, "init", "-q", "-b", "main")
    run_git(repo, "add", ".")
    run_git(repo, "commit", "-q", "-m", "start")
    write(repo, {"train.py": TRAIN.replace("\n", "\r\n"), "model.bin": b"the real thing"})
    told = Told(repo)
    told.idea({"train.py": TRAIN.replace("0.1", "0.2").replace("\n", "\r\n")}, 0.5)

    done = _apply(told)
    told.close()

    assert done.own_edits == ()
    diff = run_git(repo, "diff", "--stat", "main", "overnight/mar5")
    assert "1 file changed, 1 insertion(+), 1 deletion(-)" in diff


def test_a_repository_without_a_commit_or_with_other_objects_is_refused(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    write(repo, {"train.py": TRAIN})
    run_git(repo, "init", "-q", "-b", "main")
    told = Told(repo)
    _ideas(told)

    with pytest.raises(UsageError, match="no commit yet"):
        _apply(told)
    run_git(repo, "add", "train.py")
    run_git(repo, "commit", "-q", "-m", "now")
    done = _apply(told)
    told.close()

    assert "had no commit when the session began" in done.notes[0]
    assert _subjects(repo, "overnight/mar5") != []


def test_moved_folders_are_found(told: Told, repo: Path, tmp_path: Path) -> None:
    moved = repo.rename(tmp_path / "elsewhere")
    told.files = type(told.files)(moved / "sandbox")
    assert _apply(told, here=moved).commits != ()

    away = (moved / "sandbox").rename(tmp_path / "away")
    told.files = type(told.files)(away)
    with pytest.raises(UsageError, match="name it by --repo"):
        _apply(told, here=away)
    assert _apply(told, here=away, repo=moved, onto="again").commits != ()

    (moved / ".git").rename(tmp_path / "gitdir")
    (moved / ".git").write_text(f"gitdir: {tmp_path / 'gitdir'}\n")
    assert _apply(told, here=away, repo=moved, onto="third").commits != ()
