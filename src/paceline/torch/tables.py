"""The engine's numbers of torch's dtypes and reductions, looked up once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.distributed import ReduceOp

from paceline import _engine
from paceline.torch.checks import Reduction

DTYPES: dict[torch.dtype, int] = {getattr(torch, name): code for name, code in _engine.DTYPES.items()}
"""The dtypes that the engine combines."""
CODES: dict[torch.dtype, int] = DTYPES | {
    getattr(torch, name): code for name, code in _engine.MOVED_DTYPES.items() if hasattr(torch, name)
}
"""All dtypes that the engine tells apart; elements of any other move as BYTES."""
BYTES: int = _engine.MOVED_DTYPES["bytes"]
_PARTS = {DTYPES[torch.float16], DTYPES[torch.float32], DTYPES[torch.float64]}

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


def code_of(tensor: torch.Tensor) -> int:
    """The engine's number of the dtype as which elements move, which is BYTES for a dtype that it does not know.

    It is marked for floats in pairs: torch's own functions submit complex tensors as views of their parts.
    """
    code = CODES.get(tensor.dtype, BYTES)
    if code not in _PARTS or not tensor.dim() or tensor.shape[-1] != 2:
        return code
    base = tensor._base
    sure = base is not None and base.is_complex() and tensor.stride(-1) == 1
    return code | (_engine.PARTS if sure else _engine.PERHAPS_PARTS)


def reducible(tensor: torch.Tensor, reduce_op: Reduction) -> int:
    """Return the numbers of `code_of`. Raises TypeError if the engine cannot reduce the dtype in this way."""
    dtype = tensor.dtype
    if dtype in DTYPES:
        return code_of(tensor)
    if not dtype.is_complex:
        raise TypeError(f"paceline reduces {_names(DTYPES)}, found {dtype}")
    if hash(reduce_op) not in _LINEAR:
        raise TypeError(f"paceline reduces {dtype} with SUM, AVG and PREMUL_SUM only")
    return CODES[dtype]


def _names(dtypes: Sequence[torch.dtype] | dict[torch.dtype, int]) -> str:
    return ", ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
