"""Trains with gradients that are encoded between machines. Argument: how ranks are spread over machines."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel as DDP

import paceline.torch

STEPS = 4
CALLS = 12


class Net(nn.Module):
    """Some buckets are large enough to be encoded; the layer in the middle is used in some steps only."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.spare, self.last = (nn.Linear(200, 200) for _ in range(3))

    def forward(self, x: Tensor, spare: bool) -> Tensor:
        hidden = self.first(x).tanh()
        result: Tensor = self.last(self.spare(hidden) if spare else hidden)
        return result


def batch(step: int, rank: int) -> Tensor:
    return torch.randn(8, 200, generator=torch.Generator().manual_seed(100 * step + rank))


def backward(net: nn.Module, step: int, rank: int, spare: bool = True) -> None:
    net.zero_grad()
    net(batch(step, rank), spare).square().mean().backward()


def gradients(net: nn.Module) -> list[Tensor]:
    return [p.grad.detach().clone() for p in net.parameters() if p.grad is not None]


def means(step: int, ranks: int, spare: bool = True, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """The gradients of one process that has all ranks' batches. dtype: what parameters are rounded to."""
    net, total = Net().to(dtype).float(), []
    for rank in range(ranks):
        backward(net, step, rank, spare)
        mine = [grad.double() / ranks for grad in gradients(net)]
        total = mine if not total else [a + b for a, b in zip(total, mine, strict=True)]
    return total


def check(net: nn.Module, step: int, error: float, spare: bool = True) -> None:
    """All ranks have the same bits, close to the mean."""
    found = gradients(net)
    right = means(step, dist.get_world_size(), spare)
    assert len(found) == len(right)
    for grad, mean in zip(found, right, strict=True):
        everyone = [torch.empty_like(grad) for _ in range(dist.get_world_size())]
        dist.all_gather(everyone, grad)
        assert all(torch.equal(grad, other) for other in everyone)
        assert (grad.double() - mean).abs().max() <= error * max(1e-6, float(mean.abs().max()))


def with_ddp(rank: int) -> None:
    def made(codec: str) -> tuple[DDP, paceline.torch.Compression]:
        net = DDP(Net(), bucket_cap_mb=0.2, gradient_as_bucket_view=True)
        return net, paceline.torch.compress(net, codec)

    net, compression = made("bf16")
    for step in range(STEPS):
        backward(net, step, rank)
        check(net.module, step, 0.05)
    state = compression.state_dict()
    assert set(state) <= {name for name, _ in net.module.named_parameters()}
    lost = torch.tensor([float(sum(part.abs().sum() for part in state.values()))])
    dist.all_reduce(lost)
    assert lost > 0
    # Another model that goes on from there comes to the same bits, and one without the state to others.
    again, other = made("bf16")
    fresh, _ = made("bf16")
    for one in (again, fresh):
        backward(one, 0, rank)  # DDP builds its final buckets after its first step
    other.load_state_dict(state)
    for one in (net, again, fresh):
        backward(one, STEPS, rank)
    assert all(torch.equal(a, b) for a, b in zip(gradients(net), gradients(again), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(gradients(net), gradients(fresh), strict=True))
    with pytest.raises(ValueError, match="no such parameter"):
        other.load_state_dict({"nowhere": torch.zeros(3)})
    net = DDP(Net(), bucket_cap_mb=0.2, gradient_as_bucket_view=True, find_unused_parameters=True)
    check_nothing_is_lost(net, net.module, paceline.torch.compress(net, "int8"), rank)


def check_nothing_is_lost(
    net: nn.Module, inner: Net, compression: paceline.torch.Compression | paceline.torch.GradientBuckets, rank: int
) -> None:
    """What the steps gave, and what waits on the ranks in the end, is the mean of the gradients.

    In some steps only some ranks have a gradient of the layer in the middle, in others none.
    """
    own, ranks = Net(), dist.get_world_size()
    due = torch.zeros_like(own.spare.weight, dtype=torch.float64)
    for step, spare in enumerate((True, True, False, False, rank == 0, True, rank != 0, False)):
        for one in (net, own):
            backward(one, step, rank, spare)
        if own.spare.weight.grad is not None:
            due += own.spare.weight.grad
        if inner.spare.weight.grad is not None:
            due -= inner.spare.weight.grad
    dist.all_reduce(due)
    waits = [torch.empty(due.numel()) for _ in range(ranks)]
    dist.all_gather(waits, compression.state_dict()["spare.weight"])
    largest = max(float(one.abs().max()) for one in waits)
    assert largest > 0
    # Where a rank owns a range, it has lost something of the mean, elsewhere of what it adds to the sum.
    counts = itertools.product((1.0, 1 / ranks), repeat=ranks)
    found = [sum(count * one for count, one in zip(each, waits, strict=True)).view_as(due) for each in counts]
    off = torch.stack([(due / ranks - one).abs() for one in found]).amin(0)
    assert float(off.max()) <= 1e-3 * largest, float(off.max()) / largest


def with_buckets(rank: int) -> None:
    net = Net()
    buckets = paceline.torch.GradientBuckets(net, bucket_bytes=1 << 17, codec="bf16")
    for step in range(STEPS):
        spare = step % 2 == 0 or rank == 0
        net.zero_grad()
        net(batch(step, rank), spare).square().mean().backward()
        if step % 2 == 0:
            check(net, step, 0.05)
        assert all(parameter.grad is not None for parameter in net.parameters())
    state = buckets.state_dict()
    buckets.close()
    others = paceline.torch.GradientBuckets(Net(), bucket_bytes=1 << 17, codec="bf16")
    others.load_state_dict(state)
    assert all(torch.equal(part, others.state_dict()[name]) for name, part in state.items())
    others.close()
    net = Net()
    buckets = paceline.torch.GradientBuckets(net, bucket_bytes=1 << 17, codec="int8")
    check_nothing_is_lost(net, net, buckets, rank)
    buckets.close()
    # A parameter that nobody has used keeps no gradient.
    unused = Net()
    last = paceline.torch.GradientBuckets(unused, bucket_bytes=1 << 17, codec="bf16", error_feedback=False)
    backward(unused, 0, rank, spare=False)
    assert unused.spare.weight.grad is None and last.state_dict() == {}
    check(unused, 0, 0.05, spare=False)
    last.close()


def sharded() -> Net:
    net, mesh = Net(), init_device_mesh("cpu", (dist.get_world_size(),))
    fully_shard(net.first, mesh=mesh)
    fully_shard(net, mesh=mesh)
    return net


def as_fsdp(net: nn.Module) -> FSDPModule:
    assert isinstance(net, FSDPModule)
    return net


def whole(tensors: list[Tensor]) -> list[Tensor]:
    found = []
    for tensor in tensors:
        assert isinstance(tensor, DTensor)
        found.append(tensor.detach().full_tensor())
    return found


def with_fsdp_exact(rank: int) -> None:
    """`lossless` changes no bit of what two ranks sum up, in whatever order."""
    plain, encoded = sharded(), sharded()
    paceline.torch.compress(as_fsdp(encoded), "lossless", parameters="lossless")
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9) for net in (plain, encoded)]
    for step in range(STEPS):
        for net, optimizer in zip((plain, encoded), optimizers, strict=True):
            backward(net, step, rank, spare=step % 2 == 0)
            optimizer.step()
    for one, other in zip(*(whole(list(net.parameters())) for net in (plain, encoded)), strict=True):
        assert torch.equal(one, other)


