"""An elastic script as users write it; rank 1 of two kills itself in the middle of its fourth step."""

from __future__ import annotations

import os
import signal

import torch

import paceline.horovod.torch as hvd


@hvd.elastic.run
def train(state: hvd.elastic.TorchState) -> None:
    while state.step < 6:
        handle = hvd.allreduce_async(torch.ones(1, 2), name="change", op=hvd.Sum)
        if state.step == 3 and hvd.size() == 2 and hvd.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        with torch.no_grad():
            state.model.weight += hvd.synchronize(handle)
        state.optimizer.zero_grad()
        state.model(torch.ones(1, 2)).sum().backward()
        state.optimizer.step()
        state.step += 1
        if state.step % 2 == 0:
            state.commit()


hvd.init()
pid, born = os.getpid(), hvd.rank()
model = torch.nn.Linear(2, 1)
torch.nn.init.zeros_(model.weight)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters())
state = hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0)
sizes: list[int] = []
state.register_reset_callbacks([lambda: sizes.append(hvd.size())])
train(state)
print(born, hvd.rank(), hvd.size(), sizes, model.weight.tolist(), pid == os.getpid())
