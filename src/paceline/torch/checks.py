"""The forms that a call may take: torch's own functions pass options objects, direct calls also plain values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Protocol, TypeAlias, cast

import torch
from torch import Tensor
from torch.distributed import ReduceOp

Tensors: TypeAlias = Tensor | Sequence[Tensor]
"""One tensor, as `[tensor]` or `tensor`."""
Rows: TypeAlias = Sequence[Tensor] | Sequence[Sequence[Tensor]]
"""One list of tensors, as `[list]` or `list`."""
Reduction: TypeAlias = "ReduceOp | ReduceOp.RedOpType"
"""A reduction of torch: with a factor, or one of its names."""

_ZERO = timedelta(0)


class Options(Protocol):
    """The fields of torch's options objects that blocking calls read; each object has those of its collective."""

    @property
    def reduceOp(self) -> Reduction:
        """The reduction."""
        ...

    @property
    def timeout(self) -> timedelta:
        """The call's own timeout; 0 where the group's holds."""
        ...


def single(tensors: Tensors, operation: str) -> Tensor:
    """The one tensor that `operation` takes, given as `[tensor]` or `tensor`. Raises ValueError for several."""
    if tensors.__class__ is list and len(tensors) == 1:
        return tensors[0]  # type: ignore[no-any-return]  # the check of the class costs less than isinstance
    if isinstance(tensors, Tensor):
        return tensors
    if len(tensors) != 1:
        raise ValueError(f"{operation} takes one tensor per rank, got {len(tensors)}")
    return tensors[0]


def row(tensors: Rows, operation: str) -> list[Tensor]:
    """The one list of tensors that `operation` takes, given as `[list]` or `list`; it may be empty.

    Raises ValueError for several lists.
    """
    if not tensors or isinstance(tensors[0], Tensor):
        return list(cast("Sequence[Tensor]", tensors))
    if len(tensors) != 1:
        raise ValueError(f"{operation} takes one list of tensors per rank, got {len(tensors)}")
    return list(tensors[0])


def one_per_rank(tensors: Sequence[Tensor], size: int, operation: str) -> None:
    """Raise ValueError unless there is a tensor for each of the `size` ranks."""
    if len(tensors) != size:
        raise ValueError(f"{operation} needs one tensor for each of the {size} ranks, got {len(tensors)}")


def alike(tensors: Sequence[Tensor], operation: str) -> torch.dtype:
    """The dtype of all tensors. Raises TypeError if they have several, ValueError if they are on several devices."""
    dtype = tensors[0].dtype
    for tensor in tensors:
        if tensor.dtype != dtype:
            raise TypeError(f"{operation} needs tensors of one dtype, got {dtype} and {tensor.dtype}")
        if tensor.device != tensors[0].device:
            raise ValueError(
                f"{operation} needs all tensors on one device, got {tensors[0].device} and {tensor.device}"
            )
    return dtype


def numel(tensor: Tensor, expected: int, what: str) -> None:
    """Raise ValueError unless `tensor` has the expected number of elements. what: its name in the message."""
    if tensor.numel() != expected:
        raise ValueError(f"{what} must have {expected} elements, got {tensor.numel()} (shape {tuple(tensor.shape)})")


def splits(sizes: Sequence[int], tensor: Tensor, ranks: int, what: str) -> Sequence[int]:
    """Return the number of rows of `tensor` for each rank: as `sizes` says, or equally many if it is empty.

    Raises ValueError if that does not add up.
    """
    rows = tensor.shape[0] if tensor.dim() else 1
    if not sizes:
        if rows % ranks:
            raise ValueError(f"the first dimension of the {what} ({rows}) is not divisible by the {ranks} ranks")
        return [rows // ranks] * ranks
    if len(sizes) != ranks or sum(sizes) != rows:
        raise ValueError(
            f"the split sizes of the {what} must be {ranks} numbers that sum up to {rows}, got {list(sizes)}"
        )
    return sizes


def encodable(parameters: Iterable[Tensor], encodes_on: Callable[[torch.device], bool]) -> None:
    """Raise ValueError if a parameter, and so its gradient, is where the engine does not encode."""
    elsewhere = next((one.device for one in parameters if not encodes_on(one.device)), None)
    if elsewhere is not None:
        raise ValueError(
            "codecs encode tensors that Paceline itself serves, which are the CPU's and, with PACELINE_CUDA=engine, "
            f"CUDA's, found a parameter on {elsewhere}"
        )


def reduce_op(options: object) -> Reduction:
    """The `ReduceOp` of an options object, of a plain argument, or the default."""
    if options is None:
        return ReduceOp.SUM
    return getattr(options, "reduceOp", options)  # type: ignore[arg-type]


def root_of(options: object, size: int) -> int:
    """The root of an options object or of a plain argument. Raises ValueError unless it is a rank of this group."""
    if options is None:
        return 0
    root: int = int(getattr(options, "rootRank", options))  # type: ignore[call-overload]
    if not 0 <= root < size:
        raise ValueError(f"root {root} is not a rank of this group of {size}")
    return root


def is_async(options: object) -> bool:
    """Return whether the caller wants to go on before the operation is done (what torch means by no options)."""
    return bool(getattr(options, "asyncOp", True))


def timeout_of(options: object) -> timedelta | None:
    """The call's own timeout; None where the group's holds."""
    timeout: timedelta | None = getattr(options, "timeout", None)
    return timeout if timeout is not None and timeout > _ZERO else None
