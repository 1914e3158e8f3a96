"""Adasum's exchange as a series of requests, each of which depends on what the one before it received."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.coordinate import Coordinator, Request, Span
from paceline.horovod.adasum import Exchange, Gather, Step, Total


class Course:
    """An Adasum exchange in flight. A caller waits for it as for a `Request`.

    Every rank starts one with the same name. Several may be in flight; their order does not matter. The thread that
    sees a step end submits the next one, so the exchange makes progress even if nobody waits for it.

    outcome: the combined gradient once the exchange is done, None before.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        name: str,
        dtype: np.dtype[Any],
        first: Request,
        begin: Callable[[Request], Exchange],
    ) -> None:
        """Start the exchange once the request `first` is done.

        dtype: the dtype of the exchanged elements. begin: receives `first` and returns the steps that follow it.
        """
        self.outcome: NDArray[Any] | None = None
        self._coordinator, self._name, self._dtype = coordinator, name, dtype
        self._steps: Exchange | None = None
        self._number = 0
        self._error: BaseException | None = None
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._then: list[Callable[[], None]] = []

        def start() -> Step:
            self._steps = begin(first)
            return next(self._steps)

        self._after(first, start)

    def done(self) -> bool:
        """Return whether the exchange has ended, successfully or not. Never waits."""
        return self._over.is_set()

    def wait(self) -> None:
        """Wait until the exchange has ended; each step has the coordinator's timeout.

        Raises the error of the step that failed.
        """
        self._over.wait()
        if self._error is not None:
            raise self._error

    def when_over(self, then: Callable[[], None]) -> None:
        """Call `then` once when the exchange has ended, in the thread that ends it, or here if it has ended."""
        with self._lock:
            if not self._over.is_set():
                self._then.append(then)
                return
        then()

    def _end(self) -> None:
        with self._lock:
            self._over.set()
        for then in self._then:
            then()

    def _go_on(self, next_step: Callable[[], Step]) -> None:
        try:
            self._submit(next_step())
        except StopIteration as stop:
            self.outcome = stop.value
            self._end()
        except BaseException as error:
            self._error = error
            self._steps = None
            self._end()

    def _submit(self, step: Step) -> None:
        name = f"{self._name}~{self._number}"
        self._number += 1
        if isinstance(step, Total):
            numbers = np.zeros((step.teams, step.numbers.size))
            if step.team is not None:
                numbers[step.team] = step.numbers
            request = self._coordinator.all_reduce(name, Span.of(numbers), shape=numbers.shape)
            row = 0 if step.team is None else step.team
            self._go_on_after(request, lambda: numbers[row])
        elif isinstance(step, Gather):
            request = self._coordinator.all_gather(name, Span.of(step.data), shape=(1, step.data.size))
            self._go_on_after(request, lambda: self._received(request), step.data)
        else:
            data = np.empty(0, self._dtype) if step.data is None else np.ascontiguousarray(step.data, self._dtype)
            counts = [0] * self._coordinator.size
            if step.peer is not None:
                counts[step.peer] = data.size
            request = self._coordinator.all_to_all(name, Span.of(data), counts)
            self._go_on_after(request, lambda: self._received(request), data)

    def _received(self, request: Request) -> NDArray[Any]:
        if request.output is None or not sum(request.counts):
            return np.empty(0, self._dtype)
        return np.frombuffer(request.output, self._dtype)  # type: ignore[call-overload, no-any-return]

    def _go_on_after(self, request: Request, answer: Callable[[], NDArray[Any]], keep: object = None) -> None:
        def step() -> Step:
            assert self._steps is not None
            return self._steps.send(answer())

        self._after(request, step, keep)

    def _after(self, request: Request, step: Callable[[], Step], keep: object = None) -> None:
        memory = [keep]  # keeps the request's buffer alive until the request is done

        def waited() -> Step:
            request.wait()
            return step()

        def over() -> None:
            self._go_on(waited)
            memory.clear()

        self._coordinator.when_over(request, over)
