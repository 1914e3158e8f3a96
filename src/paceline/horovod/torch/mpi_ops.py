"""Horovod's `horovod.torch.mpi_ops`, which scripts import too: ranks and sizes, collectives, process sets."""

from __future__ import annotations

from paceline.horovod import basics
from paceline.horovod.basics import *  # noqa: F403
from paceline.horovod.exceptions import HorovodInternalError
from paceline.horovod.ops import Adasum, Average, Max, Min, Product, Sum
from paceline.horovod.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from paceline.horovod.torch.allgather import allgather, allgather_async, grouped_allgather, grouped_allgather_async
from paceline.horovod.torch.allreduce import (
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    sparse_allreduce_async,
)
from paceline.horovod.torch.alltoall import alltoall, alltoall_async
from paceline.horovod.torch.broadcast import broadcast, broadcast_, broadcast_async, broadcast_async_
from paceline.horovod.torch.reducescatter import (
    grouped_reducescatter,
    grouped_reducescatter_async,
    reducescatter,
    reducescatter_async,
)
from paceline.horovod.torch.waiting import barrier, join, poll, synchronize

__all__ = [
    "Adasum",
    "Average",
    "HorovodInternalError",
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "Sum",
    "add_process_set",
    "allgather",
    "allgather_async",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "global_process_set",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "join",
    "poll",
    "reducescatter",
    "reducescatter_async",
    "remove_process_set",
    "sparse_allreduce_async",
    "synchronize",
]
__all__ += basics.__all__
