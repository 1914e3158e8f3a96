"""A rank of `held_out.py`: a training of one kind, whose forward and backward take a known time, by sleeping.

    paceline run studies/held_out_rank.py KIND STEPS

Backward sleeps where its gradient is made, so that gradients become ready one after the other.
"""

from __future__ import annotations

import random
import sys
import time
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn

SECONDS, COMMON, OWN = 0.15, 0.01, 0.005
"""Of computation in a step; and of delays in the mean, one of which all ranks share in every step."""
FORWARD = 1 / 3
LAYERS, WIDTH = 12, 512
ACCUMULATED = 4
"""Backwards of a step of the kind `accumulation`."""


class Paced(torch.autograd.Function):
    """The identity, whose forward and backward take as long as a step's pace says."""

    @staticmethod
    def forward(ctx: object, x: torch.Tensor, pace: list[float]) -> torch.Tensor:
        """Sleep as a layer's forward."""
        ctx.pace = pace  # type: ignore[attr-defined]
        time.sleep(FORWARD * pace[0])
        return x.view_as(x)

    @staticmethod
    def backward(ctx: object, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Sleep as a layer's backward."""
        time.sleep((1 - FORWARD) * ctx.pace[0])  # type: ignore[attr-defined]
        return gradients[0], None


class Network(nn.Module):
    """Layers of 1 MiB each, with their computation."""

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))
        self.pace = [0.0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the output of all layers."""
        for layer in self.layers:
            x = Paced.apply(layer(x), self.pace)
        return x


def main(kind: str, steps: int) -> None:
    """Train for so many steps."""
    torch.set_num_threads(1)
    if kind == "horovod":
        import paceline.horovod.torch as hvd

        hvd.init()
        rank = hvd.rank()
        net = Network(2 * LAYERS, WIDTH)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), lr=1e-3), net.named_parameters())
        model: nn.Module = net
    else:
        dist.init_process_group("paceline")
        rank = dist.get_rank()
        net = Network(LAYERS, WIDTH)
        model = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=1000 if kind == "one-bucket" else 4)
        optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    shared, own = random.Random(0), random.Random(rank + 1)
    times = ACCUMULATED if kind == "accumulation" else 1
    x = torch.randn(8, WIDTH)
    for _ in range(steps):
        seconds = SECONDS + shared.expovariate(1 / COMMON) + own.expovariate(1 / OWN)
        net.pace[0] = seconds / len(net.layers) / times
        optimizer.zero_grad()
        for turn in range(times):
            last = turn == times - 1
            with nullcontext() if last or kind == "horovod" else model.no_sync():  # type: ignore[operator]
                model(x).sum().backward()
        optimizer.step()
    if kind == "horovod":
        hvd.shutdown()
    else:
        dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
