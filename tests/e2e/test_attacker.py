"""A candidate that attacks from inside a real session: what it finds, what the host sees of it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.e2e import procs, truth
from tests.e2e.stage import Stage, until

SECRET = "a-secret-of-the-supervisor"

#: Tries every door and prints one line with what happened; then trains as if nothing were.
ATTACK = r"""
import errno, glob, json, os, socket, stat, sys, time

LR = 0.1

asked = json.load(open("asked.json"))
seen = {}


def attempt(name, action):
    try:
        result = action()
        seen[name] = "ok" if result is None else f"ok: {result}"
    except OSError as error:
        seen[name] = errno.errorcode.get(error.errno, str(error))


def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.settimeout(2)
        client.connect(address)


def sockets():
    found = []
    for folder, names, files in os.walk("/"):
        names[:] = [n for n in names if os.path.join(folder, n) not in ("/proc", "/sys", "/usr")]
        for name in files:
            path = os.path.join(folder, name)
            try:
                if stat.S_ISSOCK(os.lstat(path).st_mode):
                    found.append(path)
            except OSError:
                pass
    return found


def environments():
    found = []
    for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/task/*/environ"):
        try:
            found += [path] if asked["secret"].encode() in open(path, "rb").read() else []
        except OSError:
            pass
    return found


def replace(path):
    open("/w/new", "w").close()
    os.rename("/w/new", path)


for path in asked["unreadable"]:
    attempt("read " + path, lambda: open(path, "rb").read(1) and None)
    attempt("list " + path, lambda: os.listdir(path) and None)
    attempt("write " + path, lambda: open(path, "ab").close())
for path in ("/w/asked.json", "/w/lib/frozen.py"):
    attempt("write " + path, lambda: open(path, "a").close())
    attempt("unlink " + path, lambda: os.unlink(path))
    attempt("rename " + path, lambda: os.rename(path, "/w/moved"))
    attempt("replace " + path, lambda: replace(path))
    attempt("chmod " + path, lambda: os.chmod(path, 0o777))
attempt("rename /w/lib", lambda: os.rename("/w/lib", "/w/lib2"))
attempt("tcp to the host", lambda: connect(socket.AF_INET, ("127.0.0.1", asked["port"])))
attempt("tcp to the world", lambda: connect(socket.AF_INET, ("192.0.2.1", 80)))
attempt("metadata", lambda: connect(socket.AF_INET, ("169.254.169.254", 80)))
attempt("abstract socket", lambda: connect(socket.AF_UNIX, "\0" + asked["abstract"]))
attempt("setuid", lambda: os.setuid(0))
attempt("signal to the host", lambda: [os.kill(pid, 0) for pid in asked["pids"]] and None)
facts = {
    "uid": os.getuid(),
    "reads": open(asked["open"]).read(),
    "sockets": sockets(),
    "secrets": environments() + [n for n, v in os.environ.items() if asked["secret"] in v],
    "pids": len(glob.glob("/proc/[0-9]*")),
    "unix": len(open("/proc/net/unix").readlines()) - 1,
    "interfaces": [name for _, name in socket.if_nameindex()],
}
for folder in ("/w", "/tmp", "/dev/shm", "/out", os.environ["HOME"]):
    path = os.path.join(folder, "left-by-an-experiment")
    facts["found " + folder] = os.path.exists(path)
    open(path, "w").write("x")
    os.chmod(path, 0o666)
time.sleep(1.0)
print("ATTACK " + json.dumps({"seen": seen, "facts": facts}))
print("---")
print("val_bpb: 1.0")
"""


def _closed(path: Path, text: str = "canary") -> Path:
    """A file of ours that only we may read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)
    return path


def _repository(stage: Stage, python: Path) -> None:
    stage.write({"train.py": ATTACK, "lib/frozen.py": "A = 1\n", ".gitignore": "secret.key\n"})
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    subprocess.run(["git", "init", "-q"], cwd=stage.repo, env=environment, check=True)
    stage.bind(
        python=str(python), reads=[str(stage.folder / "data")], pools={"default": {"runners": 1}}
    )


def _canaries(stage: Stage) -> list[str]:
    """In the repository, the data, the interpreter, another session and beside."""
    stage.write({"../data/open.txt": "data"})
    places = [
        stage.repo / "secret.key",
        stage.folder / "data" / "canary",
        stage.folder / "venv" / "canary",
        stage.folder / "another" / "sandbox" / "ledger.jsonl",
        stage.folder / "home" / ".netrc",
    ]
    return [str(_closed(place)) for place in places]


def _visits(listener: socket.socket) -> int:
    """How many were let in by the kernel, though nobody answered."""
    listener.settimeout(0.01)
    count = 0
    while True:
        try:
            listener.accept()[0].close()
        except TimeoutError:
            return count
        count += 1


def _report(stage: Stage, experiment: int) -> dict[str, Any]:
    lines = (stage.root / f"iter{experiment}" / "run.log").read_text().splitlines()
    report: dict[str, Any] = json.loads(
        next(line for line in lines if line.startswith("ATTACK ")).removeprefix("ATTACK ")
    )
    return report


def test_a_candidate_finds_every_door_of_a_session_closed(stage: Stage) -> None:
    venv = stage.folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    _repository(stage, venv / "bin" / "python")
    canaries = _canaries(stage)
    ours = ["ledger.jsonl", "ledger.head", "iter1", "iter1/run.log", "objects.git", "runners",
            "stack.json", "canary"]  # fmt: skip
    hidden = [str(stage.root / name) for name in ours]
    hidden += [str(stage.folder / "state"), str(stage.locks), str(stage.root), str(stage.repo)]
    system = ["/etc/shadow", "/run", "/var", "/var/run/docker.sock", "/proc/1/mem"]
    stage.environment = {"CANARY_SECRET": SECRET, "REDIS_PASSWORD": SECRET}
    name = f"overnight-test-{os.urandom(6).hex()}"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind("\0" + name)
        abstract.listen()
        asked = {
            "unreadable": [*canaries, *hidden, *system],
            "port": tcp.getsockname()[1],
            "abstract": name,
            "secret": SECRET,
            "open": str(stage.folder / "data" / "open.txt"),
            "pids": [os.getpid()],
        }
        stage.write({"asked.json": json.dumps(asked)})
        play = stage.start("run", str(stage.repo), "--max", "1", "--json")
        until(lambda: (stage.root / "ledger.jsonl").exists(), 30, "the session is open", play)
        _closed(stage.root / "canary")
        outside: list[dict[str, str]] = []

        def look() -> bool:
            outside.extend(procs.status(p.pid) for p in stage.training())
            return play.over

        procs.wait_until(look, 60, "the session is over")
        finished = play.wait(1)
        assert [_visits(listener) for listener in (tcp, abstract)] == [0, 0]

    assert finished.code == 0, finished
    assert [r["status"] for r in truth.final_of(truth.read_rows(stage.root)).values()] == [
        "scored",
        "scored",
    ]
    for experiment in (1, 2):
        report = _report(stage, experiment)
        opened = {k: v for k, v in report["seen"].items() if v.startswith("ok")}
        facts = report["facts"]
        if os.geteuid() != 0:  # an ordinary user's candidate has the user's own rights
            for path in (*canaries[1:3], "/proc/1/mem"):
                opened.pop(f"read {path}", None)
        assert opened == {}, opened
        assert report["seen"]["write /w/lib/frozen.py"] == "EROFS"
        assert report["seen"]["rename /w/lib"] == "EBUSY"
        assert report["seen"]["tcp to the world"] == "ENETUNREACH"
        for path in (*hidden, canaries[0], canaries[3]):
            assert report["seen"][f"read {path}"] == "ENOENT", f"{path} exists for candidates"
        assert facts["reads"] == "data"
        assert (facts["sockets"], facts["secrets"]) == ([], [])
        assert facts["interfaces"] == ["lo"]
        assert facts["unix"] == 0
        assert facts["pids"] <= 4  # the first, the gate's shell, the script, and what it asks with
        assert [k for k, v in facts.items() if k.startswith("found ") and v] == []
    _check_outside(outside, os.geteuid() == 0)
    assert (stage.root / "canary").read_text() == "canary"
    stage.check_nothing_is_left()


def _check_outside(seen: list[dict[str, str]], as_root: bool) -> None:
    """What the host's /proc said of the candidates while they ran."""
    running = [status for status in seen if status]
    assert running, "no candidate was seen"
    for status in running:
        uids = set(status["Uid"].split())
        assert len(uids) == 1
        assert "0" not in uids, "the candidate is the host's root"
        if as_root:
            assert uids != {str(os.geteuid())}
        assert {status[n] for n in ("CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
