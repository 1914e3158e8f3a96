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
from paceline.launch.stderr import HOLD_SECONDS

_TICK_SECONDS = 0.5
"""Seconds between two looks at the job if nothing wakes the loop."""
_DRAIN_SECONDS = 1.0
"""Seconds that output may still arrive after the job has ended."""
TIMED_OUT = 124
"""The exit code of a job that took too long, the same as that of timeout(1)."""


class Listener(Protocol):
    """Passes the processes' output on. Its descriptors are registered with the selector, with itself as data."""

    @property
    def holding(self) -> bool:
        """Whether `release` should be called again soon, because an unfinished line is held back."""

    @property
    def listening(self) -> bool:
        """Whether output may still arrive."""

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
    and a second signal ends it at once. The job is also ended after `timeout` seconds; None sets no limit. Returns the
    job's exit code, 128 + n if signal n asked for the end, or TIMED_OUT.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    timed_out = False
    passed_on = 0
    give_up_at: float | None = None
    while (code := job.poll()) is None:
        _step(selector, signals, listener, _TICK_SECONDS if give_up_at is None else 0.05)
        if len(signals.received) > passed_on:
            if passed_on == 0:
                job.send_signal(interrupt if signals.received[0] == signal.SIGINT else signals.received[0])
                give_up_at = time.monotonic() + grace
            else:
                give_up_at = 0.0
            passed_on = len(signals.received)
        if give_up_at is not None and time.monotonic() > give_up_at:
            job.terminate(grace=0)
        if deadline is not None and time.monotonic() > deadline:
            timed_out = True
            job.terminate()
    job.terminate(grace=0 if signals.received else 1.0)
    drained = time.monotonic() + _DRAIN_SECONDS
    while listener and listener.listening and time.monotonic() < drained:
        _step(selector, signals, listener, 0.05)
    if signals.received:
        return 128 + signals.received[0]
    return TIMED_OUT if timed_out else code


def _step(selector: selectors.BaseSelector, signals: Signals, listener: Listener | None, seconds: float) -> None:
    if listener is not None and listener.holding:
        seconds = min(seconds, HOLD_SECONDS)
    for key, _ in selector.select(seconds):
        if key.data is signals:
            signals.clear_wakeup()
        elif listener is not None:
            listener.handle(key)
    if listener is not None:
        listener.release()
