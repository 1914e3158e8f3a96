"""A rank on one of several machines: DDP, FSDP2 and the sharded optimizer train as one process would on all batches."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import test_ddp
import test_fsdp2
import test_sharded_passes
import torch.distributed as dist

import paceline.torch
from paceline.observe.trace.event import events
from paceline.process.current import runtime


def main() -> None:
    assert paceline.torch
    dist.init_process_group("paceline")
    rank, size = dist.get_rank(), dist.get_world_size()
    test_ddp.check_options(rank, size)
    test_fsdp2.check_fully_shard(rank, size)
    test_fsdp2.check_divide_factor(rank, size)
    test_sharded_passes.check_program(rank, size, test_sharded_passes.PROGRAM)
    moved = {event.collective for event in events(runtime().events()) if event.link in ("mixed", "tcp")}
    assert moved >= {"all_reduce", "all_gather", "reduce_scatter"}, moved
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
