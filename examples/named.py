"""Tensors by name, in any order, with Horovod's API: paceline run -n 2 examples/named.py"""

import random

import torch

import paceline.horovod.torch as hvd

hvd.init()
names = [f"layer{number}" for number in range(8)]
random.shuffle(names)  # another order on every rank

handles = {name: hvd.allreduce_async(torch.full((4,), float(hvd.rank())), name=name) for name in names}
means = {name: hvd.synchronize(handle) for name, handle in handles.items()}

hvd.join()  # a rank that runs out of data earlier waits here, and helps the others to finish
if hvd.rank() == 0:
    print(f"{len(means)} tensors on {hvd.size()} ranks, each with the mean {means['layer0'][0].item()}")
