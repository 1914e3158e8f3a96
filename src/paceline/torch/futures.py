"""The future of a collective. Its callbacks may call collectives themselves, as PowerSGD's do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import local
from typing import Any, NoReturn, TypeVar

from torch.futures import Future

S = TypeVar("S")


class _Callbacks(local):
    """Of this thread: how many callbacks of collectives' futures run within one another."""

    depth = 0


callbacks = _Callbacks()


@contextmanager
def running_callbacks() -> Iterator[None]:
    """What is called inside is called by callbacks."""
    callbacks.depth += 1
    try:
        yield
    finally:
        callbacks.depth -= 1


class CollectiveFuture(Future[Any]):
    """A torch future that knows when its callbacks run, also if it was completed before they were added."""

    def complete(self, value: object) -> None:
        with running_callbacks():
            self.set_result(value)

    def fail(self, error: Exception) -> None:
        self._set_unwrap_func(_raise_failure)
        self.complete(_Failure(error))

    def add_done_callback(self, callback: Callable[[Future[Any]], object]) -> None:
        def run(_: Future[Any]) -> None:
            with running_callbacks():
                callback(self)

        super().add_done_callback(run)

    def then(self, callback: Callable[[Future[Any]], S]) -> Future[S]:
        child = CollectiveFuture()

        def run(_: Future[Any]) -> None:
            try:
                value = callback(self)
            except Exception as error:
                child.fail(error)
            else:
                child.complete(value)

        self.add_done_callback(run)
        return child


class _Failure:
    """The result that never came. C++ readers of a future see only values, so reading this one raises."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def _raise(self, *_: object) -> NoReturn:
        raise self.error.with_traceback(None)

    __getitem__ = __iter__ = __len__ = __reduce_ex__ = _raise


def _raise_failure(failure: _Failure) -> NoReturn:
    raise failure.error
