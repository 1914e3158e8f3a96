"""Clips gradients that lie in parts on all ranks by the norm that they have together."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor


def clip(
    gradients: Sequence[Tensor],
    group: dist.ProcessGroup | None,
    max_norm: float,
    norm_type: float,
    error_if_nonfinite: bool,
) -> Tensor:
    """Scale this rank's parts so that the norm of all ranks' parts, as of one vector, is at most `max_norm`.

    A collective of `group`. norm_type: the norm's order; infinity is the largest magnitude. Returns the norm before, in
    float64, the same on all ranks. Raises RuntimeError if that is not finite, if `error_if_nonfinite`.
    """
    largest = norm_type == float("inf")
    power = 1.0 if largest else norm_type
    total = torch.zeros(1, dtype=torch.float64)
    for gradient in gradients:
        norm = torch.linalg.vector_norm(gradient.detach(), norm_type, dtype=_wide(gradient)) ** power
        total = torch.maximum(total, norm) if largest else total + norm
    dist.all_reduce(total, dist.ReduceOp.MAX if largest else dist.ReduceOp.SUM, group)
    norm = total[0] ** (1 / power)
    if error_if_nonfinite and not norm.isfinite():
        raise RuntimeError(f"the gradients' norm of order {norm_type} is {norm.item()}, so it cannot be clipped")
    scale = float(torch.clamp(max_norm / (norm + 1e-6), max=1.0))
    for gradient in gradients:
        gradient.mul_(scale)
    return norm


def _wide(tensor: Tensor) -> torch.dtype:
    return torch.complex128 if tensor.is_complex() else torch.float64
