"""reducescatter combines tensors over the ranks, and gives each rank some rows of the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from paceline.horovod import ops
from paceline.horovod.compression import codec_of
from paceline.horovod.process_sets import ProcessSet, global_process_set
from paceline.horovod.tensorflow.allgather import allgather
from paceline.horovod.tensorflow.compression import Compression, Compressor
from paceline.horovod.tensorflow.naming import attributes
from paceline.horovod.tensorflow.process_set import set_of
from paceline.horovod.tensorflow.reduction import Reduction


def reducescatter(
    tensor: Any,
    device_dense: str = "",
    compression: type[Compressor] = Compression.none,
    op: int = ops.Average,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Any:
    """Combine a tensor over the ranks and return this rank's rows; the first ranks get one row more if need be.

    All ranks pass the same shape, dtype and operation. `allreduce` explains the arguments and how calls are matched.
    """
    compressed, context = compression.compress(tf.convert_to_tensor(tensor))
    names = attributes("HorovodReducescatter", name, [compressed], ignore_name_scope)
    how = Reduction(op, prescale_factor, postscale_factor, process_set, codec_of(compression))
    (part,) = how.reducescatter([compressed], False, names)
    return compression.decompress(part, context)


def grouped_reducescatter(
    tensors: Sequence[Any],
    device_dense: str = "",
    compression: type[Compressor] = Compression.none,
    op: int = ops.Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Sequence[Any]:
    """Combine several tensors and return this rank's rows of each; see `reducescatter`."""
    if not tensors:
        return tensors
    compressed, contexts = zip(*(compression.compress(tf.convert_to_tensor(one)) for one in tensors), strict=True)
    names = attributes("HorovodGroupedReducescatter", None, list(compressed))
    how = Reduction(op, prescale_factor, postscale_factor, process_set, codec_of(compression))
    parts = how.reducescatter(compressed, True, names)
    return [compression.decompress(part, context) for part, context in zip(parts, contexts, strict=True)]


def _reducescatter(
    tensor: Any,
    name: str | None = None,
    op: int = ops.Sum,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Any:
    """Combine a tensor over the ranks and return this rank's rows; see `reducescatter`."""
    names = attributes("HorovodReducescatter", name, [tensor], ignore_name_scope)
    return Reduction(op, prescale_factor, postscale_factor, process_set).reducescatter([tensor], False, names)[0]


def _grouped_reducescatter(
    tensors: Sequence[Any],
    name: str | None = None,
    op: int = ops.Sum,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[Any]:
    """Combine several tensors and return this rank's rows of each; see `reducescatter`."""
    names = attributes("HorovodGroupedReducescatter", name, list(tensors), ignore_name_scope)
    return Reduction(op, prescale_factor, postscale_factor, process_set).reducescatter(tensors, True, names)


@tf.RegisterGradient("PacelineReducescatter")
def _gradient(op: Any, *gradients: Any) -> Any:
    process_set = set_of(op.get_attr("process_set_id"))
    factor = op.get_attr("prescale_factor") * op.get_attr("postscale_factor")
    if op.get_attr("reduce_op") == ops.Sum:
        factor *= process_set.size() or 1
    short = op.get_attr("ignore_name_scope")
    return [allgather(gradient * factor, ignore_name_scope=short, process_set=process_set) for gradient in gradients]
