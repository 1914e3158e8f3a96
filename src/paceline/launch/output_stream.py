"""The output of one process, and what it says of the process's failure."""

from __future__ import annotations

import contextlib
import re
import time
from dataclasses import dataclass, field
from typing import IO

from paceline.monitor.failure_report import FailureReport

STDOUT = 1
TAIL_BYTES = 64 * 1024
"""Bytes of each stream's last output that are kept."""
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
        """True if this is the process's stdout and not its stderr."""
        return self.target == STDOUT

    def record(self, data: bytes) -> str:
        """Keep what the process wrote. Returns why its file could not take it and gets no more; "" if it did."""
        trouble = self._copy(data)
        self.tail += data
        if _TRACEBACK_BEGINS in self.tail[-len(data) - len(_TRACEBACK_BEGINS) :]:
            self.traced = time.monotonic()
        del self.tail[:-TAIL_BYTES]
        return trouble

    def end(self) -> None:
        """Note that the stream was closed."""
        self.ended = time.monotonic()
        self._close()

    def _copy(self, data: bytes) -> str:
        left = memoryview(data)
        try:
            while self.file is not None and left:
                left = left[self.file.write(left) :]
        except OSError as error:
            self._close()
            return error.strerror or str(error)
        return ""

    def _close(self) -> None:
        file, self.file = self.file, None
        if file is not None:
            with contextlib.suppress(OSError):  # some file systems say only now that they are full
                file.close()

    @property
    def failed_at(self) -> float:
        """The time of the process's failure: that of its last traceback if it printed one, else that of its end."""
        return self.traced or self.ended or time.monotonic()

    @property
    def raised(self) -> list[str]:
        """The classes of the errors in its last traceback, in the order in which they were raised."""
        return _RAISED.findall(last_traceback(self.tail.decode(errors="replace").replace("\r\n", "\n")))

    @property
    def blames_another(self) -> bool:
        """True if the process ended with an error that says that another rank failed before, or did not come."""
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
