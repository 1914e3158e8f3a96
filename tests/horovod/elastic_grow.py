"""An elastic script that begins with one rank; each rank's gradient is its rank plus one.

elastic_grow.py FOLDER GROUPS: once two steps are done alone it makes FOLDER/holding, and waits for another rank.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch

import paceline.horovod.torch as hvd

FOLDER, GROUPS = Path(sys.argv[1]), int(sys.argv[2])


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


hvd.init()
model = torch.nn.Linear(2, 1)
torch.nn.init.zeros_(model.weight)
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), groups=GROUPS or None)
state = hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0)
train(state)
print(hvd.rank(), hvd.size(), model.weight.tolist())
