"""Reading what an older version wrote: its rows checked by their own chain, each made one of ours.

Each step from one version to the next is a few lines here, and stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from overnight.contracts import wire
from overnight.contracts.errors import LedgerError, WireError
from overnight.contracts.experiment import ExperimentJob, ExperimentResult
from overnight.contracts.loop import LoopConfig
from overnight.contracts.rows import BODIES, GENESIS, ROW_VERSION, LedgerMessage, Opening, Row
from overnight.contracts.status import RowKind
from overnight.ledger.chain import link

OLDEST = 1  #: version from which on rows can be made ours
_FIELDS = frozenset(Row.model_fields)
_RESULTS = (RowKind.RESULT, RowKind.SUPERSEDED)


class NotOlderError(LedgerError):
    """The ledger is of this version, of a newer one, or of none that we know."""


class OlderRows:
    """A ledger of an older version, row by row, as rows of this one."""

    def __init__(self, path: Path, tag: str) -> None:
        self._path = path
        self._tag = tag  #: of the session that the rows become part of
        self.version = 0  #: of the ledger, once a row was read
        self.seq = 0
        self.hash = GENESIS  #: of the newest row, as the older version wrote it
        self.last: Row | None = None  #: what became of it
        self.torn = b""  #: after the last whole line; no row of it was ever acked

    def __iter__(self) -> Iterator[Row]:
        """All of them, once.

        Raises:
            NotOlderError: there is nothing to migrate, or nothing that we can.
            LedgerError: a line is damaged; names it.
        """
        with self._path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    self.torn = line
                    return
                try:
                    yield self._next(line[:-1])
                except (WireError, UnicodeDecodeError) as error:
                    raise LedgerError(
                        f"{self._path}: line {number} is damaged ({error}): mend it with the "
                        "version that wrote it, by `overnight ledger repair`"
                    ) from error

    def _next(self, line: bytes) -> Row:
        text = line.decode("ascii")
        plain = wire.loads(text, "row")
        if not isinstance(plain, dict) or not _FIELDS >= plain.keys() >= _FIELDS - {"v"}:
            raise WireError("it is no row")
        self._check_version(plain)
        self._check_place(plain, text)
        self.seq, self.hash = plain["seq"], plain["hash"]
        kind = RowKind(plain["kind"])
        self.last = link(
            seq=plain["seq"],
            ts=plain["ts"],
            session=plain["session"],
            kind=kind,
            key=plain["key"],
            body=upgraded_body(kind, plain["body"], self._tag),
            prev=self.last.hash if self.last else GENESIS,
        )
        return self.last

    def _check_version(self, plain: dict[str, Any]) -> None:
        version = plain.get("v", OLDEST)
        if type(version) is not int:
            raise WireError("its version is no number")
        if version == ROW_VERSION:
            raise NotOlderError(f"{self._path} is of this version: there is nothing to migrate")
        if not OLDEST <= version < ROW_VERSION:
            raise NotOlderError(
                f"{self._path} is of version {str(version)[:20]}, and this release makes version "
                f"{ROW_VERSION} of {OLDEST} and later: take the newest release"
            )
        if self.version not in (0, version):
            raise WireError(f"it is of version {version}, the rows before of {self.version}")
        self.version = version

    def _check_place(self, plain: dict[str, Any], text: str) -> None:
        whole = {name: value for name, value in plain.items() if name != "hash"}
        if wire.canonical(plain) != text:
            raise WireError("it is not in canonical form")
        if type(plain["seq"]) is not int or plain["seq"] != self.seq + 1:
            raise WireError("its seq does not follow")
        if plain["prev"] != self.hash:
            raise WireError("prev is not the hash of the row before")
        if plain["hash"] != wire.digest(self.hash + wire.canonical(whole)):
            raise WireError("hash does not fit")
        if self.last is not None and plain["session"] != self.last.session:
            raise WireError("it belongs to another session")
        if plain["kind"] not in list(RowKind) or not isinstance(plain["body"], dict):
            raise WireError("it is of no kind that we know")


def upgraded_body(kind: RowKind, body: dict[str, Any], tag: str) -> wire.Wire:
    """A body as this version writes it: what is new has its default. Raises WireError."""
    plain = dict(body)
    if kind in _RESULTS:
        plain["v"] = version_of(ExperimentResult)
    if kind is RowKind.SESSION_OPENED:
        plain |= {"tag": tag, "config": wire.dump(wire.build(LoopConfig, plain.get("config")))}
    return wire.build(BODIES[kind], plain)


def upgraded_message(text: str, tag: str) -> LedgerMessage:
    """A message that waits in an outbox. Raises WireError."""
    plain = _older(wire.loads(text, "message"), LedgerMessage)
    if plain.get("kind") not in list(RowKind) or not isinstance(plain.get("body"), dict):
        raise WireError("it is of no kind that we know")
    body = upgraded_body(RowKind(plain["kind"]), plain["body"], tag)
    return wire.build(LedgerMessage, {**plain, "body": wire.dump(body)})


def upgraded_job(text: str) -> ExperimentJob:
    """What a runner has claimed. Raises WireError."""
    return wire.build(ExperimentJob, _older(wire.loads(text, "job"), ExperimentJob))


def upgraded_opening(text: str, tag: str) -> Opening:
    """opening.json. Raises WireError."""
    plain = _older(wire.loads(text, "opening"), Opening)
    if not isinstance(plain.get("session"), dict):
        raise WireError("it has no session")
    session = upgraded_body(RowKind.SESSION_OPENED, plain["session"], tag)
    return wire.build(Opening, {**plain, "session": wire.dump(session)})


def version_of(model: type[wire.Wire]) -> int:
    """The version of a contract that this release writes."""
    version: int = model.model_fields["v"].default
    return version


def _older(plain: wire.Json, model: type[wire.Wire]) -> dict[str, Any]:
    if not isinstance(plain, dict):
        raise WireError(f"no {model.__name__}")
    written = plain.get("v", OLDEST)
    if type(written) is not int or not OLDEST <= written <= version_of(model):
        raise WireError(f"{model.__name__} of a version that we can't read")
    return {**plain, "v": version_of(model)}
