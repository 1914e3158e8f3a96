"""arena_hook: DDP trains as without it, and its buckets are reduced where they lie."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel as DDP
from torch_ranks import Ranks

import paceline.torch
from paceline.process.current import runtime

ALGORITHM = 7
"""Where the event ring's rows say it."""
WIDTH = 300


class Net(nn.Module):
    """`spare` is used only when asked for; the buckets are large enough for the arena to matter."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.spare, self.last = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: Tensor, use_spare: bool = True) -> Tensor:
        hidden = self.first(x).tanh()
        result: Tensor = self.last(self.spare(hidden) if use_spare else hidden)
        return result


def model() -> Net:
    torch.manual_seed(0)
    return Net()


def pair(**options: Any) -> tuple[DDP, DDP]:
    """The same model through DDP with the hook and without."""
    hooked, plain = (DDP(model(), gradient_as_bucket_view=True, bucket_cap_mb=0.4, **options) for _ in range(2))
    hooked.register_comm_hook(None, paceline.torch.arena_hook)
    return hooked, plain


def step(net: nn.Module, number: int, rank: int, *inputs: Any) -> None:
    x = torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(100 * number + rank))
    net(x, *inputs).square().sum().backward()


def check_gradients(hooked: DDP, plain: DDP) -> None:
    for one, other in zip(hooked.parameters(), plain.parameters(), strict=True):
        assert (one.grad is None) == (other.grad is None)
        if one.grad is not None and other.grad is not None:
            torch.testing.assert_close(one.grad, other.grad)


def algorithms(count: int) -> set[str]:
    rows = [row for row in runtime().events() if row[3] == "all_reduce" and row[4] == "float32"]
    return {row[ALGORITHM] for row in rows[-count:]}


def check_training(rank: int, size: int) -> None:
    for options in ({}, {"static_graph": True}, {"find_unused_parameters": True}):
        for none in (True, False):
            hooked, plain = pair(**options)
            optimizers = [torch.optim.SGD(net.parameters(), 0.01, momentum=0.9) for net in (hooked, plain)]
            places = []
            for number in range(5):
                for net, optimizer in zip((plain, hooked), optimizers[::-1], strict=True):
                    optimizer.zero_grad(set_to_none=none)
                    step(net, number, rank)
                check_gradients(hooked, plain)
                for optimizer in optimizers:
                    optimizer.step()
                places.append([p.grad.data_ptr() for p in hooked.parameters() if p.grad is not None])
            assert algorithms(2) == {"in_place"}
            assert places[-1] == places[-2] == places[-3]


def check_unused_parameters(rank: int, size: int) -> None:
    hooked, plain = pair(find_unused_parameters=True)
    for number, used in enumerate((False, rank == 0, True, False, rank == 0, True, True)):
        for net in (plain, hooked):
            net.zero_grad()
            step(net, number, rank, used)
        check_gradients(hooked, plain)
    assert algorithms(2) == {"in_place"}


def check_accumulation(rank: int, size: int) -> None:
    hooked, plain = pair()
    for number in range(6):
        for net in (hooked, plain):
            if number % 3 < 2:
                with net.no_sync():
                    step(net, number, rank)
            else:
                step(net, number, rank)
        check_gradients(hooked, plain) if number % 3 == 2 else None


def check_without_views_it_copies(rank: int, size: int) -> None:
    hooked, plain = DDP(model()), DDP(model())
    hooked.register_comm_hook(dist.group.WORLD, paceline.torch.arena_hook)
    for number in range(3):
        for net in (plain, hooked):
            net.zero_grad()
            step(net, number, rank)
        check_gradients(hooked, plain)
    assert "in_place" not in algorithms(2)


def check_compressed(rank: int, size: int) -> None:
    _, plain = pair()
    wrapped = DDP(copy.deepcopy(plain.module), gradient_as_bucket_view=True)
    wrapped.register_comm_hook(None, default_hooks.fp16_compress_wrapper(paceline.torch.arena_hook))
    for number in range(3):
        for net in (plain, wrapped):
            net.zero_grad()
            step(net, number, rank)
        for one, other in zip(wrapped.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(one.grad, other.grad, rtol=1e-2, atol=1e-2)


CHECKS = [
    check_training,
    check_unused_parameters,
    check_accumulation,
    check_without_views_it_copies,
    check_compressed,
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__.removeprefix("check_"))
def test_arena_hook(ranks: Ranks, check: Callable[..., None]) -> None:
    ranks(check, 2)


def test_gradients_elsewhere_are_noticed() -> None:
    """If a torch kept gradients outside of the bucket that was moved, the reduction would go past them in silence."""

    class Bucket:
        def buffer(self) -> Tensor:
            return buffer

        def parameters(self) -> list[Tensor]:
            return [parameter]

    buffer, parameter = torch.zeros(4), torch.zeros(4)
    parameter.grad = torch.zeros(4)
    buffer._paceline_moved = True  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="left its buckets"):
        paceline.torch.arena_hook(None, Bucket())  # type: ignore[arg-type]
