"""The output of several machines in one terminal: whole lines, each behind its machine's name."""

from __future__ import annotations

import os
import selectors
import sys
from dataclasses import dataclass

from paceline.launch.write_all import pass_on

_LONGEST_LINE = 64 * 1024


@dataclass
class _Stream:
    prefix: bytes
    target: int
    held: bytes = b""


class Labelled:
    """Copies what arrives at descriptors, line by line. A launcher's `Listener`; all work is done by `handle`."""

    holding = False

    def __init__(self, selector: selectors.BaseSelector, names: list[str]) -> None:
        self._selector = selector
        self._width = max(map(len, names))
        self._open: dict[int, _Stream] = {}

    def listen_to(self, descriptor: int, name: str, target: int) -> None:
        """Copies what can be read there to `target`, each line behind `name`; takes the descriptor over."""
        prefix = f"{name:<{self._width}} | ".encode()
        self._open[descriptor] = _Stream(prefix, target)
        self._selector.register(descriptor, selectors.EVENT_READ, self)

    @property
    def listening(self) -> bool:
        """Whether anything can still arrive."""
        return bool(self._open)

    def handle(self, key: selectors.SelectorKey) -> None:
        """Takes what is ready."""
        stream = self._open[key.fd]
        data = os.read(key.fd, 65536)
        if not data:
            self._end(key.fd)
            return
        *lines, stream.held = (stream.held + data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")).split(b"\n")
        self._copy(stream, lines)
        if len(stream.held) > _LONGEST_LINE:
            self._copy(stream, [stream.held])
            stream.held = b""

    def release(self) -> None:
        """Nothing waits: lines are copied when they are whole."""

    def close(self) -> None:
        """Stops listening; the begin of a line is copied as it is."""
        for descriptor in list(self._open):
            self._end(descriptor)

    def _end(self, descriptor: int) -> None:
        stream = self._open.pop(descriptor)
        self._selector.unregister(descriptor)
        os.close(descriptor)
        if stream.held:
            self._copy(stream, [stream.held])

    def _copy(self, stream: _Stream, lines: list[bytes]) -> None:
        pass_on(stream.target, b"".join(stream.prefix + line + b"\n" for line in lines))


def say(line: str) -> None:
    """One line of the lab's own, on stderr so that stdout stays the machines'."""
    print(f"paceline lab: {line}", file=sys.stderr, flush=True)
