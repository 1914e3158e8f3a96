"""Training with DistributedGradientTape and DistributedOptimizer on several ranks."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from horovod_ranks import Ranks

import paceline.horovod.keras
import paceline.horovod.tensorflow as hvd
import paceline.horovod.tensorflow.keras as hvd_keras
from paceline.horovod import job

RNG = 7
INPUTS = np.random.default_rng(RNG).integers(-3, 4, (32, 4)).astype("float32")
TARGETS = INPUTS.sum(1, keepdims=True)


def small_model() -> Any:
    keras.utils.set_random_seed(RNG)
    return keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3, "relu"), keras.layers.Dense(1)])


def share(rank: int, size: int) -> tuple[Any, Any]:
    """Every rank's part of each batch of 8."""
    return tuple(each.reshape(4, size, 8 // size, -1)[:, rank].reshape(32 // size, -1) for each in (INPUTS, TARGETS))


def trained(model: Any, optimizer: Any, inputs: Any, targets: Any, batch: int) -> list[Any]:
    model.compile(loss="mse", optimizer=optimizer)
    model.fit(inputs, targets, epochs=2, batch_size=batch, shuffle=False, verbose=0)
    return model.get_weights()


def tape_gradients(rank: int, size: int) -> None:
    variables = [tf.Variable([1.0, 2.0], name="dense"), tf.Variable([[1.0], [2.0], [3.0]], name="table")]

    def gradients(**options: Any) -> list[Any]:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(variables[0]) * (rank + 1) + tf.reduce_sum(tf.gather(variables[1], [rank, 2]))
        tape = hvd.DistributedGradientTape(tape, **options)
        return [tf.convert_to_tensor(each) for each in tape.gradient(loss, variables)]

    options: list[dict[str, Any]] = [
        {},
        {"sparse_as_dense": True},
        {"sparse_as_dense": True, "groups": 1},
        {"sparse_as_dense": True, "groups": [variables]},
        {"groups": 1},
        {"gradient_predivide_factor": 2.0, "sparse_as_dense": True},
        {"compression": hvd.Compression.fp16},
        {"compression": hvd.Compression.bf16},
    ]
    for each in options:
        for dense, table in (gradients(**each), tf.function(lambda each=each: gradients(**each))()):
            np.testing.assert_array_equal(dense.numpy(), [1.5, 1.5])
            np.testing.assert_array_equal(table.numpy(), [[0.5], [0.5], [1.0]])
    dense, table = gradients(op=hvd.Sum)
    np.testing.assert_array_equal(table.numpy(), [[1.0], [1.0], [2.0]])
    dense, _ = gradients(op=hvd.Adasum, sparse_as_dense=True)
    np.testing.assert_allclose(dense.numpy(), [1.5, 1.5])  # of parallel gradients Adasum is the average
    with pytest.raises(ValueError, match="gradient_predivide_factor not supported"):
        gradients(op=hvd.Sum, gradient_predivide_factor=2.0)


def local_sources(rank: int, size: int) -> None:
    shared, own = tf.Variable([1.0]), tf.Variable([1.0])
    with tf.GradientTape(persistent=True) as tape:
        loss = tf.reduce_sum(shared + own) * (rank + 1)
    tape = hvd.DistributedGradientTape(tape)
    tape.register_local_source(own)
    ours, theirs = tape.gradient(loss, [own, shared])
    assert (ours.numpy(), theirs.numpy()) == ([(rank + 1) / 2], [1.5])
    local, combined = tape.get_local_and_global_gradients(loss, [own, shared], use_generic_names=True)
    assert local[0][0] is own
    assert combined[0][0] is shared
    nested = tape.gradient(loss, {"a": shared, "b": [own]})
    assert nested["a"].numpy() == [1.5]
    assert tape.gradient(loss, [tf.Variable([2.0])]) == [None]


def objects(rank: int, size: int) -> None:
    variables = [tf.Variable([float(rank)]), tf.Variable([rank, rank], dtype=tf.int32)]
    hvd.broadcast_variables(variables, root_rank=1)
    assert [each.numpy().tolist() for each in variables] == [[1.0], [1, 1]]
    sent = {"step": rank, "tensor": tf.constant([rank], tf.bfloat16)}
    received = hvd.broadcast_object(sent, root_rank=1)
    assert received["step"] == 1
    assert received["tensor"].dtype == tf.bfloat16
    assert hvd.allgather_object([rank] * rank) == [[0] * 0, [1]]
    with pytest.raises(TypeError, match="rank 1"):
        hvd.broadcast_object(object() if rank else None, root_rank=1)


def test_gradients_of_a_tape(ranks: Ranks) -> None:
    ranks(tape_gradients, 2)
    ranks(local_sources, 2)
    ranks(objects, 2)


def keras_training(rank: int, size: int, passes: int) -> None:
    """Ranks that share each batch train as one process does that has all of it."""
    alone = trained(small_model(), keras.optimizers.SGD(0.01, momentum=0.5), INPUTS, TARGETS, 8 * passes)
    optimizer = hvd_keras.DistributedOptimizer(
        keras.optimizers.SGD(0.01, momentum=0.5), backward_passes_per_step=passes, average_aggregated_gradients=True
    )
    together = trained(small_model(), optimizer, *share(rank, size), 8 // size)
    for found, expected in zip(together, alone, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    everyone = hvd.allgather_object([weight.tobytes() for weight in together])
    assert everyone[0] == everyone[1], "the ranks have the same bits"
    assert int(optimizer.iterations) == 8


@pytest.mark.parametrize("passes", [pytest.param(1, marks=pytest.mark.smoke), 2])
def test_keras_trains_as_one_process_does(ranks: Ranks, passes: int) -> None:
    ranks(keras_training, 2, passes=passes)


def functions(rank: int, size: int) -> None:
    for face in (hvd_keras, paceline.horovod.keras):
        assert face.allreduce([1.0 + rank], name="mean").numpy() == [1.5]
        assert face.allreduce([1.0 + rank], op=face.Sum, prescale_factor=2.0).numpy() == [6.0]
        assert face.allgather([rank]).numpy().tolist() == [0, 1]
        assert face.broadcast([rank], 1).numpy().tolist() == [1]
        assert face.reducescatter([1.0, 2.0], op=face.Sum).numpy().tolist() == [2.0 * (rank + 1)]
        with pytest.raises(RuntimeError, match="does not support eager execution"):
            face.broadcast_global_variables(0)


def partial_training(rank: int, size: int) -> None:
    model = small_model()
    optimizer = hvd_keras.PartialDistributedOptimizer(keras.optimizers.SGD(0.01), local_layers=model.layers[0])
    trained(model, optimizer, *share(rank, size), 4)
    first, second = (hvd.allgather_object([each.tobytes() for each in layer.get_weights()]) for layer in model.layers)
    assert first[0] != first[1]
    assert second[0] == second[1]


def session(rank: int, size: int) -> None:
    """A loop for TensorFlow 1: the hook gives all ranks the variable of rank 1, the optimizer averages gradients."""
    with tf.Graph().as_default():
        variable = tf.compat.v1.get_variable("weight", initializer=5.0 + rank)
        optimizer = hvd.DistributedOptimizer(tf.compat.v1.train.GradientDescentOptimizer(1.0))
        step = tf.compat.v1.train.get_or_create_global_step()
        train = optimizer.minimize(variable * (rank + 1), global_step=step)
        with tf.compat.v1.train.MonitoredTrainingSession(hooks=[hvd.BroadcastGlobalVariablesHook(1)]) as session:
            assert session.run(variable) == 6.0
            session.run(train)
            assert session.run(variable) == 4.5


def callbacks(rank: int, size: int, folder: str) -> None:
    keras.utils.set_random_seed(rank)
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
    model.compile(loss="mse", optimizer=hvd_keras.DistributedOptimizer(keras.optimizers.Adam(0.1)))
    rates = hvd_keras.callbacks.LearningRateWarmupCallback(0.1, warmup_epochs=2)
    used = [
        hvd_keras.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd_keras.callbacks.MetricAverageCallback(),
        rates,
        hvd_keras.callbacks.LearningRateScheduleCallback(0.1, 0.5, start_epoch=2),
    ]
    history = model.fit(*share(rank, size), epochs=4, batch_size=4, verbose=0, callbacks=used).history
    np.testing.assert_allclose(history["lr"], [0.075, 0.1, 0.1, 0.05])
    losses, weights = hvd.allgather_object(history["loss"]), hvd.allgather_object(model.get_weights()[0].tolist())
    assert losses[0] == losses[1]
    assert weights[0] == weights[1], "they began alike"

    file = Path(folder) / f"{rank}.keras"
    model.save(file)
    loaded = paceline.horovod.keras.load_model(file)
    assert type(loaded.optimizer).__name__ == "Adam"
    assert int(loaded.optimizer.iterations) == int(model.optimizer.iterations) == 16
    loaded.fit(*share(rank, size), epochs=1, batch_size=4, verbose=0)
    weights = hvd.allgather_object(loaded.get_weights()[0].tolist())
    assert weights[0] == weights[1], "the loaded optimizer combines gradients"
    plain = keras.models.load_model(file)
    assert not hasattr(plain.optimizer, "register_local_var"), "the file is one of Keras alone"


def test_callbacks_and_saved_models(ranks: Ranks, tmp_path: Path) -> None:
    ranks(functions, 2)
    ranks(partial_training, 2)
    ranks(session, 2)
    ranks(callbacks, 2, folder=str(tmp_path))


def normalisation(rank: int, size: int) -> None:
    """Ranks with batches of different sizes normalise them, and get gradients, as one process does with all rows."""
    rows = tf.constant(np.random.default_rng(RNG).normal(size=(12, 5)).astype("float32"))
    weights = tf.constant(np.random.default_rng(RNG + 1).normal(size=(12, 5)).astype("float32"))
    mine = slice(0, 4) if rank == 0 else slice(4, 12)

    def run(layer: Any, x: Any, weight: Any) -> tuple[Any, Any]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, training=True)
            loss = tf.reduce_sum(y * weight)
        return y, tape.gradient(loss, x)

    whole, sync = keras.layers.BatchNormalization(), hvd.SyncBatchNormalization()
    expected = run(whole, rows, weights)
    sync.build(rows.shape)
    for call in (run, tf.function(run)):
        for found, right in zip(call(sync, rows[mine], weights[mine]), expected, strict=True):
            np.testing.assert_allclose(found.numpy(), right.numpy()[mine], rtol=1e-4, atol=1e-4)
    run(whole, rows, weights)
    np.testing.assert_allclose(sync.moving_mean.numpy(), whole.moving_mean.numpy(), atol=1e-6)
    np.testing.assert_allclose(sync.moving_variance.numpy(), whole.moving_variance.numpy(), atol=1e-5)
    with pytest.raises(ValueError, match="does not support fused=True"):
        hvd.SyncBatchNormalization(fused=True)


def test_batch_normalisation_over_all_ranks(ranks: Ranks) -> None:
    ranks(normalisation, 2)


def elastic_state(rank: int, size: int) -> None:
    model = small_model()
    model.compile(loss="mse", optimizer=keras.optimizers.SGD(0.1, momentum=0.9))
    state = hvd_keras.elastic.KerasState(model, batch=rank, epoch=rank)
    model.layers[0].bias.assign([float(rank)] * 3)
    state.save()
    state.sync()
    assert (state.batch, state.epoch) == (0, 0)
    assert model.layers[0].bias.numpy().tolist() == [0.0] * 3
    model.layers[0].bias.assign([5.0] * 3)
    state.batch = 9
    state.restore()
    assert model.layers[0].bias.numpy().tolist() == [0.0] * 3
    assert state.batch == 0

    variable = tf.Variable([float(rank)])
    plain = hvd.elastic.TensorFlowState([variable], step=0)
    failed = []

    @hvd.elastic.run
    def train(state: Any) -> float:
        while state.step < 3:
            variable.assign_add(tf.function(lambda: hvd.allreduce(tf.constant([1.0]), op=hvd.Sum))())
            state.step += 1
            if state.step == 2 and not failed:
                failed.append(True)
                hvd.allreduce(tf.ones([rank + 1]), name="odd")  # fails on all ranks, and training goes back
            state.commit()
        return float(variable[0])

    assert train(plain) == 3 * size


def failed_synchronisation(rank: int, size: int) -> None:
    """The first broadcast of the state fails on all ranks, whose variables differ in shape; the next one does not."""
    variable, odd = tf.Variable([float(rank)]), tf.Variable([0.0] * (rank + 1))
    state = hvd.elastic.TensorFlowState([variable, odd])
    state.register_reset_callbacks([lambda: state.variables.pop()])
    assert hvd.elastic.run(lambda state: float(state.variables[0][0]))(state) == 0.0
    assert len(state.variables) == 1


def test_elastic_training_goes_back_to_its_last_commit(ranks: Ranks) -> None:
    ranks(elastic_state, 2)
    ranks(failed_synchronisation, 2)


def ordered_gradients(rank: int, size: int, policy: str) -> None:
    """The policy `graph` takes the order of the gradients from the function's graph."""
    coordinator = job.current().channel(0).coordinator
    assert coordinator.options.policy == policy
    variables = [tf.Variable(tf.zeros([100]), name=f"layer{number}") for number in range(8)]

    @tf.function
    def gradients() -> Any:
        with tf.GradientTape() as tape:
            x = tf.constant(1.0)
            for each in variables:
                x = x * tf.exp(each[0]) + tf.reduce_sum(each[1:]) * (rank + 1)
        return hvd.DistributedGradientTape(tape, op=hvd.Sum).gradient(x, variables)

    issues = []
    for _ in range(5):
        for found in gradients():
            np.testing.assert_array_equal(found.numpy(), [float(size)] + [3.0] * 99)
        issues.append(coordinator.counters().issues)
    if policy == "graph":
        assert coordinator.counters().deviations == 0
        # Of 400 B gradients two fit into a buffer of 800 B, and after the first step each buffer is a batch.
        assert [after - before for before, after in pairwise(issues[1:])] == [4] * 3


@pytest.mark.parametrize("policy", ["cycle", "graph"])
def test_a_policy_serves_a_function(ranks: Ranks, policy: str) -> None:
    environment = {"PACELINE_POLICY": policy, "PACELINE_FUSION_BYTES": "800"}
    ranks(ordered_gradients, 2, policy=policy, environment=environment, fresh=True)
