"""Gradients are submitted, and combined, while others are still being computed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from horovod_ranks import Ranks

import paceline.horovod.tensorflow as hvd
import paceline.horovod.tensorflow.keras as hvd_keras
from paceline.horovod import job
from paceline.horovod.tensorflow.kernels.library import LIBRARY
from paceline.horovod.tensorflow.naming import attributes
from paceline.horovod.tensorflow.submission_order import operations, waits

LAYERS = 6
DEADLINE = 60.0
"""Seconds until the first layer's gradient gives up waiting for the others' collectives."""


class FirstLayer:
    """The first layer's backward pass waits until all ranks combine the gradients of `others`, the layers behind it."""

    def __init__(self, others: int) -> None:
        self._coordinator = job.current().channel(0).coordinator
        self._others = others
        self._before = 0
        self.combined: list[int] = []

    def begin(self) -> None:
        """Tell that a step begins."""
        self._before = self._coordinator.counters().issued

    def __call__(self, x: Any) -> Any:
        """Return x as it is."""
        return tf.custom_gradient(lambda x: (tf.identity(x), self._wait_in_graph))(x)

    def _wait_in_graph(self, upstream: Any) -> Any:
        waited = tf.numpy_function(self._wait, [upstream], tf.float32)
        waited.set_shape(upstream.shape)
        return waited

    def _wait(self, upstream: Any) -> Any:
        deadline = time.monotonic() + DEADLINE
        while self._issued() < self._others and time.monotonic() < deadline:
            time.sleep(0.001)
        self.combined.append(self._issued())
        return upstream

    def _issued(self) -> int:
        return self._coordinator.counters().issued - self._before


def in_function(rank: int, size: int) -> None:
    variables = [tf.Variable(tf.fill([2], 1.0 + number), name=f"layer{number}") for number in range(LAYERS)]
    first = FirstLayer(LAYERS - 1)

    @tf.function(autograph=False)
    def gradients() -> Any:
        with tf.GradientTape() as tape:
            x = first(variables[0] * (rank + 1))
            for variable in variables[1:]:
                x = x * variable
            # Weight decay uses the variables once more, so that sums of two gradients come last in the program.
            loss = tf.reduce_sum(x) + tf.add_n([tf.reduce_sum(variable) for variable in variables])
        return hvd.DistributedGradientTape(tape, op=hvd.Sum).gradient(loss, variables)

    product = np.prod(np.arange(LAYERS) + 1.0)
    for _ in range(2):
        first.begin()
        for number, found in enumerate(gradients()):
            np.testing.assert_array_equal(found.numpy(), [3 * product / (1 + number) + size] * 2)
    assert first.combined == [LAYERS - 1] * 2


