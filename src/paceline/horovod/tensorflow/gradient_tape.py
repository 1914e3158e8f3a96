"""DistributedGradientTape combines the gradients of a tf.GradientTape over all ranks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from paceline.horovod import ops
from paceline.horovod.process_sets import ProcessSet, global_process_set
from paceline.horovod.tensorflow.compression import Compression, Compressor
from paceline.horovod.tensorflow.gradients import Gradients, Groups, chosen_groups
from paceline.horovod.tensorflow.variables import key


def DistributedGradientTape(
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    op: int = ops.Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Groups = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """Return a tape like `gradtape`, whose `gradient` combines the gradients of all ranks.

    In a `tf.function` each gradient is submitted as soon as it is computed, while others are still being computed.

    compression: with `int8`, `int4` and `three_in_one` each rank keeps what encoding has lost of its gradients, by the
    names and shapes of their variables, and adds it the next time; models that train in turn need different names.

    sparse_as_dense: whether tf.IndexedSlices are combined as dense gradients. op: the reduction.
    gradient_predivide_factor: the part of the average's division that is done before the sum; for Average only. groups:
    a number of groups, or lists of variables, whose gradients are combined together; `num_groups` is its older name.
    process_set: the ranks that combine their gradients; others keep their own. scale_local_gradients: whether gradients
    of sources that `register_local_source` named are divided by the number of ranks, as an average is. device_dense,
    device_sparse: accepted for Horovod's sake.

    Raises ValueError for arguments that make no sense.
    """
    gradients = Gradients(
        "DistributedGradientTape",
        compression,
        sparse_as_dense,
        op,
        gradient_predivide_factor,
        chosen_groups(groups, num_groups),
        process_set,
        scale_local_gradients,
    )
    kind = type(gradtape)
    made: Any = object.__new__(type(kind.__name__, (_DistributedTape, kind), {}))
    made.__dict__.update(vars(gradtape), _paceline=gradients)
    return made


def PartialDistributedGradientTape(
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    op: int = ops.Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Groups = None,
    process_set: ProcessSet = global_process_set,
    local_layers: Any = None,
    scale_local_gradients: bool = True,
) -> Any:
    """Return a DistributedGradientTape that leaves the gradients of `local_layers`, one Keras layer or several, out."""
    tape = DistributedGradientTape(
        gradtape,
        device_dense,
        device_sparse,
        compression,
        sparse_as_dense,
        op,
        gradient_predivide_factor,
        num_groups,
        groups,
        process_set,
        scale_local_gradients,
    )
    for variable in local_variables(local_layers):
        tape.register_local_source(variable)
    return tape


def local_variables(layers: Any) -> Iterable[Any]:
    """Return the trainable variables of one Keras layer or of several. Raises ValueError for anything else."""
    listed = [] if layers is None else list(layers) if isinstance(layers, (list, tuple, set)) else [layers]
    if not all(hasattr(layer, "trainable_weights") for layer in listed):
        raise ValueError("All local layers must be of tf.keras.layers.Layer type.")
    return [variable for layer in listed for variable in layer.trainable_weights]


class _DistributedTape:
    """A base class that is put before the tape's own class."""

    _paceline: Gradients

    def register_local_source(self, source: Any) -> None:
        """Leave the gradient of this variable out; it stays this rank's own."""
        self._paceline.register_local(source)

    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        use_generic_names: bool = False,
        unconnected_gradients: Any = tf.UnconnectedGradients.NONE,
    ) -> Any:
        """Return the combined gradients of `target` with respect to `sources`, in the structure of `sources`.

        use_generic_names: match gradients by their numbers, not by the names of their sources. Collective.
        """
        own = super().gradient(target, sources, output_gradients, unconnected_gradients)  # type: ignore[misc]
        flat = tf.nest.flatten(sources)
        combined = self._paceline.combine(tf.nest.flatten(own), flat, use_generic_names)
        return tf.nest.pack_sequence_as(sources, combined)

    def get_local_and_global_gradients(
        self, target: Any, sources: Sequence[Any], output_gradients: Any = None, use_generic_names: bool = False
    ) -> tuple[list[tuple[Any, Any]], list[tuple[Any, Any]]]:
        """Return pairs of a source and its gradient: those of local sources, and those that were combined."""
        gradients = self.gradient(target, sources, output_gradients, use_generic_names=use_generic_names)
        pairs = list(zip(sources, gradients, strict=True))
        own = [pair for pair in pairs if key(pair[0]) in self._paceline.local]
        return own, [pair for pair in pairs if key(pair[0]) not in self._paceline.local]
