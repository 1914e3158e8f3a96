"""Passes the ranks' stderr on while it remembers each rank's last words and the order in which they fell silent.

When one rank fails, its peers fail after it, each with a traceback of its own, and the one that explains everything
scrolls away. The collector lets the launcher print that one again, last.
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
from dataclasses import dataclass, field
from typing import IO

from paceline.launch.write_all import pass_on

STDOUT = 1
TAIL_BYTES = 64 * 1024
HOLD_SECONDS = 0.05
"""How long the begin of a line waits for its end, so that lines of several ranks don't mix; a prompt has no end."""
_TRACEBACK = re.compile(r"^(?:  \+ Exception Group )?Traceback \(most recent call last\):", re.MULTILINE)
_TRACEBACK_BEGINS = b"Traceback (most recent call last):"
_CONSEQUENCES = ("PeerLost:", "Aborted:")
_TIMED_OUT = re.compile(r"reached its timeout of .* waits for (.+?)(?:; \S+ s before: |$)", re.MULTILINE)
_CHAINED = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
_RANK_PREFIX = re.compile(r"^\[(?:rank)?\d+\]:? ?", re.MULTILINE)


@dataclass
class Voice:
    """One process that we listen to. held: the begin of a line, arrived at held_since; traced: when its last traceback
    began; ended: when its stderr was closed, None while it is open. Times are monotonic seconds.

    target: the descriptor that its output is copied to. prefix: before each line of it. file: gets all of it, too."""

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

    @property
    def is_output(self) -> bool:
        """Whether this is what the process prints, not what it complains of."""
        return self.target == STDOUT

    def hear(self, data: bytes) -> None:
        """Remember what it said."""
        if self.file is not None:
            self.file.write(data)
        self.tail += data
        if _TRACEBACK_BEGINS in self.tail[-len(data) - len(_TRACEBACK_BEGINS) :]:
            self.traced = time.monotonic()
        del self.tail[:-TAIL_BYTES]

    def end(self) -> None:
        """Its stderr was closed."""
        self.ended = time.monotonic()
        if self.file is not None:
            self.file.close()

    @property
    def fell(self) -> float:
        """When it failed: a rank that raises says so before it leaves, one that is killed just leaves."""
        return self.traced or self.ended or time.monotonic()

    @property
    def blames_another(self) -> bool:
        """True if its last words are that it lost somebody else, who must have failed before, or waited for one."""
        words = self.last_words(lines=1)
        return bool(self.waited_for) or any(name in words for name in _CONSEQUENCES)

    @property
    def waited_for(self) -> str:
        """Who did not come, if its last words are that it waited too long for somebody; else empty."""
        found = _TIMED_OUT.search(self.last_words(lines=1))
        return found[1] if found else ""

    def last_words(self, lines: int = 25) -> str:
        """The last traceback with those that it is chained to, else the last lines."""
        text = self.tail.decode(errors="replace").replace("\r\n", "\n")
        return last_traceback(text) or "\n".join(text.rstrip().splitlines()[-lines:])


def last_traceback(text: str) -> str:
    """The last Python traceback in `text` to its end, together with the exceptions it is chained to; "" if none."""
    text = _RANK_PREFIX.sub("", text)
    starts = [match.start() for match in _TRACEBACK.finditer(text)]
    if not starts:
        return ""
    begin = starts.pop()
    while starts and text[:begin].rstrip().endswith(_CHAINED):
        begin = starts.pop()
    return text[begin:].rstrip()


