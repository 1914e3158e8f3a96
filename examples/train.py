"""Data-parallel training with DDP, all of it on the CPU: paceline run -n 2 examples/train.py"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("paceline")

torch.manual_seed(0)  # every rank makes the same data, and takes its own part of them
inputs = torch.randn(2048, 16)
data = TensorDataset(inputs, inputs @ torch.randn(16, 1))
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=32, sampler=sampler)

model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(4):
    sampler.set_epoch(epoch)
    total = torch.zeros(1)
    for x, y in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    dist.all_reduce(total, dist.ReduceOp.AVG)
    if dist.get_rank() == 0:
        print(f"epoch {epoch}: loss {total.item() / len(loader):.4f}")

dist.destroy_process_group()
