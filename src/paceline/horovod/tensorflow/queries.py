"""Ops whose answers are found when a graph runs, not when it is made; and join."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from paceline.horovod.tensorflow.kernels.library import LIBRARY

tf.no_gradient("PacelineQuery")
tf.no_gradient("PacelineJoin")


def join() -> Any:
    """Announce that this rank has no more data, and wait until all ranks have done so.

    Returns the last rank to join, as a scalar. Meanwhile the calls of other ranks continue: this rank contributes zeros
    to an allreduce and no rows to an allgather; a broadcast, alltoall or reducescatter fails.
    """
    return LIBRARY.ops.paceline_join()


def size_op(process_set_id: int = 0, name: str | None = None) -> Any:
    """Return the number of ranks in a process set, as a scalar."""
    return _ask("size", process_set_id, name)


def process_set_included_op(process_set_id: int = 0, name: str | None = None) -> Any:
    """Return, as a scalar, 1 if this process is in the process set, 0 if not, and a negative number for no such set."""
    return _ask("process_set_included", process_set_id, name)


def local_size_op(name: str | None = None) -> Any:
    """Return the number of ranks on this machine, as a scalar."""
    return _ask("local_size", 0, name)


def rank_op(name: str | None = None) -> Any:
    """Return this process's rank in the job, as a scalar."""
    return _ask("rank", 0, name)


def local_rank_op(name: str | None = None) -> Any:
    """Return this process's index among the ranks of its machine, as a scalar."""
    return _ask("local_rank", 0, name)


def _ask(question: str, process_set: int, name: str | None) -> Any:
    return LIBRARY.ops.paceline_query(question=question, process_set_id=process_set, name=name)
