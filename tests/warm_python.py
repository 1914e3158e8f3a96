"""A Python that has imported what ranks need, and forks a process for each program that it is told to run.

To import NumPy and Paceline is most of what a rank of a short test does. A process that is forked instead is otherwise
like any other: the program is its `__main__`, the arguments, the environment and the output are its own, and it ends as
interpreters end. It cannot be told by variables that are read when an interpreter or a library is loaded.

`warm_python.py MODULE...` imports the modules. It reads a JSON object a line from the socket that is its stdin, with
the program's `argv`, its environment `env`, the files `out` and `err`, and whether its end is `brief`: once the program
has returned, exit handlers are called, and modules and libraries are not taken apart, which takes 0.3 s with torch's. A
descriptor that comes with it becomes the program's stdin. There it also answers `[pid, null]` to each in turn, and
`[pid, code]` when one has ended. All that it started ends with it, and it ends with its stdin.

Workers of one run of the tests share what was imported: `warm_python.py --shared PID MODULE...` accepts connections at
the socket that is its stdin, and ends with the process PID. For each it forks a process, which reads the mark of
`left_behind`, answers with its pid, and goes on as above.
"""

from __future__ import annotations

import atexit
import faulthandler
import fcntl
import gc
import hashlib
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import left_behind

from paceline.launch.child import die_with_parent, leave_foreground
from paceline.launch.threads import thread_variables

SHARED = "WARM_PYTHONS"
"""The environment variable with the pid of the run whose workers share processes, and the folder of their sockets."""
STACKS = signal.SIGRTMAX
"""The signal at which a rank writes the stacks of its threads to its stderr, also where none of them runs Python."""
_ENVIRONMENT = dict(os.environ)
"""What no test has changed yet."""
_started: list[subprocess.Popen[bytes]] = []


def share() -> Path:
    """Let this process's children share what is started; returns a folder, which is to be removed at the end."""
    folder = tempfile.mkdtemp(prefix="warm-")
    os.environ[SHARED] = f"{os.getpid()} {folder}"
    return Path(folder)


class WarmPython:
    """Starts programs in such a process, which ends with this one."""

    def __init__(
        self, modules: Sequence[str], under: Sequence[str] = (), brief: bool = False, number: int | None = None
    ) -> None:
        """under: the words of a command that starts it. brief: how its programs end, see above.

        number: of the interpreter, among those that workers share and that have imported the same; None: it is not
        shared.
        """
        self._brief, self._owner = brief, os.getpid()
        self._codes: dict[int, int] = {}
        self._process: subprocess.Popen[bytes] | None = None
        if number is not None and SHARED in os.environ:
            self._socket = _connected(modules, number)
            self._socket.sendall(os.environ[left_behind.MARK].encode() + b"\n")
            pid = int(_line(self._socket.fileno()))
        else:
            self._socket, theirs = socket.socketpair()
            with theirs:
                environment = {**os.environ, **thread_variables(1, {})}
                words = [*under, sys.executable, __file__, *modules]
                self._process = subprocess.Popen(words, env=environment, stdin=theirs, stdout=2)
                pid = self._process.pid
        left_behind.SERVERS.add(pid)
        self._ended = os.pidfd_open(pid)
        atexit.register(self.close)

    def start(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        out: Path | None = None,
        err: Path | None = None,
        stdin: int | None = None,
    ) -> Forked:
        """Run the program argv[0] in a process of its own.

        out, err: where its output goes; None: to this process's stderr. stdin: its standard input; None: there is none.
        """
        for file in filter(None, (out, err)):
            file.write_bytes(b"")
        files = {"out": str(out or ""), "err": str(err or "")}
        line = json.dumps({"argv": list(argv), "env": dict(env), **files, "brief": self._brief}).encode() + b"\n"
        socket.send_fds(self._socket, [line[:1]], [stdin] if stdin is not None else [])
        self._socket.sendall(line[1:])
        while (pid := self._hear()) is None:
            pass
        return Forked(self, pid)

    def code(self, pid: int, seconds: float | None) -> int | None:
        """How this process has ended; None if it has not within so many seconds. None of them: there is no limit."""
        end = None if seconds is None else time.monotonic() + seconds
        while pid not in self._codes:
            left = None if end is None else max(0.0, end - time.monotonic())
            if not select.select([self._socket], [], [], left)[0]:
                break
            self._hear()
        return self._codes.get(pid)

    def close(self) -> None:
        """End it, and all processes that it has started."""
        if self._socket.fileno() < 0 or os.getpid() != self._owner:  # closed, or in a fork of ours
            return
        self._socket.close()
        select.select([self._ended], [], [])
        os.close(self._ended)
        if self._process is not None:
            self._process.wait()

    def _hear(self) -> int | None:
        """The pid of a process that was started; None where one has ended instead."""
        line = _line(self._socket.fileno())
        assert line, "the warm Python has ended"
        pid, code = json.loads(line)
        if code is None:
            return int(pid)
        self._codes[pid] = code
        return None


