"""Holds a store of torch.distributed until it is ended, and says at which port."""

from __future__ import annotations

import signal

import torch.distributed as dist

server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
print(server.port, flush=True)
signal.pause()
