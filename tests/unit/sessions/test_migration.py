"""A session that version 1 wrote, to the byte: told as such, copied whole, never touched."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from tests.e2e.cli_driver import Cli
from tests.golden.make import HERE
from tests.integration.snapshots.user_repositories import fingerprint, write

from overnight.contracts import wire
from overnight.contracts.errors import InfrastructureError, LedgerError, UsageError
from overnight.contracts.experiment import ExperimentJob, ExperimentResult
from overnight.contracts.rows import ROW_VERSION, LedgerMessage, Opening
from overnight.contracts.status import RowKind
from overnight.ledger.files import SessionFiles
from overnight.ledger.fold import SessionState
from overnight.ledger.identity import Identity
from overnight.ledger.lock import hold_session
from overnight.ledger.older import NotOlderError, OlderRows
from overnight.runner.durable import ClaimFile, Outbox
from overnight.sessions import migration
from overnight.sessions.experiments import diff, find_experiment
from overnight.sessions.locate import find_session, read_state
from overnight.sessions.migration import migrate
from overnight.sessions.verify import verify

TAG = f"mar5-v{ROW_VERSION}"


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose session release 0.1.0 wrote in two runs: nine experiments, two kept."""
    folder = tmp_path_factory.mktemp("old")
    with tarfile.open(HERE / "session-v1.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "repo"


@pytest.fixture
def repo(unpacked: Path, tmp_path: Path) -> Path:
    return shutil.copytree(unpacked, tmp_path / "repo", symlinks=True)


@pytest.fixture
def files(repo: Path) -> SessionFiles:
    return SessionFiles(repo / "sandbox")


def _whole(folder: Path) -> dict[str, str]:
    return fingerprint(folder, without=lambda path: False)


def _lines(files: SessionFiles) -> list[dict[str, Any]]:
    return [json.loads(line) for line in files.ledger.read_bytes().splitlines()]


def test_the_copy_has_every_row_and_the_original_stays_as_it_is(
    repo: Path, files: SessionFiles
) -> None:
    before, rows = _whole(files.root), _lines(files)

    done = migrate(files)

    assert _whole(files.root) == before
    assert (done.tag, done.root, done.version) == (TAG, repo / f"sandbox-{TAG}", 1)
    assert (done.rows, done.experiments) == (43, 9)
    new = SessionFiles(done.root)
    for old, made in zip(rows, _lines(new), strict=True):
        same = ("seq", "ts", "kind", "key", "session")
        assert [made[name] for name in same] == [old[name] for name in same]
        kept = {k: v for k, v in old["body"].items() if k not in ("v", "config", "tag")}
        assert {k: made["body"][k] for k in kept} == kept
    found = verify(done.root)
    assert (found.ok, found.rows) == (True, 43)
    for name in ("results.tsv", "experiments.jsonl"):
        assert (done.root / name).read_bytes() == (files.root / name).read_bytes()


def test_the_copy_is_found_by_its_tag_with_its_code_and_logs(
    repo: Path, files: SessionFiles
) -> None:
    migrate(files)

    found = find_session(repo, TAG)
    state = read_state(found.files)
    best = find_experiment(state, "best")
    assert (found.tag, best.id, state.opened and state.opened.tag) == (TAG, 7, TAG)
    assert "+BETA = 0.95" in diff(found.files, state, best, whole=True)
    assert found.files.run_log(7, 1).read_bytes() == files.run_log(7, 1).read_bytes()
    opening = wire.decode(Opening, found.files.opening.read_text())
    assert opening.session.tag == TAG
    assert found.sid == find_session(repo).sid


@pytest.mark.parametrize("verb", ["status", "results", "diff best", "apply", "clean", "run"])
def test_every_verb_names_the_version_and_the_way_out_in_one_line(
    repo: Path, files: SessionFiles, tmp_path: Path, verb: str
) -> None:
    before = files.ledger.read_bytes()
    place = [str(repo)] if verb == "run" else ["--dir", str(repo)]
    done = Cli(tmp_path / "private").inside(*verb.split(), *place)

    assert done.code == 3, done
    assert "written by an older version of Overnight" in done.err
    assert f"overnight migrate {repo}`" in done.err
    assert len(done.err.splitlines()) == 1
    assert files.ledger.read_bytes() == before


def test_the_verb_says_where_the_copy_is_and_how_to_go_on(repo: Path, tmp_path: Path) -> None:
    cli = Cli(tmp_path / "private")

    done = cli.inside("migrate", repo, "--to", tmp_path / "there", "--json")
    said = cli.inside("migrate", repo)

    assert done.json["session_dir"] == str(tmp_path / "there")
    assert (done.json["rows"], done.json["experiments"], done.json["version"]) == (43, 9, 1)
    assert f"run {repo} --tag {TAG}" in said.out
    assert cli.inside("verify", "--dir", tmp_path / "there").code == 0
    assert cli.inside("migrate", tmp_path / "there").code == 3


def test_what_was_not_delivered_yet_is_delivered_by_this_version(files: SessionFiles) -> None:
    slot = files.runner("r0")
    refused = slot / "outbox" / "refused"
    message, job = ((HERE / f"{name}-v1.json").read_text() for name in ("message", "job"))
    write(slot, {"outbox/a.json": message, "outbox/b.json": "{", "claimed": job,
                 "trees/aa/train.py": "x", "device.quarantined": "no"})  # fmt: skip
    write(refused, {"c.json": message, "c.why": "it is over\n"})

    new = SessionFiles(migrate(files).root)

    outbox = Outbox(new.runner("r0") / "outbox")
    assert wire.decode(LedgerMessage, (outbox.folder / "refused/c.json").read_text())
    assert (outbox.folder / "refused/c.why").read_text() == "it is over\n"
    (waiting,) = outbox.waiting()
    assert wire.build(ExperimentResult, waiting.body).metric == 0.9979
    claimed = ClaimFile(new.runner("r0") / "claimed").read()
    assert isinstance(claimed, ExperimentJob)
    assert not (new.runner("r0") / "trees").exists()


def test_rows_of_every_kind_become_ours() -> None:
    rows = OlderRows(HERE / "ledger-v1.jsonl", "new")
    state = SessionState()
    kinds = set()
    for row in rows:
        state.apply(row)
        kinds.add(row.kind)

    assert kinds == set(RowKind)
    assert (state.seq, state.incumbent, state.opened and state.opened.tag) == (26, 2, "new")


DAMAGE: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "a changed byte": lambda lines: [line.replace(b"steadier", b"steadies") for line in lines],
    "a row gone": lambda lines: [*lines[:5], *lines[6:]],
    "rows exchanged": lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]],
    "the end gone": lambda lines: lines[:-3],
    "no JSON": lambda lines: [*lines[:9], b"{]\n", *lines[10:]],
    "not ASCII": lambda lines: [*lines[:9], b"\xff" + lines[9], *lines[10:]],
    "nothing": lambda lines: [],
    "another version": lambda lines: [*lines[:9], lines[9].replace(b'"v":1}', b'"v":0}')],
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_one_is_refused_and_nothing_is_left(
    repo: Path, files: SessionFiles, damage: str
) -> None:
    lines = files.ledger.read_bytes().splitlines(keepends=True)
    files.ledger.write_bytes(b"".join(DAMAGE[damage](lines)))
    before = _whole(repo)

    with pytest.raises(LedgerError) as caught:
        migrate(files)

    assert len(str(caught.value).splitlines()) == 1
    assert _whole(repo) == before


