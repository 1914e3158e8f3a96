"""A Python that has imported what ranks need, and forks a process for each program that it is told to run.

To import NumPy and Paceline is most of what a rank of a short test does. A process that is forked instead is otherwise
like any other: the program is its `__main__`, the arguments, the environment and the output are its own, and it ends as
interpreters end. It cannot be told by variables that are read when an interpreter or a library is loaded.

`warm_python.py MODULE...` imports the modules. It reads a JSON object a line on stdin, with the program's `argv`, its
environment `env`, the files `out` and `err`, and whether its end is `brief`: once the program has returned, exit
handlers are called, and modules and libraries are not taken apart, which takes 0.3 s with torch's. On stdout it answers
`[pid, null]` to each in turn, and `[pid, code]` when one has ended. All that it started ends with it, and it ends with
its stdin.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from paceline.launch.child import die_with_parent, leave_foreground
from paceline.launch.threads import thread_variables


class WarmPython:
    """Starts programs in such a process, which ends with this one."""

    def __init__(self, modules: Sequence[str], under: Sequence[str] = (), brief: bool = False) -> None:
        """under: the words of a command that starts it. brief: how its programs end, see above."""
        self._brief = brief
        self._process = subprocess.Popen(
            [*under, sys.executable, __file__, *modules],
            env={**os.environ, **thread_variables(1, {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._codes: dict[int, int] = {}
        atexit.register(self.close)

    def start(self, argv: Sequence[str], env: Mapping[str, str], out: Path, err: Path) -> Forked:
        """Run the program argv[0] in a process of its own."""
        assert self._process.stdin is not None
        for file in (out, err):
            file.write_bytes(b"")
        files = {"out": str(out), "err": str(err)}
        request = {"argv": list(argv), "env": dict(env), **files, "brief": self._brief}
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        while (pid := self._hear()) is None:
            pass
        return Forked(self, pid)

    def code(self, pid: int, seconds: float | None) -> int | None:
        """How this process has ended; None if it has not within so many seconds. None of them: there is no limit."""
        end = None if seconds is None else time.monotonic() + seconds
        while pid not in self._codes:
            left = None if end is None else max(0.0, end - time.monotonic())
            if not select.select([self._process.stdout], [], [], left)[0]:
                break
            self._hear()
        return self._codes.get(pid)

    def close(self) -> None:
        """End it, and all processes that it has started."""
        if self._process.returncode is None:
            self._process.communicate()

    def _hear(self) -> int | None:
        """The pid of a process that was started; None where one has ended instead."""
        line = _line(self._process.stdout.fileno())  # type: ignore[union-attr]
        assert line, "the warm Python has ended"
        pid, code = json.loads(line)
        if code is None:
            return int(pid)
        self._codes[pid] = code
        return None


class Forked:
    """As much of subprocess.Popen as jobs need."""

    stdin = None

    def __init__(self, warm: WarmPython, pid: int) -> None:
        self._warm, self.pid = warm, pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        self.returncode = self._warm.code(self.pid, 0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self.returncode = self._warm.code(self.pid, timeout)
        if self.returncode is None:
            raise TimeoutError(f"process {self.pid} still runs after {timeout} s")
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _line(descriptor: int) -> bytes:
    """The next line; nothing where there is none. It reads no more than that, so that `select` sees what follows."""
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(descriptor, 1)):
        line += byte
    return line


def _serve() -> dict[str, Any] | None:
    """The request, in a process that was forked for it; None in this one, once there are no more."""
    requests, answers = os.dup(0), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    running: dict[int, int] = {}
    poller = select.poll()
    poller.register(requests, select.POLLIN)

    def answer(pid: int, code: int | None) -> None:
        os.write(answers, json.dumps([pid, code]).encode() + b"\n")

    while True:
        for descriptor, _ in poller.poll():
            if descriptor in running:
                poller.unregister(descriptor)
                os.close(descriptor)
                pid = running.pop(descriptor)
                answer(pid, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                continue
            if not (line := _line(requests)):
                return None
            here = os.getpid()
            if (pid := os.fork()) == 0:
                die_with_parent(signal.SIGKILL, here)
                for other in (requests, answers, *running):
                    os.close(other)
                return dict(json.loads(line))
            running[os.pidfd_open(pid)] = pid
            poller.register(list(running)[-1], select.POLLIN)
            answer(pid, None)


def main() -> None:
    leave_foreground()
    for name in sys.argv[1:]:
        importlib.import_module(name)
    gc.freeze()
    request = _serve()
    if request is None:
        return
    leave_foreground()
    os.environ.clear()
    os.environ.update(request["env"])
    for descriptor, name in ((1, "out"), (2, "err")):
        file = os.open(request[name], os.O_WRONLY)
        os.dup2(file, descriptor)
        os.close(file)
    sys.argv = request["argv"]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
    if request["brief"]:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


if __name__ == "__main__":
    main()
