"""A collective under way."""

from __future__ import annotations

from collections.abc import Sequence

from paceline import _engine
from paceline.group.arguments import real
from paceline.group.buffers import Buffer
from paceline.group.host import Host


class Operation:
    """A collective under way.

    Do not touch its arrays until it is done. They stay alive even if you drop this object.
    """

    def __init__(
        self,
        runtime: Host,
        native: _engine.Operation | _engine.DeviceOperation,
        buffers: Sequence[Buffer],
    ) -> None:
        self._runtime = runtime
        self._native = native
        self._buffers = buffers

    def __del__(self) -> None:
        for buffer in self._buffers:
            buffer.copy = None  # nobody hears when the result is there, and what the program writes later must stay
        self._runtime.dropped(self)

    def done(self) -> bool:
        """Return without waiting whether the operation is over, well or not, and the results are where they belong."""
        native = self._native
        if not native.done():
            return False
        if isinstance(native, _engine.Operation):  # no result of a device is copied
            for buffer in self._buffers:
                if buffer.copy is not None and not native.error():
                    buffer.give_back()
        return True

    def wait(self, timeout: float | None = None) -> None:
        """Wait until it is over, `timeout` seconds at most (default: the group's).

        On a device the host waits only where `timeout` is given; what the stream of the array does from now on comes
        after it. Without, it raises what is known by then.

        Raises PeerLost, Mismatch, Timeout or Aborted, as it fails.
        """
        seconds = -1.0 if timeout is None else timeout
        try:
            self._native.wait(seconds)
        except TypeError:
            real(seconds, "timeout")
            raise
        for buffer in self._buffers:
            buffer.give_back()

    @property
    def source(self) -> int:
        """The rank whose message a finished `recv` received."""
        return self._native.source


class Over(Operation):
    """An operation that was over when its call returned. source: the rank whose message a `recv` received."""

    def __init__(self, source: int = -1) -> None:
        self._source = source

    def __del__(self) -> None:
        """Do nothing: there is nothing to keep."""

    def done(self) -> bool:
        """Return True."""
        return True

    def wait(self, timeout: float | None = None) -> None:
        """Return at once."""

    @property
    def source(self) -> int:
        """The rank whose message a `recv` received."""
        return self._source


OVER = Over()
"""The result of every call that is over at once and has received no message."""