def test_a_torn_tail_is_kept_aside_as_a_recorder_would(files: SessionFiles) -> None:
    with files.ledger.open("ab") as file:
        file.write(b'{"body":{"att')

    done = migrate(files)

    assert (done.root / "quarantine" / "torn-tail.migrated").read_bytes() == b'{"body":{"att'
    assert verify(done.root).ok


def test_a_copy_whose_maker_was_killed_is_seen_by_no_git(
    repo: Path, files: SessionFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def killed(_: SessionFiles, new: SessionFiles, __: Identity) -> NoReturn:
        new.ledger.write_bytes(b"half")
        seen.append((new.root / ".gitignore").read_text())
        raise InfrastructureError("killed")

    monkeypatch.setattr(migration, "_write_copy", killed)
    with pytest.raises(InfrastructureError, match="killed"):
        migrate(files)

    assert seen
    assert seen[0].splitlines()[-1] == "*"
    assert (repo / "sandbox" / ".gitignore").exists()
    assert not list(repo.glob(".overnight-*"))


def test_a_newer_one_this_one_and_a_running_one_are_refused(
    repo: Path, files: SessionFiles
) -> None:
    done = migrate(files)
    with pytest.raises(NotOlderError, match="nothing to migrate"):
        migrate(SessionFiles(done.root))
    with pytest.raises(UsageError, match="there already"):
        migrate(files)
    lock = hold_session(files)
    with pytest.raises(UsageError, match="is running"):
        migrate(files, repo / "other")
    os.close(lock)
    text = files.ledger.read_bytes()
    files.ledger.write_bytes(text.replace(b'"v":1}\n', b'"v":7}\n'))
    with pytest.raises(NotOlderError, match=r"is of version 7, .* take the newest release"):
        migrate(files, repo / "other")
    assert not (repo / "other").exists()


def test_a_full_disk_leaves_nothing_half_made(
    repo: Path, files: SessionFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _whole(repo)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "objects.git")

    monkeypatch.setattr(shutil, "copytree", full)

    with pytest.raises(InfrastructureError, match="No space left"):
        migrate(files)
    assert _whole(repo) == before
