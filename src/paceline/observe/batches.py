"""The cost of loading batches in a process: the time to make them, and the time that it waited for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic_ns


class BatchTimes:
    """The batches that a loader gave this process. They are counted in one thread, and may be read in any."""

    def __init__(self) -> None:
        self.count = 0
        self.loading_ns = 0
        """The time that it took to make them, as if each had been made when it was asked for."""
        self._waited_ns = 0
        self._since = 0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """The caller waits for a batch inside this context."""
        self._since = monotonic_ns()
        try:
            yield
        finally:
            self._waited_ns += monotonic_ns() - self._since
            self._since = 0

    def add(self, loading_ns: int) -> None:
        """A batch came, which took this long to make."""
        self.count += 1
        self.loading_ns += loading_ns

    @property
    def waited_ns(self) -> int:
        """All waits until now, also one that is not over."""
        since = self._since
        return self._waited_ns + (monotonic_ns() - since if since else 0)


def hidden(loading_ns: int, waited_ns: int) -> float | None:
    """Return the share of loading, 0 to 1, that went on while the caller did something else; None without loading."""
    return max(0.0, 1 - waited_ns / loading_ns) if loading_ns else None