def with_fsdp(rank: int) -> None:
    """The mean of many steps comes as close to the mean of the gradients as one step's loss divided by their number."""
    net = sharded()
    compression = paceline.torch.compress(as_fsdp(net), "int8", parameters="bf16")
    right = means(0, dist.get_world_size(), dtype=torch.bfloat16)
    total, worst = [torch.zeros_like(mean) for mean in right], []
    for step in range(CALLS):
        backward(net, 0, rank)
        found = whole([p.grad for p in net.parameters() if p.grad is not None])
        assert len(found) == len(right)
        for sums, grad in zip(total, found, strict=True):
            sums += grad
        worst.append(max(float((t / (step + 1) - m).abs().max()) for t, m in zip(total, right, strict=True)))
    assert worst[0] > 1e-6 and worst[-1] <= 3 * worst[0] / CALLS + 1e-7, worst
    state = compression.state_dict()
    assert set(state) == {"", "first"} and sum(part.numel() for part in state.values()) >= 3 * 40_200
    # Another model that goes on from there comes to the same bits, and one without the state to others.
    again, fresh = sharded(), sharded()
    paceline.torch.compress(as_fsdp(again), "int8", parameters="bf16").load_state_dict(state)
    paceline.torch.compress(as_fsdp(fresh), "int8", parameters="bf16")
    unused = [net, again, fresh]
    for one in unused:
        backward(one, STEPS, rank, spare=False)  # goes without a residual, and leaves it as it is, where one is missing
    for one in unused:
        backward(one, STEPS, rank)
    grads = [whole([p.grad for p in one.parameters() if p.grad is not None]) for one in unused]
    assert all(torch.equal(a, b) for a, b in zip(grads[0], grads[1], strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(grads[0], grads[2], strict=True))
    with pytest.raises(ValueError, match="'nowhere', which is no module"):
        compression.load_state_dict({"nowhere": torch.zeros(3)})
    with pytest.raises(ValueError, match="the state has 3 elements for 'first', the model has 4"):
        compression.load_state_dict({"first": torch.zeros(3)})


def with_first_values(rank: int) -> None:
    """Training begins with the first rank's values on all ranks. PACELINE_COMPRESS sends them as `lossless`."""
    from paceline.torch.backend import PacelineProcessGroup

    encoded: list[int] = []
    send = PacelineProcessGroup.broadcast_encoded

    def broadcast_encoded(group: PacelineProcessGroup, tensor: Tensor, root: int, codec: int) -> dist.Work:
        encoded.append(tensor.numel())
        return send(group, tensor, root, codec)

    PacelineProcessGroup.broadcast_encoded = broadcast_encoded  # type: ignore[method-assign]
    for wrap in (
        paceline.torch.GradientBuckets,
        lambda net: paceline.torch.ShardedOptimizer(net.parameters(), torch.optim.SGD),
    ):
        net = Net()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.mul_(rank + 1)
        net.register_buffer("steps", torch.arange(rank, 40_000 + rank))  # no codec takes whole numbers
        encoded.clear()
        wrap(net).close()
        assert sum(encoded) >= 3 * 40_200
        assert all(torch.equal(one, other) for one, other in zip(net.parameters(), Net().parameters(), strict=True))
    PacelineProcessGroup.broadcast_encoded = send  # type: ignore[method-assign]


def main(machines: str) -> None:
    rank = int(os.environ["RANK"])
    os.environ["PACELINE_MACHINE"] = f"machine-{machines[rank]}"
    if len(machines) == 2:
        os.environ["PACELINE_COMPRESS"] = "lossless"
    torch.set_num_threads(1)
    dist.init_process_group("paceline")
    works: list[Callable[[int], None]] = [with_ddp, with_buckets]
    works += [with_fsdp_exact, with_first_values] if len(machines) == 2 else [with_fsdp]
    for work in works:
        work(rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
