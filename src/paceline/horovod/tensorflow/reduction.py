"""The calls that allreduce and reducescatter make of the library of ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paceline.horovod.process_sets import ProcessSet
from paceline.horovod.tensorflow.kernels.library import LIBRARY
from paceline.horovod.tensorflow.process_set import number_of


def reduction(
    kernel: str,
    tensors: Sequence[Any],
    op: int,
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
    grouped: bool,
    names: dict[str, Any],
    **encoded: Any,
) -> list[Any]:
    """Hand dense tensors to an op that combines them over the ranks, and return its results.

    kernel: "paceline_allreduce" or "paceline_reducescatter". op: what combines them, such as Sum. prescale, postscale:
    factors before and after. names: the attributes that `naming.attributes` makes. encoded: the op's `codec`, and
    `error_feedback` if it is an allreduce.
    """
    options = _options(op, prescale, postscale, process_set, grouped, names | encoded)
    results: list[Any] = getattr(LIBRARY.ops, kernel)(tensors, **options)
    return results


def started_allreduce(
    tensors: Sequence[Any],
    op: int,
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
    grouped: bool,
    names: dict[str, Any],
    **encoded: Any,
) -> list[Any]:
    """Combine dense tensors in a graph by two ops, one that hands them in and one that waits, and return the results.

    The arguments are those of `reduction`. `hand_in_order` lets the rest of the graph wait for the first op.
    """
    options = _options(op, prescale, postscale, process_set, grouped, names | encoded)
    started, number = LIBRARY.ops.paceline_allreduce_start(tensors, **options)
    results: list[Any] = LIBRARY.ops.paceline_allreduce_done(started, number, name=f"{names['name']}_done")
    return results


def _options(
    op: int, prescale: float, postscale: float, process_set: ProcessSet, grouped: bool, others: dict[str, Any]
) -> dict[str, Any]:
    return {
        "grouped": grouped,
        "process_set_id": number_of(process_set),
        "reduce_op": op,
        "prescale_factor": prescale,
        "postscale_factor": postscale,
        **others,
    }
