"""An elastic script that begins with one rank; each rank's gradient is its rank plus one.

elastic_grow.py FOLDER GROUPS: once two steps are done alone it makes FOLDER/holding, and waits for another rank. With
PACELINE_COMPRESS every rank is a machine of its own. It prints rank, size, weight, the codecs of what is broadcast, and
what a buffer that is another one in each process was at first and is in the end.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

import paceline.horovod.torch as hvd
from paceline.coordinate import Coordinator

FOLDER, GROUPS = Path(sys.argv[1]), int(sys.argv[2])

codecs: set[str] = set()
send = Coordinator.broadcast


def broadcast(*arguments: Any, codec: str | None = None, **others: Any) -> Any:
    codecs.add(codec or "none")
    return send(*arguments, codec=codec, **others)


def digest(tensor: torch.Tensor) -> str:
    return hashlib.sha256(tensor.numpy()).hexdigest()


@hvd.elastic.run
def train(state: hvd.elastic.TorchState) -> None:
    while state.step < 5:
        while state.step == 2 and hvd.size() == 1:
            (FOLDER / "holding").touch()
            time.sleep(0.02)
            state.check_host_updates()
        state.optimizer.zero_grad()
        state.model(torch.full((1, 2), hvd.rank() + 1.0)).sum().backward()
        state.optimizer.step()
        state.step += 1
        state.commit()


Coordinator.broadcast = broadcast  # type: ignore[method-assign]
if "PACELINE_COMPRESS" in os.environ:
    os.environ["PACELINE_MACHINE"] = f"machine-{os.getpid()}"
hvd.init()
model = torch.nn.Linear(2, 1)
torch.nn.init.zeros_(model.weight)
model.register_buffer("own", torch.randn(40_000, generator=torch.Generator().manual_seed(os.getpid())))
at_first = digest(model.own)
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), groups=GROUPS or None)
state = hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0)
train(state)
print(hvd.rank(), hvd.size(), model.weight.tolist(), ",".join(sorted(codecs)), at_first, digest(model.own))
