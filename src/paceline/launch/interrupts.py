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


@contextmanager
def also_from_others() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt inside this context, so that what is under way ends in order.

    One that is ignored, or handled already, stays so.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    changed = [number for number, handler in before.items() if handler is signal.SIG_DFL]
    for number in changed:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in changed:
            signal.signal(number, signal.SIG_DFL)
