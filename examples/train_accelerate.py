"""Accelerate over Paceline, all of it on the CPU: paceline run -n 2 examples/train_accelerate.py"""

import torch
import torch.distributed as dist
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

# On the CPU Accelerate takes the process group that is there, and asks for Gloo if there is none. On GPUs, leave this
# line out and write Accelerator(kwargs_handlers=[InitProcessGroupKwargs(backend="paceline")]).
dist.init_process_group("paceline")
accelerator = Accelerator(cpu=True)

torch.manual_seed(0)  # every rank makes the same data, and Accelerate gives it its part of them
inputs = torch.randn(2048, 16)
data = TensorDataset(inputs, inputs @ torch.randn(16, 1))
model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, batch_size=32, shuffle=True))

for epoch in range(4):
    total = torch.zeros(1)
    for x, y in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        accelerator.backward(loss)
        optimizer.step()
        total += loss.detach()
    mean = accelerator.reduce(total / len(loader), "mean")
    accelerator.print(f"epoch {epoch}: loss {mean.item():.4f}")

accelerator.print(f"{accelerator.num_processes} ranks over {dist.get_backend()}")
accelerator.end_training()