def in_fit(rank: int, size: int) -> None:
    first = FirstLayer(2 * (LAYERS - 1))

    class Watched(keras.layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            return first(x)

    class Beginning(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            first.begin()

    dense = [keras.layers.Dense(4, "relu") for _ in range(LAYERS)]
    model = keras.Sequential([keras.layers.Input((4,)), dense[0], Watched(), *dense[1:]])
    model.compile(loss="mse", optimizer=hvd_keras.DistributedOptimizer(keras.optimizers.SGD(0.01)))
    rows = np.ones((6, 4), np.float32)
    model.fit(rows, rows, batch_size=2, verbose=0, callbacks=[Beginning()])
    assert first.combined == [2 * (LAYERS - 1)] * 3


def overlap(rank: int, size: int) -> None:
    """With one thread, whatever the executor prefers, nothing but the order of the graph brings the collectives on."""
    tf.config.threading.set_inter_op_parallelism_threads(1)
    in_function(rank, size)
    in_fit(rank, size)


def test_later_layers_are_combined_before_the_first_layer_is_computed(ranks: Ranks) -> None:
    ranks(overlap, 2, fresh=True)


def handed_on(rank: int, size: int) -> None:
    """What two ops combine has a gradient, and an error that TensorFlow raises."""
    weights = tf.Variable([1.0, 2.0])

    @tf.function
    def second() -> Any:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(weights**3) * (rank + 1)
            (first,) = hvd.DistributedGradientTape(tape).gradient(loss, [weights])
            total = tf.reduce_sum(first)
        return first, outer.gradient(total, weights)

    first, found = second()
    np.testing.assert_array_equal(first.numpy(), [4.5, 18.0])
    np.testing.assert_array_equal(found.numpy(), np.array([6.0, 12.0]) * (rank + 1))

    odd = tf.Variable(tf.ones([2 + rank]))

    @tf.function
    def differing() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(odd)
        return hvd.DistributedGradientTape(tape).gradient(loss, [odd])

    with pytest.raises(tf.errors.FailedPreconditionError, match="ranks disagree"):
        differing()
    np.testing.assert_array_equal(second()[0].numpy(), [4.5, 18.0])


def test_two_ops_of_one_collective(ranks: Ranks) -> None:
    ranks(handed_on, 2)


def in_turn(rank: int, size: int) -> None:
    """Two networks in one step, as of a GAN: the second's gradients need what the first's have waited for."""
    generator, critic = ([tf.Variable(tf.fill([2], 1.0 + number)) for number in range(4)] for _ in range(2))

    def through(layers: Sequence[Any], x: Any) -> Any:
        for layer in layers:
            x = tf.tanh(x * layer)
        return x

    def step() -> list[Any]:
        found = []
        for sample in samples:
            with tf.GradientTape() as generating, tf.GradientTape() as judging:
                made = through(generator, sample)
                judged = through(critic, made)
                losses = tf.reduce_sum(1 - judged), tf.reduce_sum(judged) + tf.reduce_sum(through(critic, sample))
            judgement = hvd.DistributedGradientTape(judging).gradient(losses[1], critic)
            for variable, gradient in zip(critic, judgement, strict=True):
                variable.assign_sub(0.1 * gradient)
            again = through(critic, made) * tf.reduce_sum(judgement[0])
            found += [*judgement, *hvd.DistributedGradientTape(generating).gradient(losses[0], generator), again]
        return found

    samples = [tf.constant([0.1 * (rank + 1), 0.2]), tf.constant([0.3, 0.4 * (rank + 1)])]
    for threads in (1, 2):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tf.config.threading, "get_inter_op_parallelism_threads", lambda threads=threads: threads)
            for variable in (*generator, *critic):
                variable.assign(tf.ones([2]))
            found = tf.function(step, autograph=False)()
        for variable in (*generator, *critic):
            variable.assign(tf.ones([2]))
        eager = step()
        for left, right in zip(found, eager, strict=True):
            np.testing.assert_allclose(left.numpy(), right.numpy(), rtol=1e-5)


def test_gradients_are_combined_several_times_in_one_function(ranks: Ranks) -> None:
    ranks(in_turn, 2)


def loss(variables: Sequence[Any]) -> Any:
    """A scalar, to which one variable leads by three ways and each other by two: weight decay uses all once more."""
    x = tf.ones([3])
    for variable in variables:
        x = tf.tanh(x * variable)
    return tf.reduce_sum(tf.exp(x * variables[2])) + tf.add_n([tf.reduce_sum(one**2) for one in variables])


def needed(op: Any, parents: Mapping[str, Sequence[Any]]) -> set[str]:
    left, found = [op], set[str]()
    while left:
        one = left.pop()
        if one.name not in found:
            found.add(one.name)
            left += parents[one.name]
    return found


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_as_many_gradients_are_under_way_as_there_are_threads(threads: int) -> None:
    variables = [tf.Variable(tf.ones([3]), name=f"layer{number}") for number in range(8)]

    @tf.function(autograph=False)
    def traced() -> Any:
        with tf.GradientTape() as tape:
            found = loss(variables)
        gradients = tape.gradient(found, variables)
        before = len(operations())
        for number, gradient in enumerate(gradients):
            LIBRARY.ops.paceline_allreduce_start(
                [gradient],
                grouped=False,
                process_set_id=0,
                reduce_op=hvd.Sum,
                prescale_factor=1.0,
                postscale_factor=1.0,
                codec="",
                error_feedback=False,
                **attributes("", f"gradient{number}", []),
            )
        checked(operations(), before, threads)

    traced.get_concrete_function()


def checked(listed: Sequence[Any], before: int, threads: int) -> None:
    plain = {op.name: [*(tensor.op for tensor in op.inputs), *op.control_inputs] for op in listed}
    together = {name: list(parents) for name, parents in plain.items()}
    for waiting, start in waits(listed, before, threads):
        together[waiting.name].append(start)
    waited = {op.name: needed(op, together) for op in listed}
    assert not any(op.name in waited[parent.name] for op in listed for parent in together[op.name]), "a circle"

    starts = [op for op in listed if op.type == "PacelineAllreduceStart"]
    starts.sort(key=lambda op: len(waited[op.name]))
    assert all(earlier.name in waited[later.name] for earlier, later in pairwise(starts))
    assert starts[0].name == "gradient7", "the last layer is the first to be submitted"
    numbers = {op.name for op in listed if op.inputs and op.outputs and op.outputs[0].dtype == tf.float32}
    numbers -= {op.name for op in listed if op.type == "ReadVariableOp"}
    made: set[str] = set()
    for number, start in enumerate(starts):
        own = needed(start, plain) - made
        made |= own
        if number >= threads:
            early = {name for name in own & numbers if starts[number - threads].name not in waited[name]}
            assert not early, f"these need not wait until {starts[number - threads].name} is submitted"
