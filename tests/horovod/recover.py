"""An elastic script: argument "mismatch": one failed collective, all go on; "kill": rank 1 dies, the others say so."""

from __future__ import annotations

import os
import signal
import sys

import torch

import paceline.horovod.torch as hvd

WAY = sys.argv[1]
FAILING = {"done": False}


@hvd.elastic.run
def train(state: hvd.elastic.TorchState) -> list[int]:
    seen = []
    while state.batch < 6:
        if state.batch == 4 and not FAILING["done"]:
            FAILING["done"] = True
            with torch.no_grad():
                state.model.weight += 100.0  # lost, as it was not committed
            state.extra = "lost"
            if WAY == "kill" and hvd.rank() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            hvd.allreduce(torch.ones(hvd.rank() + 1), name="uneven")
        seen.append(state.batch)
        state.optimizer.zero_grad()
        state.model(torch.full((1, 2), hvd.rank() + 1.0)).sum().backward()
        state.optimizer.step()
        state.sampler.record_batch(state.batch, 1)
        state.batch += 1
        if state.batch % 2 == 0:
            state.commit()
    return seen


hvd.init()
torch.manual_seed(hvd.rank())
model = torch.nn.Linear(2, 1)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01), model.named_parameters())
state = hvd.elastic.TorchState(
    model=model,
    optimizer=optimizer,
    sampler=hvd.elastic.ElasticSampler(range(24), shuffle=False),
    batch=0,
    extra=f"rank {hvd.rank()}",
)
resets: list[int] = []
state.register_reset_callbacks([lambda: resets.append(hvd.size())])
seen = train(state)
weights = hvd.allgather(model.weight.detach())
assert torch.equal(*weights.chunk(2)) and weights.abs().max() < 50
everyone = hvd.allgather_object([seen, resets, state.extra, list(state.sampler)])
if hvd.rank() == 0:
    print(everyone)
