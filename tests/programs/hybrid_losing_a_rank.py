"""Trains two replicas of two partitions until rank 3 is killed; the others report what the step raised.

Arguments: "kill", and whether that happens "in" a step or "between" two of them.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress

import torch
from torch import Tensor, nn

import paceline.torch
from paceline.errors import CommunicationError

VICTIM = 3
losses = 0


def loss_of(output: Tensor, target: Tensor) -> Tensor:
    global losses
    losses += 1
    # the third of the second step's four
    if losses == 7 and sys.argv[2] == "in" and torch.distributed.get_rank() == VICTIM:
        os.kill(os.getpid(), signal.SIGKILL)
    return nn.functional.mse_loss(output, target)


def lose_between() -> None:
    """The others know that it is gone before their next step, in whose `backward` they want its gradients."""
    if torch.distributed.get_rank() == VICTIM:
        os.kill(os.getpid(), signal.SIGKILL)
    with suppress(CommunicationError):
        torch.distributed.barrier()


def main() -> None:
    torch.distributed.init_process_group("paceline")
    batch = torch.randn(8, 16)
    model = nn.Sequential(*(nn.Linear(16, 16) for _ in range(4)))
    hybrid = paceline.torch.hybrid(model, batch, loss_of, partitions=2, replicas=2, microbatches=4)
    try:
        while True:
            hybrid.step(batch, batch)
            if sys.argv[2] == "between":
                lose_between()
    except CommunicationError as error:
        print(json.dumps({"kind": type(error).__name__, "message": str(error), "victim": VICTIM}), flush=True)
        os._exit(7)  # at once: how a rank ends is not what is tested


if __name__ == "__main__":
    main()
