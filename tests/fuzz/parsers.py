"""Every parser of bytes that somebody else wrote, with its one documented way to refuse.

A public `decode*`, `parse*`, `read_*` or `load*` of the services must be covered here, or stand in
EXEMPT with the reason why not; test_registry.py sees to it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import redis
from tests.unit.ledger.history_of import SID, opening, result

from overnight.children import Child, ChildSpec
from overnight.cli import numbers
from overnight.configuration import yaml_file
from overnight.configuration.loop import resolve_loop
from overnight.configuration.settings import RunnerSettings, load_settings
from overnight.contracts import rows, untrusted, wire
from overnight.contracts.errors import (
    ConfigError,
    EditRejectedError,
    InfrastructureError,
    LedgerError,
    OvernightError,
    ProposerError,
    SnapshotError,
    UsageError,
    WireError,
)
from overnight.contracts.experiment import ExperimentJob
from overnight.contracts.loop import Constraint, JsonSource, RegexSource
from overnight.contracts.spawning import Profile
from overnight.contracts.status import ControlAction, RowKind
from overnight.executors import frames, profiles, records
from overnight.jobqueue import keys
from overnight.jobqueue.jobs import Parked
from overnight.jobqueue.rqjob import FUNCTION, ExperimentRqJob
from overnight.ledger import chain
from overnight.ledger.files import SessionFiles
from overnight.ledger.head import read_head
from overnight.ledger.identity import read_identity
from overnight.ledger.reader import LedgerTail
from overnight.ledger.writer import LedgerWriter
from overnight.orchestrator.__main__ import read_opening
from overnight.proposers import constants
from overnight.recorder.repair import repair
from overnight.runner.durable import ClaimFile, Outbox
from overnight.runner.parse import MetricParser
from overnight.runner.written import read_number
from overnight.sessions.experiments import experiment_id
from overnight.sessions.locate import read_state
from overnight.sessions.stack import read_stack
from overnight.sessions.torture import recount
from overnight.sessions.verify import verify
from overnight.sessions.view import runners_of
from overnight.snapshots import manifest, stored, tags
from overnight.snapshots.edits import CandidateEdit, check_edit
from overnight.spawner import handed, service


@dataclass(frozen=True)
class Parser:
    """*call* gives a value for any bytes, or raises one of *refuses*."""

    call: Callable[[bytes], object]
    refuses: tuple[type[OvernightError], ...] = ()
    seeds: tuple[bytes, ...] = ()
    covers: tuple[str, ...] = ()  #: qualified names below `overnight.`


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _on_text(function: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: function(_text(data))


def _in_folder(name: str, function: Callable[[Path], object]) -> Callable[[bytes], object]:
    """The bytes as a file of that name in a session's folder, which is given."""

    def call(data: bytes) -> object:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            return function(Path(folder))

    return call


def _on_files(name: str, function: Callable[[SessionFiles], object]) -> Callable[[bytes], object]:
    return _in_folder(name, lambda folder: function(SessionFiles(folder)))


JOB = ExperimentJob(
    sid=SID, tag="mar5", id=2, attempt=1, commit="a" * 40, tree_digest="b" * 64,
    run_cmd=("python", "train.py"), metric="val_bpb", editable_files=("train.py",), budget=5.0,
    gate="time", wall_seconds=10.0, cpu_seconds=None,
)  # fmt: skip
CONTROL = rows.Control(action=ControlAction.PAUSE, by="test")
OPENING = rows.Opening(session=opening(), repo="/r", argv=("python",), python="python", runners=1)


def _ledger() -> tuple[bytes, bytes]:
    """A short ledger and its head."""
    with tempfile.TemporaryDirectory() as folder:
        files = SessionFiles(Path(folder))
        writer = LedgerWriter(files, SID)
        writer.open()
        writer.append(RowKind.SESSION_OPENED, "open:1", opening())
        writer.append(RowKind.CONTROL, "control:1", CONTROL)
        writer.close()
        return files.ledger.read_bytes(), files.head.read_bytes()


LEDGER, HEAD = _ledger()


def _with_ledger(function: Callable[[SessionFiles], object]) -> Callable[[bytes], object]:
    """The bytes as the ledger, beside the head of a good one."""

    def call(files: SessionFiles) -> object:
        files.head.write_bytes(HEAD)
        return function(files)

    return _on_files("ledger.jsonl", call)


def _open_writer(files: SessionFiles) -> None:
    writer = LedgerWriter(files, SID)
    try:
        writer.open()
    finally:
        writer.close()