class Collector:
    """Hands a stderr to every process that reports at the socket `address`, and copies what arrives to `target`.

    target: descriptor that everything is copied to. If it is a terminal, the ranks get one too (for progress bars).
    All work is done by `handle`, called for the keys of `selector` whose `data` is this collector.
    """

    def __init__(self, selector: selectors.BaseSelector, target: int = 2) -> None:
        self.address = f"paceline-launch-{secrets.token_hex(8)}"
        self.voices: list[Voice] = []
        self._selector = selector
        self._target = target
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind("\0" + self.address)
        self._listener.listen(128)
        selector.register(self._listener, selectors.EVENT_READ, self)

    def listen_to(
        self, descriptor: int, pid: int, rank: int = -1, *, target: int | None = None, file: IO[bytes] | None = None
    ) -> Voice:
        """Also listen to a process whose stderr, or other output, we hold the reading end of.

        target: where its output goes, if that is not where the errors of all go. file: where it goes as well.
        """
        voice = Voice(rank, rank, pid, descriptor, self._target if target is None else target, file=file)
        self.voices.append(voice)
        self._selector.register(descriptor, selectors.EVENT_READ, self)
        return voice

    def handle(self, key: selectors.SelectorKey) -> None:
        """Take what is ready: a process that reports, or bytes of one."""
        if key.fileobj is self._listener:
            self._accept()
            return
        voice = next(voice for voice in self.voices if voice.ended is None and voice.descriptor == key.fd)
        try:
            data = os.read(voice.descriptor, 65536)
        except OSError:  # a terminal whose last writer left
            data = b""
        if not data:
            self._selector.unregister(voice.descriptor)
            os.close(voice.descriptor)
            voice.end()
            self._release(voice)
            return
        voice.hear(data)
        data = voice.held + data
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        voice.held, voice.held_since = data[end:], time.monotonic()
        self._copy(voice, data[:end])
        if len(voice.held) > TAIL_BYTES:
            self._release(voice)

    @property
    def listening(self) -> bool:
        """True while a process that we listen to has its stderr open."""
        return any(voice.ended is None for voice in self.voices)

    @property
    def holding(self) -> bool:
        """True if `release` should be called again within HOLD_SECONDS."""
        return any(voice.held for voice in self.voices)

    def release(self) -> None:
        """Copy the begins of lines that have waited long enough."""
        now = time.monotonic()
        for voice in self.voices:
            if voice.held and now - voice.held_since >= HOLD_SECONDS:
                self._release(voice)

    def close(self) -> None:
        """Stop listening; what is still open is closed."""
        self._selector.unregister(self._listener)
        self._listener.close()
        for voice in self.voices:
            if voice.ended is None:
                self._selector.unregister(voice.descriptor)
                os.close(voice.descriptor)
                voice.end()
                self._release(voice)

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            connection.settimeout(2.0)
            try:
                size = struct.calcsize("3i")
                _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
                if user != os.getuid():
                    return
                rank, local_rank, pid = (int(word) for word in connection.recv(100).split())
                reading, writing = self._channel()
            except (OSError, ValueError):
                return
            # What can't be handed over is closed here, and its reading end then ends at once.
            self.listen_to(reading, pid, rank).local_rank = local_rank
            try:
                passed = array.array("i", [writing]).tobytes()
                connection.sendmsg([b"!"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)])
            except OSError:
                return
            finally:
                os.close(writing)

    def _channel(self) -> tuple[int, int]:
        if not os.isatty(self._target):
            return os.pipe()
        reading, writing = pty.openpty()
        attributes = termios.tcgetattr(writing)
        attributes[1] &= ~termios.OPOST  # the real terminal translates newlines, once is enough
        termios.tcsetattr(writing, termios.TCSANOW, attributes)
        window = fcntl.ioctl(self._target, termios.TIOCGWINSZ, bytes(8))
        fcntl.ioctl(writing, termios.TIOCSWINSZ, window)
        return reading, writing

    def _release(self, voice: Voice) -> None:
        self._copy(voice, voice.held)
        voice.held = b""

    def _copy(self, voice: Voice, data: bytes) -> None:
        if voice.prefix and data:
            prefix = voice.prefix.encode()
            data = prefix + data[:-1].replace(b"\n", b"\n" + prefix) + data[-1:]
        pass_on(voice.target, data)
