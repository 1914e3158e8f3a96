"""The engine's numbers of torch's dtypes and reductions, looked up once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.distributed import ReduceOp

from paceline import _engine
from paceline.torch.checks import Reduction

DTYPES: dict[torch.dtype, int] = {getattr(torch, name): code for name, code in _engine.DTYPES.items()}
BYTES: int = DTYPES[torch.uint8]

# hash() of a ReduceOp is its enumerator; no other way to it saves the conversion to a Python enum.
_ENUMERATORS = {hash(getattr(ReduceOp, name)): code for name, code in _engine.OPS.items()}
OPS: tuple[int, ...] = tuple(_ENUMERATORS[index] for index in range(len(_ENUMERATORS)))
PREMUL_SUM: int = hash(ReduceOp.PREMUL_SUM)

_LINEAR = {hash(op) for op in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PREMUL_SUM)}


def reduction(reduce_op: Reduction) -> tuple[int, float]:
    """The engine's number and the factor of a `ReduceOp`; the factor is 1 for all but PREMUL_SUM."""
    index = hash(reduce_op)
    if index != PREMUL_SUM:
        return OPS[index], 1.0
    state: tuple[int, float] = reduce_op.__getstate__()  # type: ignore[assignment]  # its stub lacks it
    return OPS[index], float(state[1])


def reducible(tensor: torch.Tensor, reduce_op: Reduction) -> torch.Tensor:
    """A plain `tensor` in a form that the engine can reduce: complex numbers become pairs of real ones.

    Raises TypeError for a dtype that the engine cannot reduce in this way.
    """
    if tensor.dtype in DTYPES:
        return tensor
    if not tensor.is_complex():
        raise TypeError(f"paceline reduces {_names(DTYPES)}, found {tensor.dtype}")
    if hash(reduce_op) not in _LINEAR:
        raise TypeError(f"paceline reduces {tensor.dtype} with SUM, AVG and PREMUL_SUM only")
    return torch.view_as_real(tensor)


def _names(dtypes: Sequence[torch.dtype] | dict[torch.dtype, int]) -> str:
    return ", ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
