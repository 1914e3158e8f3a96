"""Trains two replicas of two partitions until rank 3 is killed in a step; the others report what the step raised.

Argument: "kill".
"""

from __future__ import annotations

import json
import os
import signal

import torch
from torch import Tensor, nn

import paceline.torch
from paceline.errors import CommunicationError

VICTIM = 3
losses = 0


def loss_of(output: Tensor, target: Tensor) -> Tensor:
    global losses
    losses += 1
    if losses == 7 and torch.distributed.get_rank() == VICTIM:  # the third of the second step's four
        os.kill(os.getpid(), signal.SIGKILL)
    return nn.functional.mse_loss(output, target)


def main() -> None:
    torch.distributed.init_process_group("paceline")
    batch = torch.randn(8, 16)
    model = nn.Sequential(*(nn.Linear(16, 16) for _ in range(4)))
    hybrid = paceline.torch.hybrid(model, batch, loss_of, partitions=2, replicas=2, microbatches=4)
    try:
        while True:
            hybrid.step(batch, batch)
    except CommunicationError as error:
        print(json.dumps({"kind": type(error).__name__, "message": str(error), "victim": VICTIM}), flush=True)
        os._exit(7)  # at once: how a rank ends is not what is tested


if __name__ == "__main__":
    main()
