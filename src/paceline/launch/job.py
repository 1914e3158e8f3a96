"""A set of processes that are started and ended together."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING

from paceline.launch import child, interrupts, tree
from paceline.launch.control_group import ControlGroup
from paceline.launch.ends import Ends
from paceline.launch.outlet import Outlet

if TYPE_CHECKING:
    from typing_extensions import Self

SURVIVORS_GRACE_SECONDS = 10.0
"""Seconds that ranks may continue after the first one failed: enough to notice it and to raise errors of their own."""
UNBUFFERED = {"PYTHONUNBUFFERED": "1"}
"""Python buffers up to 8 KiB of what it prints into a pipe, and a job's output mostly goes into pipes."""
LONGEST_MESSAGE = (1 << 20) - 8
"""The number of bytes of a message that another host takes."""


@dataclass(frozen=True)
class Command:
    """One process to start.

    argv: the program and its arguments. env: the whole environment. name: what messages call the process. message: the
    bytes that it reads on stdin, which then stays open until the process or the launcher ends; None gives it no stdin.
    descriptors: the open files that it inherits, under the same numbers.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    name: str
    message: bytes | None = None
    descriptors: tuple[int, ...] = ()


@dataclass(frozen=True)
class Ended:
    """The end of a process. `code` is as a shell reports it: 128 + n for a process killed by signal n."""

    name: str
    pid: int
    code: int

    def __str__(self) -> str:
        if self.code > 128:
            try:
                return f"{self.name} (pid {self.pid}) was killed by {signal.Signals(self.code - 128).name}"
            except ValueError:
                pass
        return f"{self.name} (pid {self.pid}) exited with code {self.code}"


def wrapped(
    argv: Sequence[str],
    *,
    death_signal: int,
    parent: int = 0,
    report: str = "-",
    cores: str = "-",
    interrupts: str = "-",
) -> tuple[str, ...]:
    """Return `argv` as started through `child.py`, so that it cannot outlive its parent. For the options see there."""
    options = (str(int(death_signal)), str(parent), report, cores, interrupts)
    return (sys.executable, "-I", "-S", child.__file__, *options, *argv)


class Job:
    """Starts the commands, waits for them, and ends everything that they started. Leaving it as a context ends the job.

    mark: the value of tree.MARK in the environment of the job's processes. output: a folder for each process's output
    (`rank-0.out`, `rank-0.err`, …). stdout, stderr: as `subprocess.Popen` takes them, if there is no such folder.
    stdin: whether the first process gets the caller's stdin.

    Start it from a thread that lives as long as the job: the kernel takes the end of the starting thread for the death
    of the parent.
    """

    def __init__(
        self,
        commands: Sequence[Command],
        mark: str,
        *,
        output: Path | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        stdin: bool = True,
    ) -> None:
        self.mark = mark
        self.processes: list[subprocess.Popen[bytes]] = []
        self.failures: list[Ended] = []
        """The processes that failed, in the order of their ends as far as the kernel tells it."""
        self.group: ControlGroup | None = None
        """The control group that takes in its processes, see `kept`."""
        self._ends = Ends()
        self._commands = list(commands)
        self._output = output
        self._stdout, self._stderr = stdout, stderr
        self._stdin = stdin
        self._give_up_at: float | None = None

    def start(self) -> None:
        """Start every process. Raises OSError if one cannot be started; none is left running then."""
        if self.processes:
            raise RuntimeError("the job was already started")
        try:
            for number, command in enumerate(self._commands):
                self.processes.append(self._spawn(number, command))
                self._ends.expect(number, self.processes[-1].pid)
        except BaseException:
            self.terminate(grace=0)
            raise

    def poll(self) -> int | None:
        """Return the job's exit code once it has ended, None before.

        Ends ranks that run too long after the first failure.
        """
        running = 0
        known = {failure.pid for failure in self.failures}
        numbers = range(len(self.processes))
        for number in dict.fromkeys([*self._ends.next(), *numbers]):
            command, process = self._commands[number], self.processes[number]
            code = process.poll()
            if code is None:
                running += 1
            elif code != 0 and process.pid not in known:
                self.failures.append(Ended(command.name, process.pid, code if code > 0 else 128 - code))
        if self.failures and self._give_up_at is None:
            self._give_up_at = time.monotonic() + SURVIVORS_GRACE_SECONDS
        if running and self._give_up_at is not None and time.monotonic() > self._give_up_at:
            self.terminate()
            running = 0
        if running:
            return None
        return self.failed.code if self.failed else 0

    @property
    def failed(self) -> Ended | None:
        """The first process that was seen to fail, None if there is none."""
        return self.failures[0] if self.failures else None

    def wait(self, timeout: float | None = None) -> int:
        """Wait until all processes have ended. Returns 0, or the exit code of the first that failed (128 + n for signal
        n).

        timeout: seconds; None waits without limit.

        Raises TimeoutError that names the processes still running; the job then continues until `terminate`.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError(f"after {timeout:g} s these still run: {self.describe_running()}")
            wait_for_exit(self.processes, min(1.0 if self._give_up_at is None else 0.1, left or 1.0))
        return code

    def describe_running(self) -> str:
        """Return the names and pids of the processes that still run."""
        pairs = zip(self._commands, self.processes, strict=True)
        return ", ".join(f"{c.name} (pid {p.pid})" for c, p in pairs if p.poll() is None) or "none"

    def send_signal(self, number: int) -> None:
        """Send a signal to the started processes; they decide whether to pass it on to processes that they started."""
        for process in self.processes:
            process.send_signal(number)

    def terminate(self, grace: float = 2.0) -> list[int]:
        """End the job and all its descendants, with `grace` seconds between SIGTERM and SIGKILL.

        Returns the pids that could not be ended, normally none.
        """
        running = [process.pid for process in self.processes if process.poll() is None]
        left = tree.end(self.mark, running, grace, self.group)
        for process in self.processes:
            if process.pid not in left:
                process.wait()
                if process.stdin is not None:
                    process.stdin.close()
        self._ends.close()
        return left

    def __enter__(self) -> "Self":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.terminate()

    def mark_of(self, number: int) -> str:
        """Return the mark that process `number` and all its descendants carry."""
        return self.mark

    def _spawn(self, number: int, command: Command) -> "subprocess.Popen[bytes]":
        out, err = self._files(number)
        has_message = command.message is not None
        try:
            with interrupts.held():
                process = subprocess.Popen(
                    command.argv,
                    env={**command.env, tree.MARK: self.mark_of(number)},
                    stdin=subprocess.PIPE if has_message else subprocess.DEVNULL if number or not self._stdin else None,
                    stdout=out or self._stdout,
                    stderr=err or self._stderr,
                    pass_fds=command.descriptors,
                )
            if self.group is not None:
                self.group.take(process.pid)
        finally:
            for file in (out, err):
                if file is not None:
                    file.close()
        if process.stdin is not None:
            _send(process.stdin.fileno(), command.message or b"")
        return process

    def _files(self, number: int) -> tuple[IO[bytes] | None, IO[bytes] | None]:
        if self._output is None:
            return None, None
        stem = self._output / f"rank-{number}"
        return stem.with_suffix(".out").open("wb"), stem.with_suffix(".err").open("wb")


def _send(stdin: int, message: bytes) -> None:
    """Write what a process reads first, without waiting for it; if it has ended already, its exit code reports that."""
    os.set_blocking(stdin, False)
    written = 0
    with contextlib.suppress(BrokenPipeError, BlockingIOError):
        written = os.write(stdin, message)
    if written < len(message):  # how much a pipe holds is limited for ordinary users
        outlet = Outlet(stdin)
        outlet.write(message[written:])
        outlet.close()


def wait_for_exit(processes: "Sequence[subprocess.Popen[bytes]]", seconds: float) -> None:
    """Sleep until one of the processes ends, at most `seconds` seconds."""
    poller = select.poll()
    descriptors = []
    try:
        for process in processes:
            if process.returncode is None:
                descriptors.append(os.pidfd_open(process.pid))
                poller.register(descriptors[-1], select.POLLIN)
        poller.poll(max(0.0, seconds) * 1000)
    except OSError:  # a kernel without pidfd
        time.sleep(min(seconds, 0.02))
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