def _connected(modules: Sequence[str], number: int) -> socket.socket:
    """A connection to the interpreter that this run shares; who needs it first starts it."""
    run, folder = os.environ[SHARED].split(" ", 1)
    name = hashlib.sha256(" ".join(modules).encode()).hexdigest()[:16]
    path = Path(folder, f"{name}-{number}")
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            with socket.socket(socket.AF_UNIX) as door:
                door.bind(str(path))
                door.listen(64)
                environment = {**_ENVIRONMENT, **thread_variables(1, {}), left_behind.MARK: left_behind.as_marked(0)}
                words = [sys.executable, __file__, "--shared", run, *modules]
                _started.append(subprocess.Popen(words, env=environment, stdin=door, stdout=2))
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(path))
    return connection


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


def _serve(requests: int) -> tuple[dict[str, Any], int] | None:
    """A request and its stdin, in a process that was forked for it; None in this one, once there are no more."""
    running: dict[int, int] = {}
    poller = select.poll()
    poller.register(requests, select.POLLIN)

    def answer(pid: int, code: int | None) -> None:
        with suppress(BrokenPipeError):  # who asked has ended
            os.write(requests, json.dumps([pid, code]).encode() + b"\n")

    while True:
        for descriptor, _ in poller.poll():
            if descriptor in running:
                poller.unregister(descriptor)
                os.close(descriptor)
                pid = running.pop(descriptor)
                answer(pid, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                continue
            line, stdin = _request(requests)
            if not line:
                return None
            here = os.getpid()
            if (pid := os.fork()) == 0:
                die_with_parent(signal.SIGKILL, here)
                for other in (requests, *running):
                    os.close(other)
                return dict(json.loads(line)), stdin
            os.close(stdin)
            running[os.pidfd_open(pid)] = pid
            poller.register(list(running)[-1], select.POLLIN)
            answer(pid, None)


def _request(requests: int) -> tuple[bytes, int]:
    """The next request and the standard input of its program; an empty one once there are no more."""
    with socket.socket(fileno=os.dup(requests)) as connection:
        try:
            first, descriptors, _, _ = socket.recv_fds(connection, 1, 1)
        except ConnectionResetError:
            first, descriptors = b"", []
    stdin = descriptors[0] if descriptors else os.open(os.devnull, os.O_RDWR)
    return first and first + _line(requests), stdin


def _accepted(door: socket.socket, run: int) -> int | None:
    """A connection, in a process that was forked for it; None in this one, once the run has ended."""
    ended = os.pidfd_open(run)
    while True:
        ready = select.select([door, ended], [], [])[0]
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if ended in ready:
            return None
        connection, here = door.accept()[0], os.getpid()
        if os.fork() == 0:
            die_with_parent(signal.SIGKILL, here)
            leave_foreground()
            os.close(ended)
            door.close()
            _mark(_line(connection.fileno()).strip())
            connection.sendall(f"{os.getpid()}\n".encode())
            return connection.detach()
        connection.close()


def _mark(value: bytes) -> None:
    """Let other processes read this mark in this one's environment, which is that of the interpreter."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    begin, end = int(fields[47]), int(fields[48])
    name = f"{left_behind.MARK}=".encode()
    with Path("/proc/self/mem").open("r+b", buffering=0) as memory:
        memory.seek(begin)
        place = memory.read(end - begin).index(name)
        memory.seek(begin + place + len(name))
        memory.write(value)


def main() -> None:
    leave_foreground()
    modules, run = sys.argv[1:], None
    if modules[:1] == ["--shared"]:
        run, modules = int(modules[1]), modules[2:]
    asked = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    gc.disable()
    for name in modules:
        importlib.import_module(name)
    gc.freeze()
    gc.enable()
    connection = asked if run is None else _accepted(socket.socket(fileno=asked), run)
    served = None if connection is None else _serve(connection)
    if served is None:
        return
    request, stdin = served
    leave_foreground()
    os.environ.clear()
    os.environ.update(request["env"])
    os.dup2(stdin, 0)
    os.close(stdin)
    for descriptor, name in ((1, "out"), (2, "err")):
        file = os.open(request[name], os.O_WRONLY) if request[name] else os.dup(2)
        os.dup2(file, descriptor)
        os.close(file)
    faulthandler.register(STACKS)
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
