"""Passes the ranks' stderr on and records each rank's last output and the order in which the ranks failed.

When one rank fails, its peers fail after it, each with a traceback of its own, and the traceback that explains them all
scrolls away. The collector lets the launcher print that one again at the end.
"""

import array
import fcntl
import os
import pty
import re
import secrets
import selectors
import socket
import struct
import termios
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO

from paceline.launch.failure_report import LONGEST, FailureReport, parse
from paceline.launch.repeats import Repeats
from paceline.launch.write_all import write_all

STDOUT = 1
TAIL_BYTES = 64 * 1024
"""Bytes of each stream's last output that are kept."""
HOLD_SECONDS = 0.05
"""Seconds that an unfinished line is held back, so that lines of several ranks do not mix; a prompt never ends."""
_TRACEBACK = re.compile(r"^(?:  \+ Exception Group )?Traceback \(most recent call last\):", re.MULTILINE)
_TRACEBACK_BEGINS = b"Traceback (most recent call last):"
_RAISED = re.compile(r"^Traceback .*\n(?: .*\n)*([\w.]+)(?::|$)", re.MULTILINE)
"""The class of an error, which begins the first line of its traceback that is not indented."""
_TIMEOUT = "paceline.errors.Timeout"
_CONSEQUENCES = ("paceline.errors.PeerLost", "paceline.errors.Aborted", _TIMEOUT)
"""The errors that another rank causes."""
_NAMES = tuple(name.rpartition(".")[2] for name in _CONSEQUENCES)
_CHAINED = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
_RANK_PREFIX = re.compile(r"^\[(?:rank)?\d+\]:? ?", re.MULTILINE)


@dataclass
class OutputStream:
    """The stderr, or stdout, of one process. Times are seconds of the monotonic clock.

    descriptor: the reading end. target: the descriptor that the output is copied to, each line after `prefix`.
    file: receives all output too. tail: the last output. held: an unfinished line, which arrived at `held_since`.
    traced: when the last traceback began, None without one. ended: when the stream was closed, None while it is open.
    failure: what the process last reported of itself, None if nothing.
    """

    rank: int
    local_rank: int
    pid: int
    descriptor: int
    target: int = 2
    prefix: str = ""
    file: IO[bytes] | None = None
    tail: bytearray = field(default_factory=bytearray)
    held: bytes = b""
    held_since: float = 0.0
    traced: float | None = None
    ended: float | None = None
    failure: FailureReport | None = None

    @property
    def is_output(self) -> bool:
        """Whether this is the process's stdout and not its stderr."""
        return self.target == STDOUT

    def record(self, data: bytes) -> None:
        """Keep what the process wrote."""
        if self.file is not None:
            self.file.write(data)
        self.tail += data
        if _TRACEBACK_BEGINS in self.tail[-len(data) - len(_TRACEBACK_BEGINS) :]:
            self.traced = time.monotonic()
        del self.tail[:-TAIL_BYTES]

    def end(self) -> None:
        """Note that the stream was closed."""
        self.ended = time.monotonic()
        if self.file is not None:
            self.file.close()

    @property
    def failed_at(self) -> float:
        """When the process failed: at its last traceback if it printed one, else at its end."""
        return self.traced or self.ended or time.monotonic()

    @property
    def raised(self) -> list[str]:
        """The classes of the errors in its last traceback, in the order in which they were raised."""
        return _RAISED.findall(last_traceback(self.tail.decode(errors="replace").replace("\r\n", "\n")))

    @property
    def blames_another(self) -> bool:
        """Whether it ended with an error that says that another rank failed before, or did not come."""
        reported = self.failure is not None and self.failure.error in _NAMES
        # torch before 2.13 raises a RuntimeError in place of what a gradient's exchange raised.
        return any(name in _CONSEQUENCES or (reported and name == "RuntimeError") for name in self.raised)

    @property
    def waited_for(self) -> str:
        """The rank that did not come, if the process ended with a timeout while it waited for one rank; else ""."""
        if self.failure is None or self.failure.error != "Timeout" or _TIMEOUT not in self.raised:
            return ""
        return self.failure.culprit

    def last_words(self, lines: int = 25) -> str:
        """Return the last traceback with those that it is chained to, or the last lines if there is no traceback."""
        text = self.tail.decode(errors="replace").replace("\r\n", "\n")
        return last_traceback(text) or "\n".join(text.rstrip().splitlines()[-lines:])


def last_traceback(text: str) -> str:
    """Return the last Python traceback in `text` with the exceptions that it is chained to; "" if there is none."""
    text = _RANK_PREFIX.sub("", text)
    starts = [match.start() for match in _TRACEBACK.finditer(text)]
    if not starts:
        return ""
    begin = starts.pop()
    while starts and text[:begin].rstrip().endswith(_CHAINED):
        begin = starts.pop()
    return text[begin:].rstrip()