def _metric(data: bytes) -> None:
    _feed(MetricParser("val_bpb"), data)


def _found_by_pattern(data: bytes) -> None:
    bounded = Constraint(name="steps", max=5, regex=r"(?:s+)+: (\S*)")
    source = RegexSource(regex=r"val_bpb\W*(.*)", take="min")
    _feed(MetricParser("val_bpb", source, (bounded,)), data)


def _feed(parser: MetricParser, data: bytes) -> None:
    half = len(data) // 2
    parser.feed("stdout", data[:half])
    parser.feed("stderr", data)
    parser.feed("stdout", data[half:])
    parsed = parser.finish()
    assert (parsed.value is None) != (parsed.problem is None)
    for text in (parsed.raw or "", parsed.tail, parsed.error_tail, parsed.log_tail, parsed.why):
        assert_harmless(text)


def _written(folder: Path) -> None:
    found = read_number(folder, JsonSource.model_validate({"json": "r.json", "key": "eval.loss"}))
    assert (found.value is None) != (found.problem is None)
    assert_harmless(found.raw or "")
    assert_harmless(found.why)


def _rq_job(data: bytes) -> object:
    job = ExperimentRqJob("0123456789ab-1-1", redis.Redis())
    job.restore({b"data": data, b"timeout": data[:12] if data[:1].isdigit() else b"600"})
    return job.payload


def _edit(data: bytes) -> object:
    """One text as the path, as the content, and as both."""
    text = _text(data)
    tree = stored.build_tree(
        stored.parse_tree(b"100644 blob " + b"a" * 40 + b" 3\ttrain.py\x00"), {}
    )
    made = None
    for changes in ({text: "x"}, {"train.py": text}, {text: text}):
        edit = CandidateEdit(
            id=2,
            parent_commit="a" * 40,
            changes=changes,
            editable=("train.py", text),
            hypothesis="",
        )
        made = check_edit(edit, tree)
        assert all(manifest.path_problem(change.path) is None for change in made)
    return made


def _tree(data: bytes) -> object:
    entries = stored.parse_tree(data)
    return stored.build_tree(entries, {entry.blob: "../x" for entry in entries})


def _commit_texts(data: bytes) -> None:
    text = _text(data)
    assert len(tags.slug(text)) < 100
    tags.commit_message(text).encode()


def _shown(data: bytes) -> None:
    text = _text(data)
    assert_harmless(untrusted.strip_terminal(text))
    for line in (untrusted.one_line(text, 100), untrusted.tsv_cell(text, 100)):
        assert_harmless(line)
        assert len(line.splitlines()) <= 1
        assert "\t" not in line


