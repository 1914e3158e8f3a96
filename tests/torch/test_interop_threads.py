"""Torch's inter-op threads, as PACELINE_INTEROP_THREADS says."""

from __future__ import annotations

import subprocess
import sys

from launched import environment

# The second call asks for another number than that of the threads which run already.
RANK = """
import torch, torch.distributed as dist
import paceline.torch.interop
dist.init_process_group("paceline", store=dist.HashStore(), rank=0, world_size=1)
print(torch.get_num_interop_threads())
torch.jit.wait(torch.jit.fork(torch.ones, 1))
paceline.torch.interop.use_interop_threads(4)
print(torch.get_num_interop_threads())
dist.destroy_process_group()
"""


def test_torch_is_told_before_its_threads_start_and_otherwise_keeps_its_number() -> None:
    env = environment(PACELINE_INTEROP_THREADS="3")
    done = subprocess.run([sys.executable, "-c", RANK], env=env, capture_output=True, text=True, timeout=250)
    assert (done.returncode, done.stdout.split()) == (0, ["3", "3"]), done.stderr
    assert "torch keeps 3 inter-op threads" in done.stderr
