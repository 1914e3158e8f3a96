"""DistributedOptimizer wraps an optimizer so that its gradients are combined over all ranks."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import torch
from torch.nn import Parameter

from paceline.horovod import job, ops
from paceline.horovod.process_sets import ProcessSet, global_process_set
from paceline.horovod.torch.adasum_optimizer import AdasumOptimizer
from paceline.horovod.torch.compression import Compression, Compressor
from paceline.horovod.torch.gradient_groups import Groups, check_groups
from paceline.horovod.torch.gradient_optimizer import GradientOptimizer
from paceline.horovod.torch.naming import parameter_names
from paceline.horovod.torch.wrapping import wrapped


def DistributedOptimizer(
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, Parameter]] | None = None,
    compression: type[Compressor] = Compression.none,
    backward_passes_per_step: int = 1,
    op: int = ops.Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Groups = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
) -> torch.optim.Optimizer:
    """Return an optimizer of the same class whose `step` first combines the gradients of all ranks.

    Each gradient is submitted as soon as the backward pass has computed it, while others are still being computed. The
    optimizer has `synchronize()`, which waits for the gradients, and `skip_synchronize()`, a context in which `step`
    does not wait for them again.

    named_parameters: the names by which gradients are matched, usually `model.named_parameters()`; by default their
    positions in the optimizer. backward_passes_per_step: the number of backward passes over which gradients are
    accumulated before they are combined. op: the reduction; with Adasum, whole steps are combined instead of gradients.
    gradient_predivide_factor: the part of the average's division that is done before the sum; for Average only. groups:
    a number of groups, or lists of parameters, whose gradients are combined together; `num_groups` is its older name.
    sparse_as_dense: whether sparse gradients are combined as dense ones. compression: with `int8`, `int4` and
    `three_in_one` each rank keeps what encoding has lost of its gradients, as `residuals` of the optimizer, and adds it
    in the next step; save `residuals.state_dict()` on every rank.

    Raises ValueError for invalid arguments.
    """
    if gradient_predivide_factor != 1.0 and op != ops.Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    if num_groups:
        warnings.warn("Parameter `num_groups` has been replaced by `groups`", DeprecationWarning, stacklevel=2)
        groups = num_groups if groups is None else groups
    if backward_passes_per_step <= 0:
        raise ValueError("backward_passes_per_step must be > 0")
    check_groups(groups)
    names = parameter_names(optimizer, named_parameters)
    if op == ops.Adasum and (job.current().size > 1 or job.worker() is not None):
        made: Any = wrapped(optimizer, AdasumOptimizer)
        made.attach(names, compression, backward_passes_per_step, process_set)
        return made  # type: ignore[no-any-return]
    made = wrapped(optimizer, GradientOptimizer)
    made.attach(
        names,
        compression,
        backward_passes_per_step,
        op,
        gradient_predivide_factor,
        groups,
        sparse_as_dense,
        process_set,
    )
    return made  # type: ignore[no-any-return]
