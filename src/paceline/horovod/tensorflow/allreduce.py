"""allreduce combines tensors over all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from paceline.horovod import job, ops
from paceline.horovod.compression import codec_of
from paceline.horovod.process_sets import ProcessSet, global_process_set
from paceline.horovod.tensorflow.allgather import allgather, grouped_allgather
from paceline.horovod.tensorflow.compression import Compression, Compressor
from paceline.horovod.tensorflow.naming import attributes
from paceline.horovod.tensorflow.process_set import number_of, set_of
from paceline.horovod.tensorflow.queries import size_op
from paceline.horovod.tensorflow.reduction import Reduction


def allreduce(
    tensor: Any,
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
) -> Any:
    """Combine a tensor, a variable or tf.IndexedSlices over the ranks into a new tensor.

    Calls of different ranks are matched by name, in whatever order each rank makes them: in a `tf.function` the name of
    the op, elsewhere `name`; calls without one are matched in their order. All ranks pass the same shape, dtype and
    operation. Of tf.IndexedSlices, which may differ, all rows are gathered. The gradient is combined in the same way.

    compression: what `int8`, `int4` and `three_in_one` lose is lost here; DistributedGradientTape and
    DistributedOptimizer add it the next time. op: Average (default), Sum, Adasum, Min, Max or Product; `average` is its
    older form. prescale_factor, postscale_factor: factors by which every rank's tensor is multiplied before and after.
    ignore_name_scope: leave out the name scopes around the op. device_dense, device_sparse: accepted for Horovod's
    sake; the tensor is combined in host memory.

    Raises ValueError and NotImplementedError for arguments that make no sense. If the ranks' shapes, dtypes or
    operations differ, the op raises tf.errors.FailedPreconditionError, and if a rank is lost tf.errors.UnknownError.
    """
    how = Reduction(ops.chosen(op, average), prescale_factor, postscale_factor, process_set, codec_of(compression))
    if isinstance(tensor, tf.IndexedSlices):
        _check_sparse(how)
        values = allgather(tensor.values, process_set=process_set, ignore_name_scope=ignore_name_scope)
        indices = allgather(tensor.indices, process_set=process_set, ignore_name_scope=ignore_name_scope)
        return _slices(values, indices, tensor, how)
    compressed, context = compression.compress(tf.convert_to_tensor(tensor))
    names = attributes("HorovodAllreduce", name, [compressed], ignore_name_scope)
    (result,) = how.allreduce([compressed], False, names)
    return compression.decompress(result, context)


def grouped_allreduce(
    tensors: Sequence[Any],
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    name: str | None = None,
) -> Sequence[Any]:
    """Combine several tensors over the ranks, together, into new ones; see `allreduce`."""
    if not tensors:
        return tensors
    how = Reduction(ops.chosen(op, average), prescale_factor, postscale_factor, process_set, codec_of(compression))
    return allreduce_together(tensors, name, how, compression, ignore_name_scope)


def allreduce_together(
    tensors: Sequence[Any],
    name: str | None,
    how: Reduction,
    compression: type[Compressor],
    ignore_name_scope: bool,
) -> list[Any]:
    """Combine several tensors over the ranks, together, into new ones.

    name: with each tensor's number, the name by which what a codec loses of it is kept. compression: what encodes them
    before they are submitted.
    """
    results = list(tensors)
    sparse = [index for index, tensor in enumerate(tensors) if isinstance(tensor, tf.IndexedSlices)]
    if sparse:
        _check_sparse(how)
        all_values, all_indices = (
            grouped_allgather(parts, process_set=how.process_set, ignore_name_scope=ignore_name_scope)
            for parts in ([tensors[i].values for i in sparse], [tensors[i].indices for i in sparse])
        )
        for index, values, indices in zip(sparse, all_values, all_indices, strict=True):
            results[index] = _slices(values, indices, tensors[index], how)
    dense = [index for index in range(len(tensors)) if index not in sparse]
    if dense:
        compressed, contexts = zip(
            *(compression.compress(tf.convert_to_tensor(tensors[index])) for index in dense), strict=True
        )
        names = attributes("HorovodGroupedAllreduce", name, list(compressed), ignore_name_scope)
        combined = how.allreduce(compressed, True, names)
        for index, tensor, context in zip(dense, combined, contexts, strict=True):
            results[index] = compression.decompress(tensor, context)
    return results


def allreduce_each(tensors: Sequence[Any], names: Sequence[str], how: Reduction, ignore_name_scope: bool) -> list[Any]:
    """Combine dense tensors over the ranks, each when all ranks have it. Outside of a graph this is a single op.

    names: a name for each tensor.
    """
    if tf.executing_eagerly():
        own = {**attributes("", None, []), "names": list(names)}
        return how.allreduce(tensors, False, own)
    results = []
    for tensor, name in zip(tensors, names, strict=True):
        own = attributes("", name, [], ignore_name_scope)
        # The name of the op in the graph that is traced: functions that inline this one would give it another.
        unique = tf.compat.v1.get_default_graph().unique_name(own["name"], mark_as_used=False)
        own["names"] = [name if ignore_name_scope else unique]
        results += how.allreduce([tensor], False, own)
    return results


@tf.RegisterGradient("PacelineAllreduce")
def _gradient(op: Any, *gradients: Any) -> Any:
    how = Reduction(
        op.get_attr("reduce_op"),
        op.get_attr("prescale_factor"),
        op.get_attr("postscale_factor"),
        set_of(op.get_attr("process_set_id")),
        op.get_attr("codec").decode(),
    )
    grouped = op.get_attr("grouped")
    kind = "HorovodGroupedAllreduce" if grouped else "HorovodAllreduce"
    own = attributes(kind, None, list(gradients), op.get_attr("ignore_name_scope"))
    if tf.executing_eagerly():
        own["names"] = [f"{name}.gradient" for name in op.get_attr("names")]
    return how.allreduce(gradients, grouped, own)


@tf.RegisterGradient("PacelineAllreduceStart")
def _gradient_of_start(op: Any, *gradients: Any) -> Any:
    return _gradient(op, *gradients[:-1])  # the last is that of `number`


@tf.RegisterGradient("PacelineAllreduceDone")
def _gradient_of_done(op: Any, *gradients: Any) -> Any:
    return [*gradients, None]


def _check_sparse(how: Reduction) -> None:
    if how.op == ops.Adasum:
        raise NotImplementedError(
            "The Adasum reduction does not currently support sparse tensors. As a workaround please pass "
            "sparse_as_dense=True to DistributedOptimizer"
        )
    if how.op not in (ops.Sum, ops.Average):
        raise NotImplementedError("Only Sum and Average ops are supported with tf.IndexedSlices")
    if how.prescale != 1.0 or how.postscale != 1.0:
        raise NotImplementedError("Pre/postscale_factor are not supported with tf.IndexedSlices")


def _slices(values: Any, indices: Any, like: Any, how: Reduction) -> Any:
    if how.op == ops.Average:
        values /= tf.cast(ranks_of(how.process_set), values.dtype)
    return tf.IndexedSlices(values, indices, dense_shape=like.dense_shape)


def ranks_of(process_set: ProcessSet) -> Any:
    """Return the number of ranks; in an elastic job, whose graphs outlive its rounds, as a tensor."""
    return process_set.size() if job.worker() is None else size_op(number_of(process_set))
