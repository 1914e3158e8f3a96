"""A rank on a machine of its own: CUDA tensors that are encoded between machines, on the stand-in for a device.

They end with the bits of the same calls on CPU tensors, and so does what encoding has lost of them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
import torch.distributed as dist
from cuda_stand_in import Device
from torch import Tensor

from paceline import _engine
from paceline.torch.backend import paceline_group
from paceline.torch.compression import Compression, _hook, _State
from paceline.torch.fully_sharded import _AllGather

SIZES = (20_000, 4_097, 30_000)
"""The elements of the parameters of a bucket, which lie one behind the other."""
BEGINS = (0, 20_000, 24_097)
CALLS = 3


class Bucket:
    """What DDP hands to a hook."""

    def __init__(self, flat: Tensor, parameters: list[Tensor]) -> None:
        self.flat, self._parameters = flat, parameters

    def buffer(self) -> Tensor:
        return self.flat

    def gradients(self) -> list[Tensor]:
        plain = self.flat.as_subclass(Tensor)
        return [plain[begin : begin + size] for begin, size in zip(BEGINS, SIZES, strict=True)]

    def parameters(self) -> list[Tensor]:
        return self._parameters

    def index(self) -> int:
        return 0


def values(rank: int, call: int, count: int) -> Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(10 * call + rank))


def gradients(device: Device, rank: int, codec: str) -> None:
    """By the hook that DDP calls, with error feedback."""
    parameters = {name: torch.zeros(size) for name, size in zip("abc", SIZES, strict=True)}
    there, here = (Compression(None, codec, parameters) for _ in range(2))
    for call in range(CALLS):
        flat = values(rank, call, sum(SIZES))
        buckets = [Bucket(device.tensor(flat), list(parameters.values())), Bucket(flat, list(parameters.values()))]
        for compression, bucket in zip((there, here), buckets, strict=True):
            group: Any = dist.group.WORLD
            given: Any = bucket
            assert _hook(_State(group, compression, False), given).wait() is bucket.flat
        assert torch.equal(device.host(buckets[0].flat), flat), codec
    states = there.state_dict(), here.state_dict()
    assert all(torch.equal(one, states[1][name]) for name, one in states[0].items()) and states[0].keys() == {*"abc"}
    lost = torch.tensor([float(sum(part.abs().sum() for part in states[1].values()))])
    dist.all_reduce(lost)
    assert lost > 0


def sharded(device: Device, rank: int, size: int, codec: str) -> None:
    """As FSDP2 submits them: the gradients, and the parameters, of which its hook takes the codec."""
    group, number, count = paceline_group(None), _engine.CODECS[codec], 30_001
    residual, lost = device.tensor(torch.zeros(size * count)), torch.zeros(size * count)
    for call in range(CALLS):
        given = values(rank, call, size * count)
        found, right = device.tensor(torch.zeros(count)), torch.zeros(count)
        group.reduce_scatter_encoded(found, device.tensor(given), dist.ReduceOp.AVG, number, residual).wait()
        group.reduce_scatter_encoded(right, given, dist.ReduceOp.AVG, number, lost).wait()
        assert torch.equal(device.host(found), right) and torch.equal(device.host(residual), lost), codec
    mine = values(rank, 0, count)
    whole, right = device.tensor(torch.zeros(size * count)), torch.zeros(size * count)
    world: Any = dist.group.WORLD
    _AllGather(number)(whole, device.tensor(mine), world)
    _AllGather(number)(right, mine, world)
    assert torch.equal(device.host(whole), right), codec
    assert not torch.equal(right[rank * count : (rank + 1) * count], mine), "nothing was encoded"
    first = device.tensor(mine)
    group.broadcast_encoded(first, 1, number).wait()
    group.broadcast_encoded(mine, 1, number).wait()
    assert torch.equal(device.host(first), mine), codec


def main() -> None:
    rank = int(os.environ["RANK"])
    os.environ.update(PACELINE_MACHINE=f"machine-{rank}", PACELINE_CUDA="engine")
    torch.set_num_threads(1)
    dist.init_process_group("paceline")
    device, size = Device(), dist.get_world_size()
    for codec in ("bf16", "int8"):
        gradients(device, rank, codec)
        sharded(device, rank, size, codec)
    path: Any = paceline_group(None)
    assert path._device.last[0] == "staged"
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
