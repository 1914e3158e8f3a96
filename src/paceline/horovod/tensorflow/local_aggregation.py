"""Adds up gradients of several backward passes before they are combined over the ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from paceline.horovod.tensorflow.gradients import Gradients


class LocalAggregation:
    """Combines gradients once in `passes` calls; in between they are added up here.

    average: whether the sum is divided by `passes`. counter: the passes since gradients were combined, a tf.Variable.
    """

    def __init__(self, gradients: Gradients, passes: int, average: bool) -> None:
        self.counter = tf.Variable(0, trainable=False)
        self._gradients, self._passes, self._average = gradients, passes, average
        self._sums: list[Any] = []

    def compute_gradients(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """Add these gradients, and return the combined ones if it is time, else the sums so far.

        Raises ValueError for tf.IndexedSlices, unless they are combined as dense gradients.
        """
        dense = [self._dense(gradient) for gradient in gradients]
        with tf.init_scope():  # variables that a tf.function makes live outside of it
            if not self._sums:
                self._sums = [
                    None if gradient is None else tf.Variable(tf.zeros(gradient.shape, gradient.dtype), trainable=False)
                    for gradient in dense
                ]
        present = [i for i, gradient in enumerate(dense) if gradient is not None]
        sums = [self._sums[i].assign_add(dense[i]) for i in present]
        now = self.counter.assign_add(1)
        with tf.control_dependencies([now, *sums]):
            totals = [tf.convert_to_tensor(self._sums[i]) for i in present]

        def combine() -> list[Any]:
            scaled = [total / self._passes if self._average else total for total in totals]
            combined = self._gradients.combine(scaled, [variables[i] for i in present])
            with tf.control_dependencies(combined):
                self.counter.assign(0)
                for i in present:
                    self._sums[i].assign(tf.zeros_like(self._sums[i]))
                return [tf.identity(each) for each in combined]

        results = tf.cond(
            tf.greater_equal(now, self._passes), combine, lambda: [tf.identity(total) for total in totals]
        )
        found = dict(zip(present, results, strict=True))
        return [found.get(i) for i in range(len(gradients))]

    def reset(self) -> None:
        """Forget the passes since gradients were combined, and their sums."""
        self.counter.assign(0)
        for each in self._sums:
            if each is not None:
                each.assign(tf.zeros_like(each))

    def apply_gradients(self, apply: Callable[[], None], skip: Callable[[], None]) -> None:
        """Call `apply` if the last `compute_gradients` has combined gradients, else `skip`."""

        def done(call: Callable[[], None]) -> Callable[[], Any]:
            def called() -> Any:
                call()
                return tf.constant(0)

            return called

        tf.cond(tf.equal(self.counter, 0), done(apply), done(skip))

    def _dense(self, gradient: Any) -> Any:
        if not isinstance(gradient, tf.IndexedSlices):
            return gradient
        if not self._gradients.sparse_as_dense:
            raise ValueError(
                "IndexedSlices are not supported when `backward_passes_per_step` > 1 and `sparse_as_dense` is False."
            )
        return tf.convert_to_tensor(gradient)
