"""What the command is started with, and what is made of the gate's exit code."""

from __future__ import annotations

import signal

import pytest

from overnight.contracts.spawning import Profile
from overnight.spawner import gate

IMAGE_ENV = {"PATH": "/opt/bin", "LD_LIBRARY_PATH": "/opt/lib", "TOKEN": "secret", "HOME": "/root"}


def test_of_the_images_variables_only_its_places_pass() -> None:
    env = gate.environment(Profile(command=("true",)), IMAGE_ENV, {})

    assert env == {
        "LANG": "C.UTF-8", "LD_LIBRARY_PATH": "/opt/lib", "HOME": gate.HOME,
        "TMPDIR": gate.TEMPORARY, "PATH": "/opt/bin", "OVERNIGHT_OUT": gate.OUT,
    }  # fmt: skip


def test_a_profile_can_take_the_place_of_nothing_of_ours() -> None:
    mine = {"HOME": "/x", "TMPDIR": "/x", "OVERNIGHT_OUT": "/x", "CUDA_VISIBLE_DEVICES": "all"}
    granted = {"CUDA_VISIBLE_DEVICES": "GPU-1"}
    env = gate.environment(Profile(command=("true",), env={**mine, "LANG": "de"}), {}, granted)

    assert env == {
        "LANG": "de", "HOME": gate.HOME, "TMPDIR": gate.TEMPORARY, "OVERNIGHT_OUT": gate.OUT,
        "CUDA_VISIBLE_DEVICES": "GPU-1", "PATH": gate.SYSTEM_PATH,
    }  # fmt: skip


@pytest.mark.parametrize("word", ["python", "python3"])
def test_python_is_the_sessions_interpreter(word: str) -> None:
    profile = Profile(command=(word, "python"), interpreter="/venv/bin/python3.11")
    words = gate.argv(profile, {"PATH": "/opt/bin"}, {})

    assert words[-2:] == ["/venv/bin/python3.11", "python"]
    assert "PATH=/venv/bin:/opt/bin" in words


def test_words_of_the_command_are_words_whatever_is_in_them() -> None:
    nasty = ("sh", "-c", "$(id) `id` ; exit\n", "A=B", "--", "")
    words = gate.argv(Profile(command=nasty), {}, {})

    assert tuple(words[-6:]) == nasty
    assert words[:6] == [gate.ENV, "-i", gate.SHELL, "-c", gate.SCRIPT, "gate"]


@pytest.mark.parametrize(
    ("code", "end"),
    [
        (0, (0, None)),
        (1, (1, None)),
        (gate.INSIDE, (None, signal.SIGKILL)),
        (128 + signal.SIGSEGV, (None, signal.SIGSEGV)),
        (128, (128, None)),
        (255, (255, None)),
    ],
)
def test_an_exit_code_is_a_code_or_a_signal(code: int, end: tuple[int | None, int | None]) -> None:
    assert gate.ending(code) == end


@pytest.mark.parametrize("told", [b"", b"\n", b"x\n", b"-1\n", b"1 2\n", b"999999", b"\xff"])
def test_a_forged_word_about_the_end_stays_a_word_of_the_gate(told: bytes) -> None:
    """A candidate may write to that pipe: the first process reads one line, an exit code."""
    word = gate.exit_word(told)

    assert word.endswith(b"\n")
    assert word.count(b"\n") == 1
    assert word.strip().isdigit()
    assert int(word) <= 255
