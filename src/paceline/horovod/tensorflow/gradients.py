"""Combines a model's gradients over the ranks, as DistributedGradientTape and DistributedOptimizer do."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from paceline.horovod import job, ops
from paceline.horovod.common.util import split_list
from paceline.horovod.compression import codec_of
from paceline.horovod.process_sets import ProcessSet, global_process_set
from paceline.horovod.tensorflow.allreduce import allreduce, allreduce_each, allreduce_together, ranks_of
from paceline.horovod.tensorflow.compression import Compression, Compressor
from paceline.horovod.tensorflow.known_order import announce_order
from paceline.horovod.tensorflow.reduction import Reduction
from paceline.horovod.tensorflow.submission_order import operations, submit_in_order
from paceline.horovod.tensorflow.variables import key, names_of

Groups = int | Sequence[Sequence[Any]] | None
"""A number of groups of consecutive gradients, or lists of variables; None combines each gradient alone."""


@dataclass
class Gradients:
    """The rules by which gradients are combined. local: the keys of variables whose gradients stay this rank's own.

    See DistributedGradientTape for the other fields. Raises ValueError for arguments that make no sense.
    """

    scope: str
    compression: type[Compressor] = Compression.none
    sparse_as_dense: bool = False
    op: int = ops.Average
    predivide: float = 1.0
    groups: Groups = None
    process_set: ProcessSet = global_process_set
    scale_local: bool = True
    local: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.predivide != 1.0 and self.op != ops.Average:
            raise ValueError("gradient_predivide_factor not supported with op != Average")
        if self.groups is not None and not (isinstance(self.groups, list) or (_is_count(self.groups))):
            raise ValueError("groups should be a non-negative integer or a list of list of tf.Variable.")

    def register_local(self, variable: Any) -> None:
        """Leave the gradient of this variable out; it stays this rank's own."""
        self.local.add(key(variable))

    def combine(self, gradients: Sequence[Any], variables: Sequence[Any], generic: bool = False) -> list[Any]:
        """Return the gradients of all ranks combined, in the same order. A gradient that is None stays None.

        generic: call the gradients by their numbers, not by their variables' names.
        """
        results = list(gradients)
        # A rank that joins an elastic job later has made other objects before, after which Keras names its variables.
        numbered = generic or job.worker() is not None
        names = [f"grad_{i}" for i in range(len(results))] if numbered else names_of(variables)
        own = {i for i, variable in enumerate(variables) if key(variable) in self.local}
        for i in own:
            results[i] = self._scaled(results[i])
        if not self._alone():
            wanted = [i for i, gradient in enumerate(gradients) if gradient is not None and i not in own]
            with tf.name_scope(f"{self.scope}_Allreduce"):
                self._combine(results, wanted, names, variables, numbered)
        return results

    def _combine(
        self, results: list[Any], wanted: list[int], names: list[str], variables: Sequence[Any], numbered: bool
    ) -> None:
        if self.sparse_as_dense:
            for i in wanted:
                results[i] = tf.convert_to_tensor(results[i])
        before = len(operations())
        factors = (1.0 / self.predivide, self.predivide) if self.op == ops.Average else (1.0, 1.0)
        codec = codec_of(self.compression)
        how = Reduction(self.op, *factors, self.process_set, codec, error_feedback=True)
        grouped = [group for group in self._grouped(wanted, variables) if len(group) > 1]
        for group in grouped:
            tensors = [results[i] for i in group]
            combined = allreduce_together(tensors, names[group[0]], how, self.compression, ignore_name_scope=numbered)
            for i, result in zip(group, combined, strict=True):
                results[i] = result
        alone = sorted(set(wanted).difference(*grouped))
        for i in alone:
            if isinstance(results[i], tf.IndexedSlices):
                results[i] = allreduce(results[i], op=self.op, process_set=self.process_set)
        dense = [i for i in alone if not isinstance(results[i], tf.IndexedSlices)]
        if not dense:
            submit_in_order(before)
            return
        compressed, contexts = zip(*(self.compression.compress(results[i]) for i in dense), strict=True)
        combined = allreduce_each(compressed, [names[i] for i in dense], how, ignore_name_scope=numbered)
        submit_in_order(before)
        if not tf.executing_eagerly():
            announce_order(compressed, combined, self.process_set)
        for i, result, context in zip(dense, combined, contexts, strict=True):
            results[i] = self.compression.decompress(result, context)

    def _grouped(self, wanted: list[int], variables: Sequence[Any]) -> Iterator[Sequence[int]]:
        if isinstance(self.groups, int):
            yield from split_list(wanted, self.groups)
        elif self.groups is not None:
            place = {key(variables[i]): i for i in wanted}
            for group in self.groups:
                yield [place.pop(key(variable)) for variable in group if key(variable) in place]

    def _scaled(self, gradient: Any) -> Any:
        """Return the gradient of a local variable, as much smaller as the others' average is."""
        if gradient is None or not self.scale_local:
            return gradient
        ranks = ranks_of(self.process_set)
        if isinstance(gradient, tf.IndexedSlices):
            values = gradient.values / tf.cast(ranks, gradient.dtype)
            return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
        return gradient / tf.cast(ranks, gradient.dtype)

    def _alone(self) -> bool:
        """Return whether there is nobody to combine gradients with; never in an elastic job, which may grow."""
        if not self.process_set.included():
            return True
        return self.process_set.size() == 1 and job.worker() is None


def chosen_groups(groups: Groups, num_groups: int) -> Groups:
    """Return the groups that are asked for; `num_groups` is the older name of a number of them."""
    if num_groups:
        warnings.warn("Parameter `num_groups` has been replaced by `groups`", DeprecationWarning, stacklevel=3)
    return num_groups if num_groups and groups is None else groups


def _is_count(groups: object) -> bool:
    return isinstance(groups, int) and groups > 0