class Collector:
    """Gives a stderr to every process that reports at the socket `address`, and copies what arrives to `target`.

    target: the descriptor that everything is copied to. If it is a terminal, the ranks get one too, for progress bars.
    interrupts: the signals that have asked the job to end so far. Once there is one, what several processes write alike
    is copied once, see `Repeats`.

    `handle` does all work; it is called for those keys of `selector` whose `data` is this collector.
    """

    def __init__(self, selector: selectors.BaseSelector, target: int = 2, *, interrupts: Sequence[int] = ()) -> None:
        self.address = f"paceline-launch-{secrets.token_hex(8)}"
        self.streams: list[OutputStream] = []
        self._selector = selector
        self._target = target
        self._interrupts = interrupts
        self.repeats = Repeats()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind("\0" + self.address)
        self._listener.listen(128)
        selector.register(self._listener, selectors.EVENT_READ, self)

    def listen_to(
        self, descriptor: int, pid: int, rank: int = -1, *, target: int | None = None, file: IO[bytes] | None = None
    ) -> OutputStream:
        """Also collect the output whose reading end is `descriptor`.

        pid: the process that writes it. target: the descriptor to copy it to; by default the collector's own.
        file: a file that receives it too.
        """
        stream = OutputStream(rank, rank, pid, descriptor, self._target if target is None else target, file=file)
        self.streams.append(stream)
        self._selector.register(descriptor, selectors.EVENT_READ, self)
        return stream

    def handle(self, key: selectors.SelectorKey) -> None:
        """Handle a ready descriptor: accept a process that reports, or read output."""
        if key.fileobj is self._listener:
            self._accept()
            return
        stream = next(stream for stream in self.streams if stream.ended is None and stream.descriptor == key.fd)
        try:
            data = os.read(stream.descriptor, 65536)
        except OSError:  # the last writer of a terminal has closed it
            data = b""
        if not data:
            self._end(stream)
            return
        stream.record(data)
        data = stream.held + data
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        stream.held, stream.held_since = data[end:], time.monotonic()
        self._copy(stream, data[:end])
        if len(stream.held) > TAIL_BYTES:
            self._release(stream)

    @property
    def listening(self) -> bool:
        """Whether a stream is still open."""
        return any(stream.ended is None for stream in self.streams)

    @property
    def holding(self) -> bool:
        """Whether `release` should be called again within HOLD_SECONDS."""
        return any(stream.held for stream in self.streams)

    def release(self) -> None:
        """Copy the unfinished lines that were held back long enough."""
        now = time.monotonic()
        for stream in self.streams:
            if stream.held and now - stream.held_since >= HOLD_SECONDS:
                self._release(stream)

    def close(self) -> None:
        """Stop collecting, and close the streams that are still open."""
        self._selector.unregister(self._listener)
        self._listener.close()
        for stream in self.streams:
            if stream.ended is None:
                self._end(stream)

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            connection.settimeout(2.0)
            try:
                size = struct.calcsize("3i")
                _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
                if user != os.getuid():
                    return
                words = connection.recv(LONGEST)
                if words.startswith(b"{"):
                    self._note(parse(words))
                    return
                rank, local_rank, pid = (int(word) for word in words.split())
                reading, writing = self._channel()
            except (OSError, ValueError):
                return
            # If the descriptor cannot be sent, it is closed here, and its reading end then ends at once.
            self.listen_to(reading, pid, rank).local_rank = local_rank
            try:
                passed = array.array("i", [writing]).tobytes()
                connection.sendmsg([b"!"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)])
            except OSError:
                return
            finally:
                os.close(writing)

    def _note(self, report: FailureReport) -> None:
        """Keep a report with the stderr of its process, or where a shell started that, of its rank."""
        streams = [stream for stream in reversed(self.streams) if not stream.is_output]
        by_pid = [stream for stream in streams if stream.pid == report.pid]
        for stream in by_pid or [stream for stream in streams if stream.rank == report.rank]:
            stream.failure = report
            return

    def _channel(self) -> tuple[int, int]:
        if not os.isatty(self._target):
            return os.pipe()
        reading, writing = pty.openpty()
        attributes = termios.tcgetattr(writing)
        attributes[1] &= ~termios.OPOST  # the real terminal already translates newlines
        termios.tcsetattr(writing, termios.TCSANOW, attributes)
        window = fcntl.ioctl(self._target, termios.TIOCGWINSZ, bytes(8))
        fcntl.ioctl(writing, termios.TIOCSWINSZ, window)
        return reading, writing

    def _release(self, stream: OutputStream) -> None:
        self._copy(stream, stream.held)
        stream.held = b""

    def _end(self, stream: OutputStream) -> None:
        self._selector.unregister(stream.descriptor)
        os.close(stream.descriptor)
        stream.end()
        self._release(stream)
        self._write(stream, self.repeats.release(stream.descriptor))

    def _copy(self, stream: OutputStream, data: bytes) -> None:
        if self._interrupts and not stream.is_output:
            data = self.repeats.hold(stream.descriptor, data)
        self._write(stream, data)

    def _write(self, stream: OutputStream, data: bytes) -> None:
        if stream.prefix and data:
            prefix = stream.prefix.encode()
            data = prefix + data[:-1].replace(b"\n", b"\n" + prefix) + data[-1:]
        write_all(stream.target, data)
