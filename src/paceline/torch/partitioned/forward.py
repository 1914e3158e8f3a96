"""One pass forward through all stages, without gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from paceline.torch.partitioned.partition import StageModule


def relay(
    modules: Mapping[int, StageModule],
    ranks: Sequence[int],
    group: dist.ProcessGroup,
    inputs: Sequence[Tensor],
    samples: int,
) -> tuple[Tensor, ...] | None:
    """Return the results of the last stage, on its rank; None elsewhere.

    modules: this rank's, by stage. ranks: the rank in `group` of each stage. inputs: of the first stage.
    """
    given = tuple(inputs)
    for number, module in sorted(modules.items()):
        if number and number - 1 not in modules:
            given = tuple(torch.empty(value.sent_shape(samples), dtype=value.torch_dtype) for value in module.received)
            for tensor in given:
                dist.recv(tensor, group=group, group_src=ranks[number - 1])
        given = module(*given)
        if number + 1 < len(ranks) and number + 1 not in modules:
            for tensor in given:
                dist.send(tensor, group=group, group_dst=ranks[number + 1])
    return given if len(ranks) - 1 in modules else None
