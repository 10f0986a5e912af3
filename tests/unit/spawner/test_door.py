"""What a connection may ask for, in which order, and who may ask: with an engine in memory."""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.e2e import procs
from tests.unit.spawner.fakes import FakeEngine, wish, yard_of

from overnight.contracts import wire
from overnight.contracts.errors import SandboxUnavailableError
from overnight.contracts.spawning import Ask, Close, Collect, Kill, Launch, Look, Open
from overnight.executors import frames, trees
from overnight.spawner.engine import EngineDownError
from overnight.spawner.service import Door
from overnight.spawner.yard import Yard

STRANGER = 4711


@dataclass
class Client:
    """One connection to a door."""

    line: socket.socket

    def ask(self, question: wire.Wire, descriptors: Sequence[int] = ()) -> dict[str, Any]:
        """The answer as it came; {} when it hung up."""
        frames.send(self.line, question, descriptors)
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """The next one."""
        received = frames.receive(self.line)
        if received is None:
            return {}
        value, came = received
        frames.close_all(came)
        assert isinstance(value, dict)
        return value

    def refused(self, question: wire.Wire, descriptors: Sequence[int] = ()) -> str:
        """Why it is."""
        return str(self.ask(question, descriptors)["refused"])


@dataclass
class Place:
    """An open door."""

    address: Path
    engine: FakeEngine
    yard: Yard
    door: Door
    lines: list[socket.socket] = field(default_factory=list)

    def client(self) -> Client:
        """A new connection."""
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        line.settimeout(5)
        line.connect(str(self.address))
        self.lines.append(line)
        return Client(line)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr("overnight.spawner.service.LOOK_SECONDS", 0.02)
    engine, stop = FakeEngine(), threading.Event()
    yard = yard_of(tmp_path, engine)
    door = Door(tmp_path / "s", yard, frozenset(), "some:image")
    thread = threading.Thread(target=door.serve, args=(stop.is_set,))
    thread.start()
    made = Place(tmp_path / "s", engine, yard, door)
    yield made
    for line in made.lines:
        line.close()
    stop.set()
    thread.join(10)
    assert not thread.is_alive()
    yard.close()
    assert yard.living == yard.orphaned == 0
    assert list((yard.root / "sandboxes").iterdir()) == []
    assert engine.labels == {}


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[int]:
    folder = tmp_path / "tree"
    folder.mkdir()
    (folder / "train.py").write_text("print(1)\n")
    handle = os.open(folder, os.O_RDONLY)
    yield handle
    os.close(handle)


def memory_file(text: bytes) -> int:
    handle = os.memfd_create("frozen")
    os.write(handle, text)
    return handle


def test_no_verb_before_prepare(place: Place) -> None:
    client = place.client()
    early = (
        Launch(snapshot="0" * 64), Open(timer_seconds=1.0), Look(), Kill(), Ask(), Close(),
        Collect(what="out"),
    )  # fmt: skip

    assert {client.refused(question) for question in early} == {"prepare comes first"}


def test_what_never_ran_is_not_opened_and_has_no_end(place: Place) -> None:
    client = place.client()
    assert "refused" not in client.ask(wish(place.yard))

    assert "open follows launch" in client.refused(Open(timer_seconds=1.0))
    assert client.refused(Ask()) == "it never ran"
    assert client.refused(wish(place.yard)) == "a connection has one sandbox"
    assert client.ask(Close()) == {"gone": True}


def test_a_connection_that_ends_gives_its_sandbox_up(place: Place) -> None:
    client = place.client()
    client.ask(wish(place.yard))
    assert place.yard.living == 1
    client.line.close()

    procs.wait_until(lambda: place.yard.orphaned, 5, "it is an orphan")
    assert place.yard.living == 0
    assert place.yard.tidy({"runner": "r0"}).ended == 1


