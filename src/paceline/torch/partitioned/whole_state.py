"""The whole model's state from what each rank has of it, and the other way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import torch
import torch.distributed as dist
from torch import Tensor

from paceline.torch.first_values import broadcast_values
from paceline.torch.partitioned.errors import HybridError
from paceline.torch.partitioned.ownership import Entry


def take_over_first(tensors: Iterable[Tensor]) -> None:
    """Give these the values of the first rank's. A collective of all ranks.

    An element that stands in several places, as in a buffer that was expanded, is written only if it differs. Raises
    RuntimeError if it does.
    """
    for tensor in {id(one): one.detach() for one in tensors}.values():
        values = tensor if tensor.is_contiguous() else tensor.contiguous()
        broadcast_values(values, None)
        if values is not tensor and not torch.equal(values, tensor):
            tensor.copy_(values)


def gathered(
    own: Mapping[str, Tensor], entries: Mapping[str, Entry], owner: Callable[[Entry], int]
) -> dict[str, Tensor]:
    """Every tensor on every rank, in the order of `entries`. A collective of all ranks.

    own: what this rank has. owner: the rank that gives it to the others.
    """
    result = {}
    for name, entry in entries.items():
        source = owner(entry)
        here = source == dist.get_rank()
        tensor = own[name].clone() if here else torch.empty(entry.shape, dtype=entry.dtype)
        dist.broadcast(tensor, source)
        result[name] = tensor
    return result


def take_over(state: Mapping[str, Tensor], own: Mapping[str, object], entries: Mapping[str, Entry]) -> None:
    """Copy this rank's part of `state` into `own`. Raises HybridError if it is of another model."""
    if differing := sorted(state.keys() ^ entries.keys()):
        raise HybridError(f"the state is of another model: only one of them has {differing[0]!r}")
    for name, mine in own.items():
        if isinstance(mine, Tensor) and not mine.is_meta:
            if mine.shape != state[name].shape:
                raise HybridError(
                    f"the state has {name} of shape {list(state[name].shape)}, the model of {list(mine.shape)}"
                )
            mine.copy_(state[name])
