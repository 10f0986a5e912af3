"""A session's folder that is moved while a runner works: nothing is put where it lay."""

from __future__ import annotations

from pathlib import Path

import pytest

from overnight.contracts.errors import InfrastructureError
from overnight.contracts.rows import LedgerMessage
from overnight.contracts.status import RowKind
from overnight.ledger.files import SessionFiles
from overnight.runner.durable import Outbox


def test_a_folder_is_made_below_a_root_that_is_there(tmp_path: Path) -> None:
    files = SessionFiles(tmp_path)
    files.make_folder(files.iteration(3) / "out")
    files.make_folder(files.iteration(3) / "out")
    assert (tmp_path / "iter3" / "out").is_dir()


def test_a_root_that_was_moved_is_not_made_again(tmp_path: Path) -> None:
    files = SessionFiles(tmp_path / "sandbox")
    with pytest.raises(FileNotFoundError) as caught:
        files.make_folder(files.iteration(3) / "out")
    assert caught.value.filename == str(files.root)
    assert not files.root.exists()


def test_a_result_is_not_put_where_nobody_looks_for_it(tmp_path: Path) -> None:
    files = SessionFiles(tmp_path / "sandbox")
    message = LedgerMessage(key="result:1:1:r0", kind=RowKind.RESULT, body={})
    with pytest.raises(InfrastructureError, match="No such file"):
        Outbox(files.runner("r0") / "outbox").put(message)
    assert not files.root.exists()
