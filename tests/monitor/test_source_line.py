"""The line of the user's code that a thread is at."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from pathlib import Path

from paceline.monitor.source_line import users_line


def test_a_thread_that_ended_has_no_line() -> None:
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    assert users_line(thread.ident) == ""


def test_threads_may_begin_and_garbage_be_collected_meanwhile() -> None:
    program = Path(__file__).with_name("frames_while_threads_begin.py")
    done = subprocess.run([sys.executable, program, "1000"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    try:
        assert "test_source_line.py" in users_line()
        assert not gc.isenabled()
    finally:
        gc.enable()
