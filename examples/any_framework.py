"""A framework that nobody maintains, by NumPy arrays and by DLPack: paceline run -n 2 examples/any_framework.py"""

from __future__ import annotations

import numpy as np

import paceline


class Tensor:
    """Stands for the framework's own: its memory is nobody else's business, but it has the usual two ways out."""

    def __init__(self, values: np.ndarray) -> None:
        self._memory = np.array(values, np.float32)

    def asnumpy(self) -> np.ndarray:
        """Return a copy."""
        return self._memory.copy()

    def __dlpack__(self, **wishes: object) -> object:
        """Lend the memory itself."""
        return self._memory.__dlpack__(**wishes)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._memory.__dlpack_device__()


class Model:
    """Stands for a model of it: linear regression with one tensor of weights."""

    def __init__(self, weights: np.ndarray) -> None:
        self.weights = Tensor(weights)

    def gradient(self, inputs: np.ndarray, targets: np.ndarray) -> Tensor:
        """The gradient of half the mean squared error."""
        return Tensor(inputs.T @ (inputs @ self.weights.asnumpy() - targets) / len(inputs))

    def update(self, gradient: np.ndarray | Tensor) -> None:
        """One step of gradient descent."""
        values = gradient.asnumpy() if isinstance(gradient, Tensor) else gradient
        self.weights = Tensor(self.weights.asnumpy() - 0.1 * values)


with paceline.init() as group:
    random = np.random.default_rng(group.rank)  # every rank has data of its own
    answer = np.arange(8, dtype=np.float32)
    for way in ("NumPy", "DLPack"):
        model = Model(random.normal(size=8))
        group.broadcast(model.weights, 0)  # in place: all ranks begin with the weights of rank 0
        for _ in range(100):
            inputs = random.normal(size=(32, 8)).astype(np.float32)
            gradient = model.gradient(inputs, inputs @ answer)
            if way == "NumPy":
                average = gradient.asnumpy()
                group.all_reduce(average, "avg")  # the copy is the result
                model.update(average)
            else:
                group.all_reduce(gradient, "avg")  # in the memory of the framework
                model.update(gradient)
        everyone = np.empty((group.size, 8), np.float32)
        group.all_gather(everyone, model.weights)
        if group.rank == 0:
            alike = (everyone == everyone[0]).all()
            error = np.abs(everyone[0] - answer).max()
            print(f"{way}: the ranks have the same weights: {alike}, within 0.01 of the answer: {error < 0.01}")
