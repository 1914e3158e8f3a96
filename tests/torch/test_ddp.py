"""DistributedDataParallel: every way of using it gives the gradients of one process on the combined batch."""

from __future__ import annotations

import copy
import ctypes
import signal
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd import Variable
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel as DDP
from torch_ranks import Ranks

import paceline.torch

BATCH = 4
FEATURES = 6


class Net(nn.Module):
    """`spare` is used only when asked for: the unused parameters of a step."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(FEATURES, 16), nn.Tanh(), nn.Linear(16, 8))
        self.spare = nn.Linear(8, 8)
        self.outer = nn.Linear(8, 2)

    def forward(self, x: Tensor, use_spare: bool = True) -> Tensor:
        hidden = self.inner(x)
        output: Tensor = self.outer(self.spare(hidden) if use_spare else hidden)
        return output


def batch(step: int, size: int) -> Tensor:
    generator = torch.Generator().manual_seed(100 + step)
    return torch.randn(size * BATCH, FEATURES, generator=generator, dtype=torch.float64)


def mine(whole: Tensor, rank: int) -> Tensor:
    return whole[rank * BATCH : (rank + 1) * BATCH]


def model() -> Net:
    torch.manual_seed(0)
    return Net().double()


def train(ddp: nn.Module, reference: nn.Module, rank: int, size: int, steps: int = 4, *inputs: Any) -> None:
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9) for net in (ddp, reference)]
    for step in range(steps):
        whole = batch(step, size)
        for net, optimizer, data in (
            (ddp, optimizers[0], mine(whole, rank)),
            (reference, optimizers[1], whole),
        ):
            optimizer.zero_grad()
            net(data, *inputs).square().mean().backward()
            optimizer.step()
    for left, right in zip(ddp.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(left, right)


def check_options(rank: int, size: int) -> None:
    for options in (
        {},
        {"gradient_as_bucket_view": True},
        {"static_graph": True},
        {"find_unused_parameters": True},
        {"bucket_cap_mb": 0.0001},
        {"broadcast_buffers": False, "gradient_as_bucket_view": True, "static_graph": True},
    ):
        reference = model()
        train(DDP(copy.deepcopy(reference), **options), reference, rank, size)


def check_initial_parameters_are_rank_0s(rank: int, size: int) -> None:
    torch.manual_seed(rank)
    ddp = DDP(Net())
    torch.manual_seed(0)
    for left, right in zip(ddp.parameters(), Net().parameters(), strict=True):
        assert torch.equal(left, right)


def check_unused_parameters(rank: int, size: int) -> None:
    reference = model()
    ddp = DDP(copy.deepcopy(reference), find_unused_parameters=True)
    whole = batch(0, size)
    ddp(mine(whole, rank), False).square().mean().backward()
    assert all(parameter.grad is None for parameter in ddp.module.spare.parameters())
    # Used on one rank only: everybody gets the gradient.
    ddp(mine(whole, rank), rank == 0).square().mean().backward()
    gradients = [torch.empty_like(reference.spare.weight) for _ in range(size)]
    assert ddp.module.spare.weight.grad is not None
    dist.all_gather(gradients, ddp.module.spare.weight.grad)
    assert gradients[0].ne(0).any() and all(torch.equal(gradients[0], gradient) for gradient in gradients)


def check_no_sync(rank: int, size: int) -> None:
    reference = model()
    ddp = DDP(copy.deepcopy(reference))
    for step in range(3):
        whole = batch(step, size)
        with nullcontext() if step == 2 else ddp.no_sync():
            ddp(mine(whole, rank)).square().mean().backward()
        reference(whole).square().mean().backward()
    for left, right in zip(ddp.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(left.grad, right.grad)


def check_uneven_inputs(rank: int, size: int) -> None:
    ddp = DDP(model())
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    steps = 2 + rank
    with Join([ddp]):
        for step in range(steps):
            optimizer.zero_grad()
            ddp(mine(batch(step, size), rank)).square().mean().backward()
            optimizer.step()
    parameter = next(ddp.parameters()).detach()
    everybody = [torch.empty_like(parameter) for _ in range(size)]
    dist.all_gather(everybody, parameter)
    assert all(torch.equal(everybody[0], other) for other in everybody)


def check_buffers(rank: int, size: int) -> None:
    net = nn.Sequential(nn.Linear(FEATURES, 4), nn.BatchNorm1d(4)).double()
    ddp = DDP(net)
    for step in range(3):
        ddp(mine(batch(step, size), rank)).square().mean().backward()
    ddp(mine(batch(9, size), rank))
    mean = net[1].num_batches_tracked.clone()
    dist.all_reduce(mean)
    assert mean.item() == size * 4


def check_bfloat16(rank: int, size: int) -> None:
    reference = model().float()
    ddp = DDP(copy.deepcopy(reference))
    whole = batch(0, size).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ddp(mine(whole, rank)).float().square().mean().backward()
    reference(whole).square().mean().backward()
    low = DDP(copy.deepcopy(reference).bfloat16())
    low(mine(whole, rank).bfloat16()).square().mean().backward()
    for gradient, half, exact in zip(ddp.parameters(), low.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(gradient.grad, exact.grad, rtol=0.1, atol=0.02)
        assert half.grad is not None and half.grad.dtype == torch.bfloat16
        torch.testing.assert_close(half.grad.float(), exact.grad, rtol=0.1, atol=0.02)


def check_hooks(rank: int, size: int) -> None:
    power = powerSGD_hook.PowerSGDState(process_group=None, matrix_approximation_rank=8, start_powerSGD_iter=2)
    for hook, state, tolerance in (
        (default_hooks.allreduce_hook, None, 1e-6),
        (default_hooks.fp16_compress_hook, None, 1e-2),
        # DDP asks for NCCL if it sees the name of the next one.
        (lambda state, bucket: default_hooks.bf16_compress_hook(state, bucket), None, 5e-2),
        (default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook), None, 1e-2),
        (powerSGD_hook.powerSGD_hook, power, 1e-1),
    ):
        reference = model().float()
        ddp = DDP(copy.deepcopy(reference), bucket_cap_mb=0.0001)
        ddp.register_comm_hook(state, hook)
        assert_gradients_stay_near(ddp, reference, 8, rank, size, tolerance)


def assert_gradients_stay_near(
    ddp: nn.Module, reference: nn.Module, steps: int, rank: int, size: int, tolerance: float
) -> None:
    for step in range(steps):
        whole = batch(step, size).float()
        for net, data in ((ddp, mine(whole, rank)), (reference, whole)):
            net.zero_grad()
            net(data).square().mean().backward()
    for left, right in zip(ddp.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(left.grad, right.grad, rtol=tolerance, atol=tolerance)


def check_builtin_hooks(rank: int, size: int) -> None:
    for hook, tolerance in ((dist.BuiltinCommHookType.ALLREDUCE, 1e-6), (dist.BuiltinCommHookType.FP16_COMPRESS, 1e-2)):
        reference = model().float()
        ddp = DDP(copy.deepcopy(reference), bucket_cap_mb=0.0001)
        ddp._register_builtin_comm_hook(hook)
        assert_gradients_stay_near(ddp, reference, 2, rank, size, tolerance)


class Preempted(Exception):
    """What the handler of a signal raises."""


def check_what_a_signal_handler_raises_while_ddp_waits(rank: int, size: int) -> None:
    """It is raised when DDP is through, so that the training can go on."""

    def handler(*_: object) -> None:
        raise Preempted

    before = signal.signal(signal.SIGUSR1, handler)
    arrives = partial(ctypes.CDLL(None)["raise"], int(signal.SIGUSR1))  # Python does not learn of it in this call
    store = dist.distributed_c10d._get_default_store()
    for step, hook in enumerate((None, default_hooks.fp16_compress_hook)):
        reference = model().float()
        ddp = DDP(copy.deepcopy(reference), bucket_cap_mb=0.0001)
        if hook is not None:
            ddp.register_comm_hook(None, hook)

        def at_end_of_backward(*_: object, step: int = step) -> None:
            Variable._execution_engine.queue_callback(arrives)
            store.set(f"some buckets wait in step {step}", "")

        ddp(mine(batch(0, size).float(), rank)).square().mean().backward()  # DDP makes its buckets after the first step
        ddp.zero_grad()
        whole = batch(0, size).float()
        if rank == 0:
            ddp.module.spare.register_full_backward_hook(at_end_of_backward)  # its bucket is under way
        loss = ddp(mine(whole, rank)).square().mean()
        if rank == 0:
            with pytest.raises(Preempted):
                loss.backward()
        else:
            store.wait([f"some buckets wait in step {step}"])
            loss.backward()
        reference(whole).square().mean().backward()
        for left, right in zip(ddp.module.parameters(), reference.parameters(), strict=True):
            torch.testing.assert_close(left.grad, right.grad, rtol=0, atol=2e-4)
    signal.signal(signal.SIGUSR1, before)


def check_sparse_gradients(rank: int, size: int) -> None:
    torch.manual_seed(0)
    whole = nn.Sequential(nn.Embedding(10, 3, sparse=True), nn.Linear(3, 2))
    tokens = torch.arange(2 * size) % 5
    for hook in ("none", "arena", "bf16", "int8"):
        reference = copy.deepcopy(whole)
        ddp = DDP(copy.deepcopy(whole), gradient_as_bucket_view=True)
        if hook == "arena":
            ddp.register_comm_hook(None, paceline.torch.arena_hook)
        elif hook != "none":
            paceline.torch.compress(ddp, hook)
        for _ in range(2):
            for net, some in ((ddp, tokens[2 * rank : 2 * rank + 2]), (reference, tokens)):
                net.zero_grad()
                net(some).square().mean().backward()
            for left, right in zip(ddp.parameters(), reference.parameters(), strict=True):
                assert left.grad is not None and right.grad is not None
                torch.testing.assert_close(left.grad.to_dense(), right.grad.to_dense())


def check_subgroups(rank: int, size: int) -> None:
    group = dist.new_group([0, 1])
    if rank < 2:
        reference = model()
        train(DDP(copy.deepcopy(reference), process_group=group), reference, rank, 2)


def check_compiled(rank: int, size: int) -> None:
    reference = model()
    train(torch.compile(DDP(copy.deepcopy(reference)), backend="aot_eager"), reference, rank, size, 2)  # type: ignore[arg-type]


CHECKS = [value for name, value in sorted(globals().items()) if name.startswith("check_")]
SLOW = {check_compiled}


@pytest.mark.parametrize(
    "check",
    [pytest.param(c, marks=[pytest.mark.smoke] * (c is check_no_sync)) for c in CHECKS if c not in SLOW],
    ids=lambda c: c.__name__.removeprefix("check_"),
)
def test_ddp(ranks: Ranks, check: Callable[..., None]) -> None:
    ranks(check, 3)


def test_compiled(ranks: Ranks) -> None:
    ranks(check_compiled, 2, deadline=300)
