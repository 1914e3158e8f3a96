"""What a job writes arrives whole, however slowly it is read, and nobody waits for a process that stalls."""

from __future__ import annotations

import os
import selectors
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from launched import DEADLINE, wait_until

from paceline.launch import supervise
from paceline.launch.job import Command
from paceline.launch.prefixed_output import PrefixedOutputJob
from paceline.launch.run import watch
from paceline.launch.stderr import Collector
from paceline.launch.supervise import Signals

LINES = 30_000


@contextmanager
def collected(target: int, *shell: str) -> Iterator[tuple[PrefixedOutputJob, list[int]]]:
    """A job of shells whose stderr goes to `target`, and the list that gets its exit code once the context is left."""
    signals = Signals()
    codes: list[int] = []
    with selectors.DefaultSelector() as selector, signals.watched(selector):
        collector = Collector(selector, target)
        commands = [Command(("sh", "-c", words), os.environ, f"rank {n}") for n, words in enumerate(shell)]
        job = PrefixedOutputJob(commands, "marked", collector)
        yield job, codes
        codes.append(watch(job, selector, signals, collector))


def test_output_is_read_to_its_end_after_the_job_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "_QUIET_SECONDS", 1e-9)  # however short the launcher waits
    reading, writing = os.pipe()
    said = bytearray()

    def read() -> None:
        wait_until(lambda: job.processes and job.processes[0].poll() is not None, "the process has ended")
        with os.fdopen(reading, "rb") as pipe:
            said.extend(pipe.read())

    with collected(writing, f"seq {LINES} >&2") as (job, codes):
        reader = threading.Thread(target=read)
        reader.start()
    os.close(writing)
    reader.join(DEADLINE)
    assert codes == [0] and said.decode().split("\n")[:-1] == [f"[0] {number}" for number in range(1, LINES + 1)]


@pytest.mark.parametrize("written", ["exec sleep 600", "while echo more; do :; done >&2"])
def test_a_process_that_left_the_job_is_not_waited_for(written: str, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    left = f"env -i setsid sh -c 'echo $$ > {pid}.part; mv {pid}.part {pid}; {written}' &"
    with (tmp_path / "said").open("wb") as file:
        with collected(file.fileno(), f"{left} while [ ! -e {pid} ]; do sleep 0.01; done") as (_, codes):
            pass
        os.kill(int(pid.read_text()), signal.SIGKILL)
    assert codes == [0]
