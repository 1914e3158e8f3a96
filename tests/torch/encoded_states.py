"""States that a training gets into while its gradients are encoded between two machines: NaN, missing ones, skipped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from paceline.torch import GradientBuckets, ShardedOptimizer

SIZES = {"a": 30001, "b": 7, "c": 30005}
"""Elements of parameters; none ends with a line of memory."""
CODECS = ("int8", "int4", "bf16")


def net() -> nn.ParameterDict:
    return nn.ParameterDict({name: nn.Parameter(torch.zeros(size)) for name, size in SIZES.items()})


def ways(parameters: nn.ParameterDict, codec: str) -> Iterator[GradientBuckets | ShardedOptimizer]:
    yield GradientBuckets(parameters, codec=codec)
    for of_parameters in (None, codec):
        yield ShardedOptimizer(
            parameters.parameters(), torch.optim.SGD, lr=0.1, gradient_codec=codec, codec=of_parameters
        )


def backward(parameters: nn.ParameterDict, factor: float) -> None:
    torch.stack([(one * factor).sum() for one in parameters.values()]).sum().backward()


def check_a_nan_spoils_one_step() -> None:
    for codec in CODECS:
        for bad in (float("nan"), float("inf")):
            parameters = net()
            for one in ways(parameters, codec):
                finite = []
                for step in range(4):
                    parameters.zero_grad()
                    backward(parameters, bad if step == 1 else 1.0)
                    finite.append(all(bool(p.grad.isfinite().all()) for p in parameters.values()))
                assert finite == [True, False, True, True], (codec, type(one).__name__, finite)
                one.close()


def check_who_has_a_gradient_is_never_encoded(rank: int) -> None:
    """Gradients are so large that what is one beside them would vanish. PACELINE_COMPRESS is int8 here."""
    nets: Any = nn.ModuleDict({name: nn.Linear(200, 200, bias=False) for name in ("both", "one", "none")})
    buckets = GradientBuckets(nets)
    x = torch.ones(4, 200)
    loss = nets["both"](x) + (nets["one"](x) if rank == 0 else 0)
    (loss * 1e6).sum().backward()
    assert nets["one"].weight.grad is not None and nets["one"].weight.grad.mean() > 1e5
    assert nets["none"].weight.grad is None
    buckets.close()


def main() -> None:
    os.environ["PACELINE_MACHINE"] = "ab"[int(os.environ["RANK"])]
    os.environ["PACELINE_COMPRESS"] = "int8"
    dist.init_process_group("paceline")
    check_a_nan_spoils_one_step()
    check_who_has_a_gradient_is_never_encoded(dist.get_rank())
    dist.destroy_process_group()


main()
