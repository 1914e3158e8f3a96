"""The gradient that a parameter has on this rank."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Parameter


def gradient(parameter: Parameter) -> Tensor:
    """Return the gradient of a parameter that has one."""
    assert parameter.grad is not None
    return parameter.grad


def zeros(parameter: Parameter, sparse: int | None) -> Tensor:
    """Return a gradient of zeros for a parameter. sparse: the sparse dimensions of its other gradients; None: dense."""
    if sparse is None:
        return torch.zeros_like(parameter, memory_format=torch.contiguous_format)
    indices = torch.empty((sparse, 0), dtype=torch.int64, device=parameter.device)
    values = torch.empty((0, *parameter.shape[sparse:]), dtype=parameter.dtype, device=parameter.device)
    return torch.sparse_coo_tensor(indices, values, parameter.shape, check_invariants=False)


def take(parameter: Parameter, result: Tensor) -> None:
    """Store `result` as the parameter's gradient."""
    own = gradient(parameter)
    if result is own:
        return
    with torch.no_grad():
        if own.is_sparse or result.is_sparse:
            parameter.grad = result if result.is_sparse else result.to_sparse(own.sparse_dim())
        else:
            own.copy_(result)
