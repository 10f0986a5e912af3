"""A pipe or a folder in the place of the ledger or its head is one line, and nothing waits."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from overnight.contracts.errors import LedgerError
from overnight.ledger.files import SessionFiles
from overnight.ledger.head import read_head
from overnight.ledger.reader import LedgerTail
from overnight.ledger.writer import LedgerWriter


@pytest.mark.timeout(10)
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
@pytest.mark.parametrize("name", ["ledger.jsonl", "ledger.head"])
def test_it_is_named(tmp_path: Path, name: str, make: Callable[[Path], None]) -> None:
    files = SessionFiles(tmp_path)
    make(tmp_path / name)
    writer = LedgerWriter(files, "0" * 12)
    try:
        with pytest.raises(LedgerError, match=f"{name} is no plain file"):
            writer.open()
    finally:
        writer.close()
    with pytest.raises(LedgerError, match="is no plain file"):
        read_head(files.head) if name == "ledger.head" else LedgerTail(files.ledger).poll()
