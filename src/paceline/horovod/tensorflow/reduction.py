"""The call that allreduce and reducescatter make of the library of ops."""

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
    results: list[Any] = getattr(LIBRARY.ops, kernel)(
        tensors,
        grouped=grouped,
        process_set_id=number_of(process_set),
        reduce_op=op,
        prescale_factor=prescale,
        postscale_factor=postscale,
        **names,
        **encoded,
    )
    return results