def assert_harmless(text: str) -> None:
    """No control but newline and tab, no bidi control, and it can be written as UTF-8."""
    bad = [c for c in text if (ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0]
    bad += [c for c in text if c in "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e"]
    bad += [c for c in text if "\u2066" <= c <= "\u2069"]
    assert bad == []
    text.encode()


def _records(folder: Path) -> None:
    assert records.held(folder, {"sid": SID}) in (0, 1)
    for record in records.abandoned(folder, {"sid": SID}):
        os.close(record.lock)


def _settings(data: bytes) -> object:
    text = _text(data).replace("\0", "")
    return load_settings(RunnerSettings, {"OVERNIGHT_RUNNER_LEASE_SECONDS": text or "1"})


def _bindings(folder: Path) -> object:
    (folder / "train.py").write_text("LR = 1\n")
    return resolve_loop(folder, flags={}, environ={})


def _stack(files: SessionFiles) -> None:
    stack = read_stack(files)
    if stack is not None:
        runners_of(stack)
        assert all(isinstance(why, str) for why in stack.waiting.values())


def _last_reason(folder: Path) -> None:
    spec = ChildSpec(name="r0", argv=("true",))
    child = Child(spec, folder / "r0.log", -1, backoff_seconds=1, backoff_max_seconds=1)
    assert_harmless(child.last_reason())


def _outbox(folder: Path) -> object:
    return list(Outbox(folder / "outbox").waiting())


def _line(data: bytes) -> object:
    return chain.from_line(data, seq=1, prev=chain.GENESIS, session=None)


def _wire(cls: type[wire.Wire], *good: wire.Wire) -> Parser:
    seeds = tuple(wire.encode(value).encode() for value in good)
    return Parser(
        _on_text(partial(wire.decode, cls)), (WireError,), seeds, ("contracts.wire.decode",)
    )


def _profile(data: bytes) -> object:
    """Any bytes, registered under their own digest."""
    with tempfile.TemporaryDirectory() as folder:
        digest = hashlib.sha256(data).hexdigest()
        Path(folder, f"{digest}.json").write_bytes(data)
        return profiles.read_profile(Path(folder), digest)


def _frame(data: bytes) -> object:
    """The bytes as all that a client of the spawner ever says."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)
        with contextlib.suppress(BlockingIOError):  # more than a socket holds
            theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        return frames.receive(ours)


def _framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def _spawner_request(data: bytes) -> object:
    return service._request(wire.loads(_text(data)))


def _frozen_names(data: bytes) -> object:
    handle = os.memfd_create("frozen")
    try:
        os.write(handle, data)
        return handed.names(handle)
    finally:
        os.close(handle)


MESSAGE = rows.LedgerMessage(key="control:1", kind=RowKind.CONTROL, body=wire.dump(CONTROL))
ENCODED = {
    "job": wire.encode(JOB).encode(),
    "message": wire.encode(MESSAGE).encode(),
    "rq": wire.canonical([FUNCTION, None, [wire.encode(JOB)], {}]).encode(),
}
LOOP = (
    b"metric: val_bpb\nrun_cmd: python train.py\neditable_files: [train.py]\nbudget: 5\npools: {}\n"
)
STACK = (
    b'{"pid": 1, "redis_url": "unix:///x", "children": {"r0": 2}, "endpoints": {}, "waiting": {}}'
)
RECORD = b'{"scratch":"/x","token":"t","own":"","v":1,"labels":{"sid":"0123456789ab"}}'
TREE = (
    b"100644 blob " + b"a" * 40 + b"      12\ttrain.py\x00120000 blob " + b"b" * 40 + b" 2\tl\x00"
)

#: Where the library's parser overflows the stack; the last has a syntax that no Python knows.
DEEP_PYTHON = tuple(
    text.encode()
    for text in (
        f"a = b{'.c' * 3000}", f"a = {'(' * 3000}1{')' * 3000}", f"a = 1{'+1' * 3000}",
        f"a = {'-' * 20_000}1", f"a = {'1 if b else ' * 3000}1", f"a = b{'()' * 3000}",
        f"new a = {'[' * 3000}1{']' * 3000}",
    )
)  # fmt: skip

PARSERS: dict[str, Parser] = {
    "json": Parser(_on_text(wire.loads), (WireError,), (b'{"a":[1,2.5,"x"]}',),
                   ("contracts.wire.loads",)),
    "wire job": _wire(ExperimentJob, JOB),
    "wire result": _wire(type(result(2)), result(2)),
    "wire message": _wire(rows.LedgerMessage, MESSAGE),
    "wire ack": _wire(rows.Ack, rows.Ack(seq=3)),
    "wire parked": _wire(Parked),
    "profile": Parser(_profile, (InfrastructureError,),
                      (wire.encode(Profile(command=("true",))).encode(),),
                      ("executors.profiles.read_profile",)),
    "frame": Parser(_frame, (WireError,), (_framed(b'{"verb":"greet"}'),)),
    "spawner request": Parser(_spawner_request, (WireError,),
                              (b'{"verb":"open","timer_seconds":1.5}',)),
    "frozen names": Parser(_frozen_names, (WireError,), (b'["prepare.py","data"]',)),
    "ledger line": Parser(_line, (chain.BrokenRowError, LedgerError), (LEDGER.split(b"\n")[0],)),
    "ledger": Parser(_with_ledger(lambda files: LedgerTail(files.ledger).poll()), (LedgerError,),
                     (LEDGER,)),
    "ledger opened": Parser(_with_ledger(_open_writer), (LedgerError,), (LEDGER,)),
    "ledger state": Parser(_with_ledger(read_state), (LedgerError,), (LEDGER,),
                           ("sessions.locate.read_state",)),
    "ledger verified": Parser(_with_ledger(lambda files: verify(files.root)), (LedgerError,),
                              (LEDGER,)),
    "ledger repaired": Parser(_with_ledger(lambda files: repair(files, SID)), (LedgerError,),
                              (LEDGER,)),
    "ledger recounted": Parser(_with_ledger(lambda files: recount.read_ledger(files.root)), (),
                               (LEDGER,), ("sessions.torture.recount.read_ledger",)),
    "head": Parser(_on_files("ledger.head", lambda files: read_head(files.head)), (LedgerError,),
                   (HEAD,), ("ledger.head.read_head",)),
    "identity": Parser(_on_files("session.json", read_identity), (LedgerError,),
                        (b'{"sid":"0123456789ab","tag":"mar5"}',),
                       ("ledger.identity.read_identity",)),
    "opening": Parser(_on_files("opening.json", read_opening), (LedgerError,),
                      (wire.encode(OPENING).encode(),), ("orchestrator.__main__.read_opening",)),
    "stack": Parser(_on_files("stack.json", _stack), (InfrastructureError,), (STACK,),
                    ("sessions.stack.read_stack",)),
    "claim": Parser(_in_folder("claimed", lambda folder: ClaimFile(folder / "claimed").read()),
                    (), (ENCODED["job"],)),
    "outbox": Parser(_in_folder("outbox/a.json", _outbox), (), (ENCODED["message"],)),
    "sandbox record": Parser(_in_folder(f"sandbox-{'0' * 16}.json", _records), (), (RECORD,)),
    "service log": Parser(_in_folder("r0.log", _last_reason), (), (b'{"reason":"full"}\n',)),
    "rq job": Parser(_rq_job, (WireError,), (ENCODED["rq"],)),
    "rq job id": Parser(_on_text(keys.parse_job_id), (), (b"0123456789ab-1-1",),
                        ("jobqueue.keys.parse_job_id",)),
    "yaml": Parser(_on_text(lambda text: yaml_file.load_yaml(text, "x.yaml")), (ConfigError,),
                   (LOOP,), ("configuration.yaml_file.load_yaml",
                             "configuration.yaml_file.load_document")),
    "bindings": Parser(_in_folder("loop.run.yaml", _bindings), (ConfigError, UsageError), (LOOP,)),
    "yaml scalar": Parser(_on_text(yaml_file.scalar), (ConfigError,), (b"12", b"1.5e3", b"true")),
    "settings": Parser(_settings, (ConfigError,), (b"12", b"1.5"),
                       ("configuration.settings.load_settings",)),
    "metric lines": Parser(_metric, (), (b"---\nval_bpb: 0.99\npeak_vram_mb: 1.0\n",
                                        b"\x1b[32mval_bpb: 9.97e-01\x1b[0m\r\n")),
    "metric pattern": Parser(_found_by_pattern, (), (b"ss: 4\nval_bpb = 0.99\nsteps: 5\n",)),
    "metric file": Parser(_in_folder("r.json", _written), (),
                          (b'{"eval": {"loss": 1.5}, "loss": NaN}', b'{"eval.loss": 1e999}'),
                          ("runner.written.read_number",)),
    "edit": Parser(_edit, (EditRejectedError,),
                   (b"train.py", b"a/b.py", b".git/config", b"LR = 2\n")),
    "tree": Parser(_tree, (SnapshotError,), (TREE,), ("snapshots.stored.parse_tree",)),
    "path": Parser(_on_text(manifest.path_problem), (), (b"a/b.py", b"../x", b".GIT/x")),
    "tag": Parser(_on_text(tags.check_tag), (UsageError,), (b"mar5",)),
    "commit texts": Parser(_commit_texts, (), (b"wider layers",)),
    "constants": Parser(lambda data: constants.parse("train.py", _text(data)), (ProposerError,),
                        (b"LR = 0.1\nDEPTH = 4\n", *DEEP_PYTHON), ("proposers.constants.parse",)),
    "experiment id": Parser(_on_text(experiment_id), (UsageError,), (b"1", b"012")),
    "whole number": Parser(_on_text(numbers.whole("--max", 1)), (UsageError,), (b"12",)),
    "number": Parser(_on_text(numbers.amount("--hours")), (UsageError,), (b"1.5",)),
    "shown text": Parser(_shown, (), (b"wider", b"\x1b]8;;http://x\x07link\x1b]8;;\x07")),
}  # fmt: skip

#: Qualified name -> why nobody else's bytes reach it unchecked.
EXEMPT = {
    "configuration.plain_file.read_plain": "any bytes, handed on as they are",
    "configuration.paths.read_paths": "names that the YAML parser has read; covered by `bindings`",
    "plugins.load": "an entry point's name, looked up among those that are installed",
    "sessions.preparing.read_stamp": "our own file; what it holds decides nothing but a refusal",
    "sessions.sources.read_repository": "walks the user's own folder by git's list of names",
    "snapshots.store.read_files": "git's objects; what they hold is covered by `tree`",
}
