"""Passes the ranks' stderr on and records each rank's last output and the order in which the ranks failed.

When one rank fails, its peers fail after it, each with a traceback of its own, and the traceback that explains them all
scrolls away. The collector lets the launcher print that one again at the end.
"""

import array
import fcntl
import os
import pty
import secrets
import selectors
import socket
import struct
import termios
import time
from collections.abc import Sequence
from typing import IO

from paceline.launch.output_stream import TAIL_BYTES, OutputStream
from paceline.launch.relay import Relay
from paceline.launch.repeats import Repeats
from paceline.monitor.failure_report import LONGEST, FailureReport, parse

HOLD_SECONDS = 0.05
"""Seconds that an unfinished line is held back, so that lines of several ranks do not mix; a prompt never ends."""


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
        self.relay = Relay(selector, self)
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
        self.relay.add(descriptor, stream.target)
        return stream

    def handle(self, key: selectors.SelectorKey) -> None:
        """Handle a ready descriptor: accept a process that reports, or read output."""
        if key.fileobj is self._listener:
            self._accept()
            return
        if self.relay.resumed(key.fd):
            return
        stream = next(stream for stream in self.streams if stream.ended is None and stream.descriptor == key.fd)
        data = self.relay.read(stream.descriptor)
        if not data:
            if data is not None:
                self._end(stream)
            return
        if trouble := stream.record(data):
            who = f"rank {stream.rank}" if stream.rank >= 0 else f"process {stream.pid}"
            self.warn(f"the copy of what {who} writes ends: {trouble}")
        data = stream.held + data
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        stream.held, stream.held_since = data[end:], time.monotonic()
        self._copy(stream, data[:end])
        if len(stream.held) > TAIL_BYTES:
            self._release(stream)

    @property
    def holding(self) -> bool:
        """True if `release` should be called again within HOLD_SECONDS."""
        return any(stream.held for stream in self.streams)

    def warn(self, line: str) -> None:
        """Say a line of the launcher's own."""
        self.relay.write(self._target, f"paceline: {line}\n".encode())

    def release(self) -> None:
        """Copy the unfinished lines that were held back long enough."""
        now = time.monotonic()
        for stream in self.streams:
            if stream.held and now - stream.held_since >= HOLD_SECONDS:
                self._release(stream)

    def close(self) -> None:
        """Stop collecting, and close the streams that are still open; `relay` still writes what was collected."""
        self._selector.unregister(self._listener)
        self._listener.close()
        for stream in self.streams:
            if stream.ended is None:
                self.relay.remove(stream.descriptor)
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
        self.relay.write(stream.target, data)
