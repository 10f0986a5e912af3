"""The watchdog bites a process whose main thread stands still, and no other."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time

from overnight.lifeline import Lifeline, Watchdog


def _watchdog(patience_seconds: float) -> tuple[Watchdog, threading.Event]:
    bitten = threading.Event()
    return Watchdog(patience_seconds, bitten.set), bitten


def test_silence_is_bitten() -> None:
    _, bitten = _watchdog(0.2)

    assert bitten.wait(10)


def test_signs_of_life_keep_it_quiet_for_longer_than_its_patience() -> None:
    dog, bitten = _watchdog(1.0)
    until = time.monotonic() + 2.5
    while time.monotonic() < until:
        dog.beat()
        time.sleep(0.02)

    assert not bitten.is_set()


def test_a_long_step_is_announced_and_bounded_too() -> None:
    dog, bitten = _watchdog(0.2)
    with dog.patient(3600):
        time.sleep(1.0)

        assert not bitten.is_set()
    assert bitten.wait(10), "afterwards the usual patience holds again"


def test_each_of_several_steps_has_its_own_time() -> None:
    """A guard that may take a minute is no reason to wait a minute longer for a run that hangs."""
    dog, bitten = _watchdog(0.2)
    with dog.patient(0.2):
        dog.allow(3600)
        time.sleep(1.0)

        assert not bitten.is_set()
        dog.allow(0.2)
        assert bitten.wait(10)


def test_another_thread_that_asks_is_no_sign_of_life() -> None:
    life, bitten = Lifeline(), threading.Event()
    life.watchdog = Watchdog(0.4, bitten.set)
    over = threading.Event()
    asking = threading.Thread(target=lambda: [life.should_stop() for _ in iter(over.is_set, True)])
    asking.start()
    try:
        assert bitten.wait(20)
    finally:
        over.set()
        asking.join()


def test_a_hanging_process_ends_with_our_exit_code_and_says_where() -> None:
    code = (
        "import time; from overnight.lifeline import Lifeline\n"
        "def stuck_here():\n    time.sleep(60)\n"
        "life = Lifeline(); life.watch(0.3); stuck_here()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=False
    )

    assert done.returncode == 3
    assert "service_hangs" in done.stdout + done.stderr
    assert "stuck_here" in done.stdout + done.stderr


def test_time_in_which_the_whole_process_was_stopped_is_not_held_against_it() -> None:
    code = (
        "import time; from overnight.lifeline import Lifeline\n"
        "life = Lifeline(); life.watch(1.0); print('on', flush=True)\n"
        "until = time.monotonic() + 4.0\n"
        "while time.monotonic() < until: life.should_stop(); time.sleep(0.02)\n"
        "print('went on')"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "on\n"
    process.send_signal(signal.SIGSTOP)
    time.sleep(2.5)
    process.send_signal(signal.SIGCONT)

    assert process.communicate(timeout=50)[0] == "went on\n"
    assert process.returncode == 0


def test_a_bug_of_ours_is_infrastructure_and_is_told_with_its_place() -> None:
    code = (
        "from overnight import lifeline\n"
        "def broken_here(life): raise ValueError('a bug\\nof two lines')\n"
        "raise SystemExit(lifeline.run_service('recorder', None, broken_here))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=False
    )

    assert done.returncode == 3
    assert "ValueError: a bug of two lines" in done.stdout + done.stderr
    assert "broken_here" in done.stdout + done.stderr


def test_a_burst_of_signals_ends_a_process_and_never_hangs_it() -> None:
    """Each finds the main thread at another step, also where it holds the event's own lock."""
    code = (
        "import os\nfrom overnight.lifeline import Lifeline\n"
        "life = Lifeline()\nlife.catch_signals()\nprint('ready', flush=True)\n"
        "while not life.ending.wait(0.0001):\n    pass\n"
        "for _ in range(200_000):\n    life.ending.set()\n"
        "os._exit(0)\n"  # an interpreter that ends handles no signals any more
    )
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        try:
            assert process.stdout is not None
            process.stdout.readline()
            for _ in range(2000):
                if process.poll() is not None:
                    break
                process.send_signal(signal.SIGTERM)
                time.sleep(0.0002)
            assert process.wait(20) == 0
        finally:
            process.kill()
            process.communicate()
