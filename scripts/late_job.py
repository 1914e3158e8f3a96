"""A small DDP training in which rank 2 computes longest: the job of the pictures of `paceline report`."""

from __future__ import annotations

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import paceline.torch  # noqa: F401

STEPS = 120
SECONDS, LATE = 0.04, 0.10
"""Seconds that a rank computes beside its model, and that rank 2 does."""
WIDTH, LAYERS = 256, 6


def main() -> None:
    """Train, with the environment that `paceline run` sets."""
    dist.init_process_group("paceline")
    rank = dist.get_rank()
    layers = [layer for _ in range(LAYERS) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    model = DistributedDataParallel(nn.Sequential(*layers, nn.Linear(WIDTH, 10)), bucket_cap_mb=0.5)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(STEPS):
        time.sleep(LATE if rank == 2 else SECONDS)
        optimizer.zero_grad()
        model(torch.randn(32, WIDTH)).sum().backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
