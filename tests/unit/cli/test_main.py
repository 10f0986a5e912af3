"""The entry point: fast, one line an error, the contract's exit codes."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from overnight.cli import experiment, services
from overnight.cli.__main__ import main
from overnight.contracts.errors import InfrastructureError, LedgerError, UsageError
from overnight.ledger.files import SessionFiles
from overnight.ledger.plain import write_new
from overnight.sessions.report.save import save

HEAVY = ("optuna", "libcst", "rq", "redis", "pydantic", "prometheus_client", "structlog", "yaml")
READS_ONLY = ("optuna", "libcst", "rq", "redis", "prometheus_client", "git")


def modules_after(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint('\\n'.join(sys.modules), file=sys.stderr)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(ran.stderr.split())


def test_help_imports_nothing_that_it_does_not_need() -> None:
    loaded = modules_after("from overnight.cli.__main__ import main; main(['--help'])")

    assert "typer" in loaded
    assert not loaded & set(HEAVY)


def test_reading_verbs_import_no_redis_no_proposer_no_git(tmp_path: Path) -> None:
    verbs = [["status"], ["results"], ["show", "1"], ["verify"], ["wait", "1"]]
    calls = "\n".join(f"main({[*verb, '--dir', str(tmp_path)]})" for verb in verbs)
    loaded = modules_after(f"from overnight.cli.__main__ import main\n{calls}".replace("'", '"'))

    assert not loaded & set(READS_ONLY)


@pytest.mark.parametrize(
    ("error", "code"),
    [(UsageError("no"), 2), (InfrastructureError("no"), 3), (LedgerError("no"), 3)],
)
def test_each_error_has_its_exit_code_and_one_line(
    error: Exception,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def raising(*_: object) -> None:
        raise error

    monkeypatch.setattr(experiment, "session", raising)

    assert main(["results"]) == code
    assert capsys.readouterr() == ("", "overnight: no\n")


def test_an_interrupt_is_130_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(experiment, "session", interrupted)

    assert main(["results"]) == 130
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("words", [["nope"], ["show"], ["run", "--max"], ["--nope"]])
def test_wrong_words_are_exit_2_and_point_to_the_help(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    out, err = capsys.readouterr()

    assert out == ""
    assert err.startswith("overnight: ")
    assert err.count("\n") == 1
    assert "--help" in err


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("run --max abc", "--max: must be a whole number, 0 or more, not abc"),
        ("run --max -1", "--max: must be a whole number, 0 or more, not -1"),
        ("results --top 0", "--top: must be a whole number, 1 or more, not 0"),
        ("run --hours x", "--hours: must be a number above 0, not x"),
        ("run --budget nan", "--budget: must be a number above 0, not nan"),
        ("wait one mar5", "ID: must be a whole number, 1 or more, not one"),
        ("stop --timeout -1", "--timeout: must be a number, 0 or more, not -1"),
    ],
)
def test_a_number_that_is_none_is_refused_in_our_words(
    words: str, wanted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2
    assert capsys.readouterr() == ("", f"overnight: {wanted}\n")


@pytest.mark.parametrize("words", [[], ["ledger"]])
def test_without_a_verb_the_whole_help_is_shown_and_it_is_exit_2(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    out, err = capsys.readouterr()

    assert (out + err).lstrip().startswith(f"Usage: {' '.join(['overnight', *words])}")
    assert (out + err).count("\n") > 5


def test_services_get_all_arguments_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(services, "run", lambda name, argv: seen.append((name, argv)) or 7)

    assert main(["runner", "--dir", "x", "--help", "--", "-5"]) == 7
    assert seen == [("runner", ["--dir", "x", "--help", "--", "-5"])]


@pytest.mark.parametrize("verb", ["orchestrator", "runner", "recorder"])
def test_every_service_is_a_verb(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([verb, "--help"])

    assert ended.value.code == 0
    assert f"overnight {verb}" in capsys.readouterr().out


def test_the_verbs_of_this_version_are_all_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    listed = {line.split()[0] for line in capsys.readouterr().out.splitlines() if line.strip()}

    assert listed >= {
        "demo", "init", "run", "status", "watch", "results", "show", "diff", "log", "stop",
        "pause", "resume", "drain", "wait", "verify", "up", "down", "orchestrator", "runner",
        "recorder",
    }  # fmt: skip


@pytest.mark.parametrize("words", [[], ["bench"], ["ledger"], ["deadletter"]])
def test_the_help_cuts_off_no_sentence(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--help"]) == 0
    listed = capsys.readouterr().out.split("Commands:")[1]

    assert "..." not in listed


@pytest.mark.parametrize("kind", ["full", "file", "below a file"])
def test_torture_takes_an_empty_folder_only_and_says_so_before_anything_else(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.touch()
    given = {"full": tmp_path, "file": file, "below a file": file / "x"}[kind]

    assert main(["bench", "torture", "--dir", str(given)]) == 2
    out, err = capsys.readouterr()

    assert out == ""
    assert err.count("\n") == 1
    assert err.endswith(": give --dir another folder\n")


def test_a_mistyped_tag_is_told_which_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for tag in ("nov1", "nov2"):
        files = SessionFiles(tmp_path / ("sandbox" if tag == "nov1" else f"sandbox-{tag}"))
        files.root.mkdir()
        identity = {"v": 1, "sid": "0123456789abcdef"[:12], "tag": tag}
        files.identity.write_text(json.dumps(identity))

    (tmp_path / "loop.run.yaml").write_text("sandbox_root: sandbox\n")

    assert main(["status", "nov3", "--dir", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        f"overnight: no session 'nov3' in {tmp_path}: there is nov1, nov2\n"
    )


@pytest.mark.parametrize("write", [write_new, save])
def test_a_full_disk_is_told_with_the_file_and_the_way_out(
    write: Callable[[Path, bytes], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def writing(*_: object) -> None:
        write(tmp_path / "r.html", b"x")

    monkeypatch.setattr(os, "fsync", full)
    monkeypatch.setattr(experiment, "session", writing)

    assert main(["results"]) == 3
    assert capsys.readouterr().err == (
        f"overnight: {tmp_path}/r.html: No space left on device: make room, "
        "`overnight clean --dry-run` says what can go\n"
    )
    assert list(tmp_path.iterdir()) == []
