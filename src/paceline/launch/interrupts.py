"""Handles Ctrl-C while processes start, because a Python interpreter that is starting prints a traceback."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held() -> Iterator[None]:
    """Start processes with SIGINT blocked inside this context; `child.take_interrupts` unblocks it in them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def silent() -> None:
    """Let SIGINT end this process without a message from now on. If it was ignored, it stays ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def raised() -> None:
    """Let SIGINT raise KeyboardInterrupt from now on, if it would have ended this process without a message."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
