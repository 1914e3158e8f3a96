"""The future of a collective. Its callbacks may call collectives themselves, as PowerSGD's do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from threading import local
from typing import NoReturn, TypeVar

import torch
from torch import Tensor, _jit_internal
from torch.autograd import Variable
from torch.futures import Future

from paceline._engine import tensors_reader
from paceline.observe.outside import OutsideWaits

S = TypeVar("S")
T = TypeVar("T")


class _Callbacks(local):
    """The number of callbacks of collectives' futures that run within one another in this thread."""

    depth = 0


callbacks = _Callbacks()


@contextmanager
def running_callbacks() -> Iterator[None]:
    """Count everything that is called inside this context as called by a callback."""
    callbacks.depth += 1
    try:
        yield
    finally:
        callbacks.depth -= 1


class CollectiveFuture(Future[T]):
    """A torch future that knows when its callbacks run, also if it was completed before they were added.

    outside: counts the waits for it in Python; None if it is complete from the beginning.
    """

    def __init__(self, outside: OutsideWaits | None = None) -> None:
        super().__init__()
        self._outside = outside

    def wait(self) -> T:
        """Wait until it is complete; return its value, or raise the collective's error."""
        if self._outside is None or self.done():
            return super().wait()
        with self._outside.span():
            over = threading.Event()
            super().add_done_callback(lambda _: over.set())
            over.wait()  # hears of signals, which torch's own wait does not
            return super().wait()

    def complete(self, value: T) -> None:
        """Set the value, and run the callbacks in this thread."""
        with running_callbacks():
            self.set_result(value)

    def fail(self, error: Exception, results: Sequence[Tensor] = ()) -> None:
        """Fail with `error`. results: the tensors that the value would have held."""
        self._set_unwrap_func(_raise_failure)
        self.complete(_Failure(error, results))  # type: ignore[arg-type]  # whoever reads it raises

    def add_done_callback(self, callback: Callable[[Future[T]], object]) -> None:
        """Call `callback` with this future once it is complete; at once if it is."""

        def run(_: Future[T]) -> None:
            with running_callbacks():
                callback(self)

        super().add_done_callback(run)

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """Return a future of what `callback` returns, which is called with this one once it is complete."""
        child: CollectiveFuture[S] = CollectiveFuture(self._outside)
        if _in_backward():
            _at_its_end(partial(torch._C.Future.wait, child))  # no Python, see `read_quietly`

        def run(_: Future[T]) -> None:
            try:
                value = callback(self)
            except Exception as error:
                child.fail(error)
            else:
                child.complete(value)

        self.add_done_callback(run)
        return child


class _Failure:
    """The value of a future that failed. Readers in C++ see only values, so reading this one raises the error.

    DDP's reducer takes the tensors out of a value at the end of `backward`, and keeps only the words of an error, not
    its class. It is given the tensors, whatever they hold, and `backward` then raises the error itself.
    """

    def __init__(self, error: Exception, results: Sequence[Tensor]) -> None:
        self.error = error
        self.results = list(results)
        self.read = partial(_at_its_end, self._raise)
        """Whoever takes the results in a backward pass calls this. It is not Python, see `read_quietly`."""

    def _raise(self, *_: object) -> NoReturn:
        raise self.error.with_traceback(None)

    __getitem__ = __iter__ = __len__ = _raise

    def __reduce_ex__(self, _: object) -> tuple[type[list[Tensor]], tuple[list[Tensor]]]:
        if not self.results or not _in_backward():
            self._raise()
        self.read()
        return list, (self.results,)


@cache
def read_quietly() -> None:
    """Let torch take tensors out of the values of futures without running Python. May be called any number of times.

    torch's own function is Python, in which the handlers of signals run that came while DDP waited; what a handler
    raises there, such as KeyboardInterrupt, DDP turns into a RuntimeError. So it is raised once `backward` returns.
    """
    otherwise = getattr(_jit_internal, "_extract_tensors", None)
    if otherwise is not None:
        _jit_internal._extract_tensors = tensors_reader(Tensor, _Failure, otherwise)


def _in_backward() -> bool:
    return torch._C._current_graph_task_id() != -1


_at_its_end: Callable[[Callable[[], object]], None]
_at_its_end = Variable._execution_engine.queue_callback  # type: ignore[assignment]  # nobody looks at what it returns
"""Has a function called at the end of the backward pass that this thread is in; `backward` raises what it raises."""


def _raise_failure(failure: _Failure) -> NoReturn:
    raise failure.error