@pytest.mark.parametrize(
    ("frozen", "says"),
    [
        (b'["../x"]', "no relative path"),
        (b'["a/../../x"]', "no relative path"),
        (b'["/etc/passwd"]', "no relative path"),
        (b'["a\\u0000b"]', "no relative path"),
        (b'[""]', "no relative path"),
        (b"[7]", "no relative path"),
        (b'{"a": 1}', "no list"),
        (b"x", "no list"),
        (b"[" * 100_000, "no list"),
        (b"\xff", "no list"),
    ],
)
def test_frozen_names_that_leave_the_tree_are_refused(
    place: Place, tree: int, frozen: bytes, says: str
) -> None:
    client, names = place.client(), memory_file(frozen)
    client.ask(wish(place.yard))
    try:
        refused = client.refused(Launch(snapshot="0" * 64), (tree, names))
    finally:
        os.close(names)

    assert says in refused
    assert client.ask(Close()) == {"gone": True}


def test_a_tree_that_is_not_the_named_one_is_refused(
    place: Place, tree: int, tmp_path: Path
) -> None:
    client, names = place.client(), memory_file(b"[]")
    client.ask(wish(place.yard))
    right = trees.digest(tmp_path / "tree")
    (tmp_path / "tree" / "train.py").write_text("print(2)\n")
    try:
        refused = client.refused(Launch(snapshot=right), (tree, names))
    finally:
        os.close(names)

    assert "changed while it was handed over" in refused
    assert place.engine.labels == {}


@pytest.mark.parametrize("count", [0, 1, 3])
def test_launch_comes_with_a_tree_and_a_list(place: Place, tree: int, count: int) -> None:
    client = place.client()
    client.ask(wish(place.yard))

    assert "a tree and what is frozen" in client.refused(Launch(snapshot="0" * 64), [tree] * count)


def test_a_container_that_does_not_start_leaves_nothing(
    place: Place, tree: int, tmp_path: Path
) -> None:
    client, names = place.client(), memory_file(b'["train.py"]')
    client.ask(wish(place.yard))
    try:
        right = trees.digest(tmp_path / "tree")
        refused = client.refused(Launch(snapshot=right), (tree, names))
    finally:
        os.close(names)

    assert refused == "this engine starts nothing"
    assert "open follows launch" in client.refused(Open(timer_seconds=1))
    assert place.engine.labels == {}
    assert client.ask(Close()) == {"gone": True}


def test_an_engine_that_is_away_is_told_from_a_refusal(place: Place) -> None:
    place.engine.down = True
    answer = place.client().ask(wish(place.yard))
    place.engine.down = False

    assert answer == {"refused": "the engine does not answer", "away": True}


@pytest.mark.parametrize(
    "text", [b"{}", b"[]", b'{"verb":"exec"}', b'{"verb":"look","image":"x"}', b'{"verb":["look"]}']
)
def test_what_is_no_request_is_refused_and_the_line_goes_on(place: Place, text: bytes) -> None:
    client = place.client()
    client.line.sendall(struct.pack("!I", len(text)) + text)

    assert "refused" in client.answer()
    assert client.ask(wish(place.yard)) == {}
    assert client.ask(Close()) == {"gone": True}


def test_a_free_word_of_a_request_reaches_no_container(place: Place) -> None:
    request = json.loads(wire.encode(wish(place.yard)))
    for name, value in (
        ("sandbox_id", "a b"), ("labels", {"a": "b\n"}), ("profile", "../x"), ("mounts", ["/"]),
        ("devices", ["--privileged"]),
    ):  # fmt: skip
        client, text = place.client(), json.dumps({**request, name: value}).encode()
        client.line.sendall(struct.pack("!I", len(text)) + text)

        assert name in str(client.answer()["refused"])


def test_a_stranger_gets_one_line_and_nothing_else(place: Place) -> None:
    place.door._clients = frozenset({STRANGER})
    client = place.client()

    assert "may ask this spawner for nothing" in str(client.answer()["refused"])
    assert client.answer() == {}
    assert place.yard.living == 0


def test_a_frame_that_is_none_ends_its_own_line_alone(place: Place) -> None:
    bad, good = place.client(), place.client()
    good.ask(wish(place.yard))
    bad.line.sendall(struct.pack("!I", 2**31))

    assert bad.answer() == {}
    assert good.ask(Close()) == {"gone": True}


