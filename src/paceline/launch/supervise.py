"""The launcher's loop: one thread watches processes, passes output on, and handles signals."""

import os
import selectors
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from paceline.launch.job import Job
from paceline.launch.relay import Relay
from paceline.launch.stderr import HOLD_SECONDS

_TICK_SECONDS = 0.5
"""Seconds between two looks at the job if nothing wakes the loop."""
_QUIET_SECONDS = 1.0
"""Seconds in all without output after which none is expected any more of a job that has ended."""
TIMED_OUT = 124
"""The exit code of a job that took too long, the same as that of timeout(1)."""


class Listener(Protocol):
    """Passes the processes' output on. Its descriptors are registered with the selector, with itself as data."""

    @property
    def holding(self) -> bool:
        """True if `release` should be called again soon, because an unfinished line is held back."""

    @property
    def relay(self) -> Relay | None:
        """Passes the output on; None if there is none to pass on."""

    def handle(self, key: selectors.SelectorKey) -> None:
        """Handle a ready descriptor."""

    def release(self) -> None:
        """Copy the unfinished lines that were held back long enough."""


class Signals:
    """Collects the signals that ask this process to end while the context is open.

    It also provides a descriptor that wakes a selector for them and for the end of a child.
    """

    ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.received: list[int] = []
        self.ends_at: float | None = None
        """The monotonic time by which everything should be over; None before the first signal was noticed."""
        self._noticed = 0
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        os.set_blocking(self._writing, False)

    @contextmanager
    def watched(self, selector: selectors.BaseSelector) -> Iterator["Signals"]:
        """Install the handlers; restore everything when the context ends."""
        watched = [s for s in self.ENDING if s != signal.SIGHUP or signal.getsignal(s) != signal.SIG_IGN]
        previous = {number: signal.signal(number, self._note) for number in watched}
        previous[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda number, frame: None)
        wakeup = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        selector.register(self._reading, selectors.EVENT_READ, self)
        try:
            yield self
        finally:
            selector.unregister(self._reading)
            signal.set_wakeup_fd(wakeup)
            for number, handler in previous.items():
                signal.signal(number, handler)
            os.close(self._reading)
            os.close(self._writing)

    def clear_wakeup(self) -> None:
        """Discard the wake-ups; `received` is unchanged."""
        try:
            while os.read(self._reading, 512):
                pass
        except BlockingIOError:
            pass

    def notice(self, grace: float) -> int | None:
        """Take note of the signals that have come. Returns the first one when it is new, else None.

        It allows `grace` seconds until everything should be over, and a further one none.
        """
        known, self._noticed = self._noticed, len(self.received)
        if self._noticed == known:
            return None
        self.ends_at = time.monotonic() + (0.0 if known else grace)
        return None if known else self.received[0]

    @property
    def overdue(self) -> bool:
        """True if everything should be over, because signals asked for it."""
        return self.ends_at is not None and time.monotonic() >= self.ends_at

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received.append(number)


def supervise(
    job: Job,
    selector: selectors.BaseSelector,
    signals: Signals,
    listener: Listener | None,
    grace: float,
    timeout: float | None = None,
    *,
    interrupt: int = signal.SIGINT,
) -> int:
    """Watch a started job until it ends, and end all its processes.

    The first signal is passed on to the job, Ctrl-C as `interrupt`; the job then has `grace` seconds to end by itself,
    and a second signal ends it at once. The job is also ended after `timeout` seconds; None sets no limit. What the job
    has written is read to its end, as fast as its readers take it, unless signals allow no more time. Returns the job's
    exit code, 128 + n if signal n asked for the end, or TIMED_OUT.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    timed_out = False
    while (code := job.poll()) is None:
        _step(selector, signals, listener, _TICK_SECONDS if signals.ends_at is None else 0.05)
        if (first := signals.notice(grace)) is not None:
            job.send_signal(interrupt if first == signal.SIGINT else first)
        if signals.overdue:
            job.terminate(grace=0)
        if deadline is not None and time.monotonic() > deadline:
            timed_out = True
            job.terminate()
    job.terminate(grace=0 if signals.received else 1.0)
    if listener is not None and listener.relay is not None:
        _read_to_the_end(selector, signals, listener, listener.relay)
    if signals.received:
        return 128 + signals.received[0]
    return TIMED_OUT if timed_out else code


def finish(selector: selectors.BaseSelector, signals: Signals, listener: Listener, relay: Relay) -> None:
    """Wait until the readers have taken everything, unless signals allow no more time, and close the relay."""
    while relay.writing and not signals.overdue:
        _step(selector, signals, listener, _TICK_SECONDS if signals.ends_at is None else 0.05)
        signals.notice(0.0)
    relay.close()


def _read_to_the_end(selector: selectors.BaseSelector, signals: Signals, listener: Listener, relay: Relay) -> None:
    # Everything that the job wrote is in the pipes already, but a process that left the job may hold them open.
    relay.last()
    quiet = 0.0
    while relay.reading and quiet < _QUIET_SECONDS and not signals.overdue:
        began = time.monotonic()
        if not _step(selector, signals, listener, 0.05) and not relay.held_up:
            quiet += time.monotonic() - began
        signals.notice(0.0)


def _step(selector: selectors.BaseSelector, signals: Signals, listener: Listener | None, seconds: float) -> bool:
    """Handle what is ready within some seconds. Returns whether there was anything."""
    if listener is not None and listener.holding:
        seconds = min(seconds, HOLD_SECONDS)
    ready = selector.select(seconds)
    for key, _ in ready:
        if key.data is signals:
            signals.clear_wakeup()
        elif listener is not None:
            listener.handle(key)
    if listener is not None:
        listener.release()
    return bool(ready)
