"""The fate of the gradients that an exchange gave: whether a step used them, or they were thrown away."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence

from torch import Tensor


class History:
    """Follows the parameters of a bucket by torch's counts of changes in place.

    Optimizers that write to `parameter.data` are not seen; then nothing is taken for undone.
    """

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self._parameters = [weakref.ref(parameter) for parameter in parameters]
        self._given: dict[int, tuple[weakref.ref[Tensor], int]] = {}  # by slot: gradients that hold a result, as it was
        self._changes = -1
        self._stepped = False  # whether a step has ever been seen

    @property
    def undone(self) -> bool:
        """True if no step has used what the last exchange gave, though there are steps, and its gradients are gone."""
        if self._changes < 0:
            return False
        if self._count() != self._changes:
            self._stepped = True
            return False
        return self._stepped and not any(map(self._holds, self._given))

    def accumulated(self, slot: int, parameter: Tensor) -> None:
        """A pass has added to the gradient of this parameter, which is one change in place."""
        gradient, given = parameter.grad, self._given.pop(slot, None)
        if given is not None and gradient is given[0]() and gradient is not None and gradient._version == given[1] + 1:
            self._given[slot] = given[0], given[1] + 1

    def exchanged(self, slots: Iterable[int]) -> None:
        """The gradients of these slots hold the result of an exchange."""
        self._given.clear()
        for slot in slots:
            parameter = self._parameters[slot]()
            if parameter is not None and parameter.grad is not None:
                self._given[slot] = weakref.ref(parameter.grad), parameter.grad._version
        self._changes = self._count()

    def judged(self) -> None:
        """Note that what the last exchange gave has been judged, before gradients change again."""
        self._changes = -1

    def step(self) -> None:
        """An optimizer that changes parameters unseen has made a step."""
        self._stepped, self._changes = True, -1

    def _count(self) -> int:
        return sum(one._version for reference in self._parameters if (one := reference()) is not None)

    def _holds(self, slot: int) -> bool:
        parameter, (gradient, version) = self._parameters[slot](), self._given[slot]
        found = None if parameter is None else parameter.grad
        return found is not None and found is gradient() and found._version == version