def test_a_tree_is_written_once(place: Place, tree: int, tmp_path: Path) -> None:
    """A candidate may live there by then, and its links would lead what we write elsewhere."""
    client, names = place.client(), memory_file(b"[]")
    client.ask(wish(place.yard))
    try:
        client.ask(Launch(snapshot=trees.digest(tmp_path / "tree")), (tree, names))
        (tmp_path / "tree" / "train.py").rename(tmp_path / "tree" / "later")
        again = Launch(snapshot=trees.digest(tmp_path / "tree"))
        refused = client.refused(again, (tree, names))
    finally:
        os.close(names)

    assert "once" in refused
    assert list((place.yard.root / "sandboxes").glob("*/work/later")) == []


def test_names_that_are_no_text_are_told_all_the_same(place: Place, tree: int) -> None:
    client, names = place.client(), memory_file(b'["\\udcff"]')
    client.ask(wish(place.yard))
    try:
        right = trees.digest(Path(f"/proc/self/fd/{tree}"))
        refused = client.refused(Launch(snapshot=right), (tree, names))
    finally:
        os.close(names)

    assert refused == r"frozen \udcff is not in the snapshot"
    assert client.ask(Close()) == {"gone": True}


def test_a_container_that_was_never_made_holds_no_pipe(
    place: Place, tree: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(body: object) -> str:
        raise SandboxUnavailableError("docker", "no space left on device")

    monkeypatch.setattr(place.engine, "create", refuse)
    client, names = place.client(), memory_file(b"[]")
    client.ask(wish(place.yard))
    right = trees.digest(tmp_path / "tree")
    try:
        assert "no space" in client.refused(Launch(snapshot=right), (tree, names))
        assert "open follows launch" in client.refused(Open(timer_seconds=1))
    finally:
        os.close(names)

    assert client.ask(Close()) == {"gone": True}
    ours = [
        os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _is_open(fd)
    ]
    assert [name for name in ours if "/line/" in name] == []


def test_a_profile_that_would_keep_us_waiting_is_refused(place: Place) -> None:
    wanted = wish(place.yard)
    file = place.yard.profiles / f"{wanted.profile}.json"
    file.unlink()
    os.mkfifo(file)

    assert "no file" in place.client().refused(wanted)


def test_a_container_that_is_made_after_the_engine_went_away_is_found(
    place: Place, tree: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine goes on with what it was asked, though nobody waits for its answer any more."""
    bodies: list[Any] = []

    def hang(body: Any) -> str:
        bodies.append(body)
        raise EngineDownError("docker", "the engine does not answer")

    monkeypatch.setattr("overnight.spawner.yard.SWEEP_SECONDS", 0.05)
    monkeypatch.setattr(place.engine, "create", hang)
    client, names = place.client(), memory_file(b"[]")
    client.ask(wish(place.yard))
    right = trees.digest(tmp_path / "tree")
    try:
        assert "not answer" in client.refused(Launch(snapshot=right), (tree, names))
    finally:
        os.close(names)
    assert client.ask(Close()) == {"gone": True}
    other = {"overnight.spawner": "another's"}
    place.engine.labels = {"late": dict(bodies[0]["Labels"]), "other": other}

    procs.wait_until(lambda: "late" not in place.engine.labels, 5, "it is removed")
    assert place.engine.labels.pop("other") == other


def test_an_engine_that_hangs_keeps_nobody_from_coming_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, stop, answered = FakeEngine(), threading.Event(), threading.Event()
    yard = yard_of(tmp_path, engine, orphan_seconds=0.001)
    yard.orphan("s", {}, lambda: None if answered.wait(20) else "never")
    monkeypatch.setattr("overnight.spawner.service.LOOK_SECONDS", 0.02)
    door = Door(tmp_path / "s", yard, frozenset(), "some:image")
    thread = threading.Thread(target=door.serve, args=(stop.is_set,))
    thread.start()
    try:
        time.sleep(0.1)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(5)
            line.connect(str(tmp_path / "s"))
            assert Client(line).ask(Kill())["refused"] == "prepare comes first"
    finally:
        answered.set()
        stop.set()
        thread.join(10)
    assert not thread.is_alive()
    yard.close()


def _is_open(descriptor: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{descriptor}")
