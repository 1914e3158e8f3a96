"""What a job writes arrives whole, however slowly it is read, and nobody waits for a process that stalls."""

from __future__ import annotations

import fcntl
import os
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from launched import DEADLINE, wait_until

from paceline.launch import supervise
from paceline.launch.job import LONGEST_MESSAGE, Command, Job
from paceline.launch.prefixed_output import PrefixedOutputJob
from paceline.launch.run import watch
from paceline.launch.stderr import Collector
from paceline.launch.supervise import Signals

LINES = 30_000


@contextmanager
def collected(target: int, *shell: str, copies: Path | None = None) -> Iterator[tuple[PrefixedOutputJob, list[int]]]:
    """A job of shells whose stderr goes to `target`, and the list that gets its exit code once the context is left."""
    signals = Signals()
    codes: list[int] = []
    with selectors.DefaultSelector() as selector, signals.watched(selector):
        collector = Collector(selector, target)
        commands = [Command(("sh", "-c", words), os.environ, f"rank {n}") for n, words in enumerate(shell)]
        job = PrefixedOutputJob(commands, "marked", collector, copies)
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


def test_a_copy_that_cannot_be_written_is_warned_of_and_the_job_goes_on(tmp_path: Path) -> None:
    copies, said = tmp_path / "copies", tmp_path / "said"
    (copies / "rank.0").mkdir(parents=True)
    (copies / "rank.0" / "stderr").symlink_to("/dev/full")
    (copies / "rank.1" / "stderr").mkdir(parents=True)
    words = "echo first >&2; echo second >&2"
    with said.open("wb") as file, collected(file.fileno(), words, words, copies=copies) as (_, codes):
        pass
    assert codes == [0]
    lines = said.read_text().splitlines()
    assert [line for line in lines if line.startswith("[0]")] == ["[0] first", "[0] second"]
    assert [line for line in lines if line.startswith("[1]")] == ["[1] first", "[1] second"]
    assert sorted(line for line in lines if line.startswith("paceline")) == [
        "paceline: the copy of what rank 0 writes ends: No space left on device",
        f"paceline: what rank 1 writes to stderr is not copied to {copies}: Is a directory",
    ]


@pytest.mark.parametrize("written", ["exec sleep 600", "while echo more; do :; done >&2"])
def test_a_process_that_left_the_job_is_not_waited_for(written: str, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    left = f"env -i setsid sh -c 'echo $$ > {pid}.part; mv {pid}.part {pid}; {written}' &"
    with (tmp_path / "said").open("wb") as file:
        with collected(file.fileno(), f"{left} while [ ! -e {pid} ]; do sleep 0.01; done") as (_, codes):
            pass
        with suppress(ProcessLookupError):  # what nobody reads any more may have ended it
            os.kill(int(pid.read_text()), signal.SIGKILL)
    assert codes == [0]


def test_a_job_starts_whatever_its_processes_read() -> None:
    """A message is longer than what a pipe holds, the process reads it late or never, and no pipe is made larger."""
    counting = f"import sys; assert len(sys.stdin.buffer.read({LONGEST_MESSAGE})) == {LONGEST_MESSAGE}"
    argvs = [(sys.executable, "-c", counting), ("sleep", "600")]
    commands = [Command(argv, os.environ, argv[0], b"x" * LONGEST_MESSAGE) for argv in argvs]
    ordinary = os.pipe()
    with Job(commands, "marked", stdout=subprocess.PIPE) as job:
        size = fcntl.fcntl(ordinary[0], fcntl.F_GETPIPE_SZ)
        for process in job.processes:
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None and fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) == size
        assert job.processes[0].wait(DEADLINE) == 0
    for end in ordinary:
        os.close(end)
