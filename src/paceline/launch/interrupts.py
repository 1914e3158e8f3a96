"""Ctrl-C while processes start: a Python interpreter that starts or imports answers it with a traceback."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held() -> Iterator[None]:
    """What this thread starts meanwhile begins with SIGINT blocked, until `child.take_interrupts`."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def silent() -> None:
    """From now on SIGINT ends this process without a word; where it was ignored, it still is."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def raised() -> None:
    """From now on SIGINT raises KeyboardInterrupt where it would have ended this process without a word."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
