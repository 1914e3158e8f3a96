"""A model in two partitions, of which each rank trains one: paceline run -n 2 examples/hybrid.py"""

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss

import paceline.torch

dist.init_process_group("paceline")

torch.manual_seed(0)  # the ranks of a replica make the same data, and the same model
inputs = torch.randn(2048, 16)
targets = inputs @ torch.randn(16, 1)
layers = [torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh()) for _ in range(4)]
whole = torch.nn.Sequential(torch.nn.Linear(16, 64), *layers, torch.nn.Linear(64, 1))

model = paceline.torch.hybrid(whole, inputs[:64], mse_loss, partitions=2, replicas=1, microbatches=4)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(4):
    total = 0.0
    for x, y in zip(inputs.split(64), targets.split(64), strict=True):
        optimizer.zero_grad()
        total += model.step(x, y)
        optimizer.step()
    if dist.get_rank() == 0:
        print(f"epoch {epoch}: loss {total / 32:.4f}")

model.close()
dist.destroy_process_group()
