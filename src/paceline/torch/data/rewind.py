"""A generator from which batches are drawn ahead of their use, and which goes back where an epoch is left."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TypeVar

import torch
from torch import Tensor

T = TypeVar("T")


class Rewind:
    """Notes the generator's state behind every item that is drawn, as far back as `most` items.

    Reading runs ahead of a rank that leaves an epoch by as much as the machine allows, and so would the generator.
    """

    def __init__(self, generator: torch.Generator, most: int) -> None:
        self._generator = generator
        self._states: deque[tuple[int, Tensor]] = deque(maxlen=most + 1)
        self._target: Tensor | None = None
        self._drawing = threading.Lock()

    def noting(self, items: Iterable[T]) -> Iterator[T]:
        """Draw the items of an epoch, each as it is asked for."""
        drawn, left, over = 0, iter(items), object()
        while True:
            with self._drawing:
                if not drawn:
                    self._note(0)
                item = next(left, over)
                drawn += 1
                self._note(drawn)
            if item is over:
                return
            yield item  # type: ignore[misc]

    def choose(self, drawn: int) -> Tensor:
        """The state that `apply` will set: behind so many items, unless somebody has set another one since."""
        with self._drawing:
            self._target = now = self._generator.get_state()
            if self._states and torch.equal(now, self._states[-1][1]):
                # An epoch has one state more than items: that behind its end.
                self._target = next((state for number, state in self._states if number >= drawn), now)
            return self._target

    def apply(self) -> None:
        """Go back, once nothing more is drawn, and begin an epoch."""
        if self._target is not None:
            self._generator.set_state(self._target)
        self._states.clear()

    def _note(self, drawn: int) -> None:
        self._states.append((drawn, self._generator.get_state()))
