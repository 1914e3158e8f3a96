"""Horovod's `horovod.tensorflow.mpi_ops`, which scripts import too: ranks and sizes, collectives, process sets."""

from __future__ import annotations

from paceline.horovod import basics
from paceline.horovod.basics import *  # noqa: F403
from paceline.horovod.common.util import num_rank_is_power_2 as check_num_rank_power_of_2
from paceline.horovod.ops import Adasum, Average, Max, Min, Product, Sum
from paceline.horovod.ops import chosen as handle_average_backwards_compatibility
from paceline.horovod.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from paceline.horovod.tensorflow.allgather import allgather, grouped_allgather
from paceline.horovod.tensorflow.alltoall import alltoall
from paceline.horovod.tensorflow.broadcast import broadcast, broadcast_
from paceline.horovod.tensorflow.queries import (
    join,
    local_rank_op,
    local_size_op,
    process_set_included_op,
    rank_op,
    size_op,
)
from paceline.horovod.tensorflow.reducescatter import _grouped_reducescatter, _reducescatter
from paceline.horovod.tensorflow.reduction import _allreduce, _grouped_allreduce

__all__ = [
    "Adasum",
    "Average",
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "Sum",
    "_allreduce",
    "_grouped_allreduce",
    "_grouped_reducescatter",
    "_reducescatter",
    "add_process_set",
    "allgather",
    "alltoall",
    "broadcast",
    "broadcast_",
    "check_num_rank_power_of_2",
    "global_process_set",
    "grouped_allgather",
    "handle_average_backwards_compatibility",
    "join",
    "local_rank_op",
    "local_size_op",
    "process_set_included_op",
    "rank_op",
    "remove_process_set",
    "size_op",
]
__all__ += basics.__all__
