"""Horovod's API for every Keras, the same in `paceline.horovod.keras` and `paceline.horovod.tensorflow.keras`."""

from __future__ import annotations

from paceline.horovod import basics
from paceline.horovod.basics import *  # noqa: F403
from paceline.horovod.ops import Adasum, Average, Max, Min, Product, Sum
from paceline.horovod.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from paceline.horovod.tensorflow.compression import Compression
from paceline.horovod.tensorflow.functions import allgather_object, broadcast_object, broadcast_variables
from paceline.horovod.tensorflow.keras_functions import (
    allgather,
    allreduce,
    broadcast,
    broadcast_global_variables,
    reducescatter,
)
from paceline.horovod.tensorflow.optimizer import keras_optimizer as DistributedOptimizer
from paceline.horovod.tensorflow.optimizer import partial_keras_optimizer as PartialDistributedOptimizer

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "DistributedOptimizer",
    "Max",
    "Min",
    "PartialDistributedOptimizer",
    "ProcessSet",
    "Product",
    "Sum",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "broadcast",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_variables",
    "global_process_set",
    "reducescatter",
    "remove_process_set",
]
__all__ += basics.__all__
