"""A call that takes several requests, of which each depends on what the one before brought: Adasum's exchange."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.coordinate import Coordinator, Request, Span
from paceline.horovod.adasum import Exchange, Gather, Step, Total


class Course:
    """To wait for, as for a `Request`. Every rank begins one of this name; in what order several go on does not matter.

    The next step is handed in by whoever notices that the last one is over, so that nobody need wait for it to go on.
    outcome: what the exchange returned, once it is done.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        name: str,
        dtype: np.dtype[Any],
        first: Request,
        begin: Callable[[Request], Exchange],
    ) -> None:
        """dtype: of what the ranks exchange. begin: what the steps are, once the first request is over."""
        self.outcome: NDArray[Any] | None = None
        self._coordinator, self._name, self._dtype = coordinator, name, dtype
        self._steps: Exchange | None = None
        self._number = 0
        self._error: BaseException | None = None
        self._over = threading.Event()

        def start() -> Step:
            self._steps = begin(first)
            return next(self._steps)

        self._after(first, start)

    def done(self) -> bool:
        """Whether it is over, well or not; never waits."""
        return self._over.is_set()

    def wait(self) -> None:
        """Wait until it is over; each step has the coordinator's timeout. Raises as the step does that failed."""
        self._over.wait()
        if self._error is not None:
            raise self._error

    def _go_on(self, next_step: Callable[[], Step]) -> None:
        try:
            self._hand_in(next_step())
        except StopIteration as stop:
            self.outcome = stop.value
            self._over.set()
        except BaseException as error:
            self._error = error
            self._steps = None
            self._over.set()

    def _hand_in(self, step: Step) -> None:
        name = f"{self._name}~{self._number}"
        self._number += 1
        if isinstance(step, Total):
            numbers = np.zeros((step.teams, step.numbers.size))
            if step.team is not None:
                numbers[step.team] = step.numbers
            request = self._coordinator.all_reduce(name, Span.of(numbers), shape=numbers.shape)
            row = 0 if step.team is None else step.team
            self._then(request, lambda: numbers[row])
        elif isinstance(step, Gather):
            request = self._coordinator.all_gather(name, Span.of(step.data), shape=(1, step.data.size))
            self._then(request, lambda: self._received(request), step.data)
        else:
            data = np.empty(0, self._dtype) if step.data is None else np.ascontiguousarray(step.data, self._dtype)
            counts = [0] * self._coordinator.size
            if step.peer is not None:
                counts[step.peer] = data.size
            request = self._coordinator.all_to_all(name, Span.of(data), counts)
            self._then(request, lambda: self._received(request), data)

    def _received(self, request: Request) -> NDArray[Any]:
        if request.output is None or not sum(request.counts):
            return np.empty(0, self._dtype)
        return np.frombuffer(request.output, self._dtype)  # type: ignore[call-overload, no-any-return]

    def _then(self, request: Request, answer: Callable[[], NDArray[Any]], keep: object = None) -> None:
        def step() -> Step:
            assert self._steps is not None
            return self._steps.send(answer())

        self._after(request, step, keep)

    def _after(self, request: Request, step: Callable[[], Step], keep: object = None) -> None:
        memory = [keep]  # of a request under way

        def waited() -> Step:
            request.wait()
            return step()

        def over() -> None:
            self._go_on(waited)
            memory.clear()

        self._coordinator.when_over(request, over)
