"""Shows the output of several machines in one terminal: whole lines, each after its machine's name."""

from __future__ import annotations

import selectors
import sys
from dataclasses import dataclass

from paceline.launch.relay import Relay

_LONGEST_LINE = 64 * 1024
"""Bytes after which an unfinished line is copied."""


@dataclass
class _Stream:
    prefix: bytes
    target: int
    held: bytes = b""


class Labelled:
    """Copies output line by line. A `Listener` of the launcher; `handle` does all work."""

    holding = False

    def __init__(self, selector: selectors.BaseSelector, names: list[str]) -> None:
        self.relay = Relay(selector, self)
        self._width = max(map(len, names))
        self._open: dict[int, _Stream] = {}

    def listen_to(self, descriptor: int, name: str, target: int) -> None:
        """Copy what arrives at `descriptor` to `target`, each line after `name`.

        It takes over the descriptor and closes it.
        """
        prefix = f"{name:<{self._width}} | ".encode()
        self._open[descriptor] = _Stream(prefix, target)
        self.relay.add(descriptor, target)

    def handle(self, key: selectors.SelectorKey) -> None:
        """Read from a ready descriptor."""
        if self.relay.resumed(key.fd):
            return
        stream = self._open[key.fd]
        data = self.relay.read(key.fd)
        if not data:
            if data is not None:
                self._end(key.fd)
            return
        *lines, stream.held = (stream.held + data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")).split(b"\n")
        self._copy(stream, lines)
        if len(stream.held) > _LONGEST_LINE:
            self._copy(stream, [stream.held])
            stream.held = b""

    def release(self) -> None:
        """Do nothing: only whole lines are copied, so none is released early."""

    def close(self) -> None:
        """Stop listening, and copy unfinished lines as they are; `relay` still writes them."""
        for descriptor in list(self._open):
            self.relay.remove(descriptor)
            self._end(descriptor)

    def _end(self, descriptor: int) -> None:
        stream = self._open.pop(descriptor)
        if stream.held:
            self._copy(stream, [stream.held])

    def _copy(self, stream: _Stream, lines: list[bytes]) -> None:
        self.relay.write(stream.target, b"".join(stream.prefix + line + b"\n" for line in lines))


def say(line: str) -> None:
    """Print a line of the lab's own on stderr, so that stdout holds only the machines' output."""
    print(f"paceline lab: {line}", file=sys.stderr, flush=True)
