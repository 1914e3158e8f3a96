"""What Keras' parts keep from step to step: passes, loss scales, metrics, statistics of batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from horovod_ranks import Ranks
from tensorflow import keras

import paceline.horovod.tensorflow.keras as hvd
from paceline.horovod.tensorflow import DistributedGradientTape, SyncBatchNormalization


def _model(optimizer: Any, **options: Any) -> Any:
    layers = [keras.layers.Input((2,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros", **options)]
    model = keras.Sequential(layers)
    model.compile(loss="mse", optimizer=optimizer)
    return model


def passes(rank: int, size: int) -> None:
    model = _model(hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), backward_passes_per_step=2))
    state = hvd.elastic.KerasState(model, step=0)
    variables = model.trainable_variables
    ones = [tf.ones((2, 1))]

    def weight() -> float:
        return float(model.get_weights()[0][0, 0])

    for forget in (state.restore, state.sync):
        state.save()
        before = weight()
        model.optimizer.apply(ones, variables)  # as if what comes next had failed
        forget()
        model.optimizer.apply(ones, variables)
        assert weight() == before  # the pass of before does not count any more
        model.optimizer.apply(ones, variables)
        assert weight() == before - 2
    model.optimizer._agg_helper.counter.assign(2)  # as a failed exchange leaves it
    model.optimizer.apply(ones, variables)
    assert weight() == -5


def test_passes_of_before_are_forgotten_when_a_state_is_restored(ranks: Ranks) -> None:
    ranks(passes, 2)


def overflow(rank: int, size: int) -> None:
    keras.config.set_dtype_policy("mixed_float16")
    try:
        model = _model(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), dtype="mixed_float16")
    finally:
        keras.config.set_dtype_policy("float32")
    for step in range(3):
        value = 1000.0 if step == 1 and rank == 1 else 0.5
        before = model.get_weights()[0].copy()
        model.fit(np.full((1, 2), value, "float32"), np.full((1, 1), value, "float32"), verbose=0)
        assert np.array_equal(before, model.get_weights()[0]) == (step == 1), step
    everyone = hvd.allgather(model.get_weights()[0][None])
    assert np.array_equal(everyone[0], everyone[1])


def test_all_ranks_skip_a_step_that_overflows_on_one(ranks: Ranks) -> None:
    ranks(overflow, 2)


def metrics(rank: int, size: int) -> None:
    logs: dict[str, Any] = {
        "loss": float(rank),
        "none": None,
        "text": "x",
        "matrix": np.full((2, 2), 2 * rank),
        "n": rank,
    }
    hvd.callbacks.MetricAverageCallback().on_epoch_end(0, logs)
    assert (logs["loss"], logs["none"], logs["text"], logs["n"]) == (0.5, None, "x", 0.5)
    assert logs["matrix"].tolist() == [[1.0, 1.0], [1.0, 1.0]]
    hvd.callbacks.MetricAverageCallback().on_epoch_end(0, {"none": None})


def test_metrics_that_are_no_numbers(ranks: Ranks) -> None:
    ranks(metrics, 2)


def epochs(rank: int, size: int) -> None:
    model = _model(keras.optimizers.SGD(0.1))
    state = hvd.elastic.KerasState(model, batch=0, epoch=0)
    committed: list[int] = []
    state.commit = lambda: committed.append(state.epoch)
    callbacks = [
        hvd.elastic.CommitStateCallback(state, batches_per_commit=100),
        hvd.elastic.UpdateEpochStateCallback(state),
    ]
    model.fit(np.ones((1, 2)), np.ones((1, 1)), epochs=3, callbacks=callbacks, verbose=0)
    assert committed == [1, 2, 3]


def test_an_epoch_is_committed_once_all_callbacks_have_ended_it(ranks: Ranks) -> None:
    ranks(epochs, 1)


def statistics(rank: int, size: int) -> None:
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((16, 6, 3)).astype(np.float32)
    mask = rng.random((16, 6)) < 0.7
    mask[8:, 2:] = False

    def check(mean: float, given: Any, parts: list[slice], tolerance: float) -> None:
        sync, whole = SyncBatchNormalization(axis=-1), keras.layers.BatchNormalization(axis=-1)
        x, mine = rows + np.float32(mean), parts[rank]
        right = whole(x, training=True, **({} if given is None else {"mask": tf.constant(given)})).numpy()[mine]
        found = sync(x[mine], training=True, **({} if given is None else {"mask": tf.constant(given[mine])})).numpy()
        np.testing.assert_allclose(found, right, atol=tolerance)
        np.testing.assert_allclose(sync.moving_variance.numpy(), whole.moving_variance.numpy(), rtol=1e-3)

    halves = [slice(0, 8), slice(8, 16)]
    check(0, None, halves, 1e-5)
    check(0, mask, halves, 1e-5)
    check(1e3, None, halves, 1e-3)
    check(1e4, None, halves, 1e-2)
    check(0, None, [slice(0, 16), slice(16, 16)], 1e-5)
    check(0, mask, [slice(0, 16), slice(16, 16)], 1e-5)


def test_statistics_with_masks_large_means_and_empty_batches(ranks: Ranks) -> None:
    ranks(statistics, 2)


def orders(rank: int, size: int) -> None:
    """A function of a part of the weights, and one that a rank traces again alone."""
    body, head = tf.Variable(tf.ones([4, 4]), name="body"), tf.Variable(tf.ones([4, 1]), name="head")

    def make(variables: list[tf.Variable]) -> Any:
        @tf.function(autograph=False)
        def step(x: tf.Tensor) -> None:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.matmul(tf.matmul(x, body), head))
            tape = DistributedGradientTape(tape)
            for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
                variable.assign_sub(0.01 * gradient)

        return step

    of_head, of_all = make([head]), make([body, head])
    for number, step in enumerate([of_head, of_all, of_all, of_all, of_head, of_all, of_all]):
        step(tf.ones([4 if number == 3 and rank == 1 else 8, 4]))
    assert np.unique(hvd.allgather(head.numpy()[None]), axis=0).shape[0] == 1


@pytest.mark.parametrize("machines", ["00", "01"])
def test_functions_that_are_not_as_their_order_says(ranks: Ranks, machines: str) -> None:
    ranks(orders, 2, machines=machines, environment={"PACELINE_POLICY": "graph"})
