"""The calls that allreduce and reducescatter make of the library of ops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from paceline.horovod import ops
from paceline.horovod.process_sets import ProcessSet, global_process_set
from paceline.horovod.tensorflow.kernels.library import LIBRARY
from paceline.horovod.tensorflow.naming import attributes
from paceline.horovod.tensorflow.process_set import number_of


@dataclass(frozen=True)
class Reduction:
    """The rules by which dense tensors are combined over the ranks of a process set.

    op: what combines them, such as Sum. prescale, postscale: factors before and after. codec: how float32 is encoded
    between machines; None: not at all. error_feedback: whether what that loses of a tensor is kept, by its name, for
    the next time; of an allreduce only.
    """

    op: int
    prescale: float
    postscale: float
    process_set: ProcessSet
    codec: str | None = None
    error_feedback: bool = False

    def allreduce(self, tensors: Sequence[Any], grouped: bool, names: dict[str, Any]) -> list[Any]:
        """Combine tensors; each rank gets them all.

        grouped: whether they are combined together. names: the attributes that `naming.attributes` makes.

        In a graph two ops do this, one that submits the tensors and one that waits for the results; `submission_order`
        lets the rest of the graph wait for the first.
        """
        options = {**self._options(grouped), **names, "error_feedback": self.error_feedback}
        results: list[Any]
        if tf.executing_eagerly():
            results = LIBRARY.ops.paceline_allreduce(tensors, **options)
        else:
            started, number = LIBRARY.ops.paceline_allreduce_start(tensors, **options)
            results = LIBRARY.ops.paceline_allreduce_done(started, number, name=f"{names['name']}_done")
        return results

    def reducescatter(self, tensors: Sequence[Any], grouped: bool, names: dict[str, Any]) -> list[Any]:
        """Combine tensors; each rank gets its own rows. The arguments are those of `allreduce`."""
        results: list[Any] = LIBRARY.ops.paceline_reducescatter(tensors, **self._options(grouped), **names)
        return results

    def _options(self, grouped: bool) -> dict[str, Any]:
        return {
            "grouped": grouped,
            "process_set_id": number_of(self.process_set),
            "reduce_op": self.op,
            "prescale_factor": self.prescale,
            "postscale_factor": self.postscale,
            "codec": self.codec or "",
        }


def _allreduce(
    tensor: Any,
    name: str | None = None,
    op: int = ops.Sum,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Combine a dense tensor over the ranks; see `allreduce`."""
    names = attributes("HorovodAllreduce", name, [tensor], ignore_name_scope)
    return Reduction(op, prescale_factor, postscale_factor, process_set).allreduce([tensor], False, names)[0]


def _grouped_allreduce(
    tensors: Sequence[Any],
    name: str | None = None,
    op: int = ops.Sum,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """Combine dense tensors over the ranks, together; see `allreduce`."""
    names = attributes("HorovodGroupedAllreduce", name, list(tensors), ignore_name_scope)
    return Reduction(op, prescale_factor, postscale_factor, process_set).allreduce(tensors, True, names)
