"""The public calls of Horovod 0.28.1's TensorFlow and Keras API, with their arguments in Horovod's order."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from imported import other_packages

import paceline.horovod.keras
import paceline.horovod.tensorflow as hvd
import paceline.horovod.tensorflow.keras as hvd_keras

WIRE = "device_dense device_sparse compression"
GROUPS = "num_groups groups process_set"
TENSORFLOW = {
    "allreduce": f"tensor average {WIRE} op prescale_factor postscale_factor name process_set ignore_name_scope",
    "grouped_allreduce": f"tensors average {WIRE} op prescale_factor postscale_factor process_set "
    "ignore_name_scope name",
    "allgather": "tensor name ignore_name_scope process_set",
    "grouped_allgather": "tensors name ignore_name_scope process_set",
    "broadcast": "tensor root_rank name ignore_name_scope process_set",
    "broadcast_": "variables root_rank name process_set",
    "alltoall": "tensor splits name ignore_name_scope process_set",
    "reducescatter": "tensor device_dense compression op name process_set ignore_name_scope prescale_factor "
    "postscale_factor",
    "grouped_reducescatter": "tensors device_dense compression op process_set prescale_factor postscale_factor",
    "_reducescatter": "tensor name op ignore_name_scope process_set prescale_factor postscale_factor",
    "_grouped_reducescatter": "tensors name op ignore_name_scope process_set prescale_factor postscale_factor",
    "join": "",
    "gpu_available": "ext_base_name verbose",
    "size_op": "process_set_id name",
    "rank_op": "name",
    "vars_to_refs": "vars",
    "refs_to_vars": "refs",
    "_cache": "f",
    "_make_subgraph": "f",
    "BroadcastGlobalVariablesHook": "root_rank device",
    "broadcast_variables": "variables root_rank process_set inplace",
    "broadcast_object": "obj root_rank session name process_set",
    "allgather_object": "obj session name process_set",
    "DistributedGradientTape": f"gradtape {WIRE} sparse_as_dense op gradient_predivide_factor {GROUPS} "
    "scale_local_gradients",
    "PartialDistributedGradientTape": f"gradtape {WIRE} sparse_as_dense op gradient_predivide_factor {GROUPS} "
    "local_layers scale_local_gradients",
    "DistributedOptimizer": f"optimizer name use_locking {WIRE} sparse_as_dense backward_passes_per_step op "
    f"gradient_predivide_factor average_aggregated_gradients {GROUPS} scale_local_gradients",
}
KERAS = {
    "allreduce": "value name average prescale_factor postscale_factor op compression",
    "allgather": "value name",
    "broadcast": "value root_rank name",
    "reducescatter": "value name op",
    "load_model": "filepath custom_optimizers custom_objects compression legacy_opts",
    "DistributedOptimizer": f"optimizer name {WIRE} sparse_as_dense gradient_predivide_factor op "
    f"backward_passes_per_step average_aggregated_gradients {GROUPS} scale_local_gradients",
    "PartialDistributedOptimizer": f"optimizer name {WIRE} sparse_as_dense gradient_predivide_factor op "
    "backward_passes_per_step average_aggregated_gradients groups process_set local_layers scale_local_gradients",
}
CALLBACKS = {
    "BroadcastGlobalVariablesCallback": "root_rank device local_variables",
    "MetricAverageCallback": "device",
    "LearningRateScheduleCallback": "initial_lr multiplier start_epoch end_epoch staircase momentum_correction "
    "steps_per_epoch",
    "LearningRateWarmupCallback": "initial_lr warmup_epochs momentum_correction steps_per_epoch verbose",
    "BestModelCheckpoint": "monitor verbose save_weights_only mode save_freq",
}


@pytest.mark.parametrize(
    ("face", "calls"),
    [
        (hvd, TENSORFLOW),
        (hvd_keras, KERAS),
        (paceline.horovod.keras, KERAS),
        (hvd_keras.callbacks, CALLBACKS),
        (paceline.horovod.keras.callbacks, CALLBACKS),
    ],
)
def test_arguments_come_in_horovods_order(face: object, calls: dict[str, str]) -> None:
    for name, arguments in calls.items():
        assert " ".join(inspect.signature(getattr(face, name)).parameters) == arguments, name


@pytest.mark.parametrize("face", [hvd, hvd_keras, paceline.horovod.keras])
def test_every_name_that_is_exported_is_there(face: object) -> None:
    assert [name for name in face.__all__ if not hasattr(face, name)] == []  # type: ignore[attr-defined]


def test_the_faces_load_no_package_that_tensorflow_and_keras_have_not_loaded() -> None:
    faces = "import paceline.horovod.tensorflow.keras, paceline.horovod.keras"
    assert other_packages(faces, first="import tensorflow as tf; tf.keras.callbacks") == set()


@pytest.mark.parametrize("devices", [[], ["GPU:0"]])
def test_gpu_available_is_what_tensorflow_sees(devices: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: devices if kind == "GPU" else ["CPU:0"])
    assert hvd.gpu_available("tensorflow") is bool(devices)


def test_variables_become_references_and_variables_again() -> None:
    variables = [tf.Variable(1.0), [tf.Variable(2.0), tf.Variable(3.0)]]
    references = hvd.vars_to_refs(variables)
    assert references == hvd.vars_to_refs(variables)
    assert hash(references) == hash(hvd.vars_to_refs(variables))
    (first, (second, third)) = hvd.refs_to_vars(references)
    assert [first, second, third] == [variables[0], *variables[1]]


def test_what_is_cached_is_made_once_for_eager_calls_and_once_for_graphs() -> None:
    calls: list[int] = []
    cached = hvd._cache(lambda number: calls.append(number) or number)
    assert [cached(3), cached(3), cached(4)] == [3, 3, 4]
    with tf.Graph().as_default():
        assert cached(3) == 3
    assert calls == [3, 4, 3]
    assert isinstance(hvd._make_subgraph(abs), type(tf.function(abs)))


@pytest.mark.parametrize("weights_only", [False, True])
@pytest.mark.parametrize("callbacks", [hvd_keras.callbacks, paceline.horovod.keras.callbacks])
def test_the_best_model_is_kept_in_a_file_that_is_named_later(
    callbacks: Any, weights_only: bool, tmp_path: Path
) -> None:
    model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1, use_bias=False)])
    model.compile(loss="mse", optimizer=keras.optimizers.SGD(1.5))
    keeper = callbacks.BestModelCheckpoint("loss", save_weights_only=weights_only)
    inputs, targets = tf.constant([[1.0]]), tf.constant([[4.0]])
    with pytest.raises(ValueError, match="has no file: set its `filepath`"):
        model.fit(inputs, targets, callbacks=[keeper], verbose=0)
    keeper.filepath = str(tmp_path / ("best.weights.h5" if weights_only else "best.keras"))
    model.set_weights([np.array([[3.0]], "float32")])
    model.fit(inputs, targets, epochs=2, callbacks=[keeper], verbose=0)  # each step doubles the error: 1, 2, 4
    assert (keeper.best, model.get_weights()) == (1.0, [[[0.0]]])
    if weights_only:
        model.load_weights(keeper.filepath)
    else:
        model = keras.models.load_model(keeper.filepath)
    assert model.get_weights() == [[[6.0]]], "the file has the model of the first epoch, whose loss was less"
