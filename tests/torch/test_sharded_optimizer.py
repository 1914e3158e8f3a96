"""ShardedOptimizer: parameters become those of the plain optimizer on the mean gradients, bit for bit."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.distributed as dist
from sharded_training import CLASSES, Net, backward, batch, groups, loss_of, model
from torch import Tensor, nn
from torch.optim import Optimizer
from torch_ranks import Ranks

from paceline.process.current import runtime
from paceline.torch import GradientBuckets, ShardedOptimizer
from paceline.torch.sharded.bucket import LINE


def assert_same(left: nn.Module, right: nn.Module) -> None:
    for (name, one), other in zip(left.named_parameters(), right.parameters(), strict=True):
        assert torch.equal(one, other), name
        assert one.stride() == other.stride()


def assert_same_state(left: dict[str, Any], right: dict[str, Any]) -> None:
    assert left["param_groups"] == right["param_groups"]
    without = right["state"].keys() - left["state"].keys()
    assert all(right["state"][number]["sum"].eq(0).all() for number in without)  # Adagrad's, of what is frozen
    for number, state in right["state"].items():
        if number in without:
            continue
        assert left["state"][number].keys() == state.keys()
        for key, value in state.items():
            ours = left["state"][number][key]
            assert type(ours) is type(value)
            same = torch.equal(ours, value) if isinstance(value, Tensor) else ours == value
            assert same and getattr(ours, "dtype", None) == getattr(value, "dtype", None), (number, key)


SIZES_OF_BUCKETS = (1, 6000, 1 << 20)


def check_training_is_the_plain_optimizers(
    rank: int, size: int, name: str, sizes: Sequence[int] = SIZES_OF_BUCKETS
) -> None:
    kind, options = CLASSES[name]
    for bucket_bytes in sizes:
        ours, theirs = model(rank), model()
        optimizer = ShardedOptimizer(groups(ours), kind, bucket_bytes=bucket_bytes, **options)
        buckets, plain = GradientBuckets(theirs), kind(groups(theirs), **options)
        assert_same(ours, theirs)
        for step in range(4):
            for net, one in ((ours, optimizer), (theirs, plain)):
                one.zero_grad()
                backward(net, step, rank)
                one.step()
            assert_same(ours, theirs)
        optimizer.consolidate_state_dict(None)
        assert_same_state(optimizer.state_dict(), plain.state_dict())
        optimizer.close()
        buckets.close()


def check_a_codec_changes_nothing_on_one_machine(rank: int, size: int) -> None:
    """Also where parameters are changed by others, and the state holds them exact."""
    for codec in ("bf16", "none"):
        ours, theirs = model(), model()
        optimizers = [
            ShardedOptimizer(groups(net), torch.optim.AdamW, codec=given)
            for net, given in ((ours, codec), (theirs, None))
        ]
        for step in range(3):
            for net, optimizer in zip((ours, theirs), optimizers, strict=True):
                optimizer.zero_grad()
                backward(net, step, rank)
                optimizer.step()
                if step < 2:
                    with torch.no_grad():
                        net.layers[step].weight.clamp_(-0.05, 0.05)
                    net.layers[3].bias.data = net.layers[3].bias.detach() * 0.5
            assert_same(ours, theirs)
        for optimizer in optimizers:
            optimizer.consolidate_state_dict(None)
        state = optimizers[0].state_dict()
        exact = {number: given.pop("exact_parameter", None) for number, given in state["state"].items()}
        assert_same_state(state, optimizers[1].state_dict())
        ordered = [parameter for group in groups(ours) for parameter in group["params"]]
        for number, value in exact.items():
            assert (value is not None) == (codec == "bf16" and ordered[number].dtype == torch.float32)
            assert value is None or torch.equal(value, ordered[number])
        for optimizer in optimizers:
            optimizer.close()


def check_memory_is_one_part(rank: int, size: int) -> None:
    net = nn.Sequential(*(nn.Linear(100, 100) for _ in range(10)))
    optimizer = ShardedOptimizer(net.parameters(), torch.optim.AdamW, bucket_bytes=100_000)
    net(torch.ones(1, 100)).sum().backward()
    optimizer.step()
    states = [value for state in optimizer.local.state.values() for value in state.values() if value.dim()]
    mine = sum(value.nbytes for value in states)
    whole = sum(2 * parameter.nbytes for parameter in net.parameters())
    assert abs(mine - whole / size) <= 2 * LINE * (len(optimizer._buckets) + 20 / size)
    everybodys = torch.tensor([mine])
    dist.all_reduce(everybodys)
    assert everybodys.item() == whole


def check_nothing_moves(rank: int, size: int) -> None:
    """Parameters and gradients stay in the arena, where the collectives find them."""
    net = nn.Sequential(nn.Linear(300, 300), nn.Linear(300, 300))
    optimizer = ShardedOptimizer(net.parameters(), torch.optim.SGD, lr=0.1)
    begin = min(parameter.data_ptr() for parameter in net.parameters())
    places = []
    for _ in range(3):
        optimizer.zero_grad()
        net(torch.randn(4, 300)).sum().backward()
        optimizer.step()
        places.append([(p.data_ptr() - begin, p.grad.data_ptr()) for p in net.parameters() if p.grad is not None])
    assert places[0] == places[1] == places[2]
    assert len(places[0]) == 4
    assert max(offset for offset, _ in places[0]) < sum(parameter.nbytes for parameter in net.parameters()) + 4 * LINE


def check_clipping(rank: int, size: int) -> None:
    for order in (2.0, 1.0, 3.0, float("inf")):
        for most in (0.1, 1e9):
            ours, theirs = model().double(), model().double()
            optimizer = ShardedOptimizer(ours.parameters(), torch.optim.SGD, lr=0.1, bucket_bytes=6000)
            GradientBuckets(theirs)
            plain = torch.optim.SGD(theirs.parameters(), lr=0.1)
            for net in (ours, theirs):
                backward(net, 0, rank, 2)
            norm = optimizer.clip_grad_norm_(most, order)
            torch.testing.assert_close(norm, nn.utils.clip_grad_norm_(theirs.parameters(), most, order))
            for one in (optimizer, plain):
                one.step()
            for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
                torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-14)
            optimizer.close()
    gradient = ours.layers[0].weight.grad
    assert gradient is not None
    gradient.fill_(float("nan"))
    with pytest.raises(RuntimeError, match=r"norm of order 2\.0 is nan"):
        optimizer.clip_grad_norm_(1.0, error_if_nonfinite=True)


def check_schedules(rank: int, size: int) -> None:
    def schedules(optimizer: Optimizer) -> list[Any]:
        return [
            torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=8),
            torch.optim.lr_scheduler.StepLR(optimizer, 2),
        ]

    ours, theirs = model(), model()
    optimizer = ShardedOptimizer(groups(ours), torch.optim.AdamW)
    GradientBuckets(theirs)
    plain = torch.optim.AdamW(groups(theirs))
    assert optimizer.defaults == plain.defaults
    assert [sorted(group) for group in optimizer.param_groups] == [sorted(group) for group in plain.param_groups]
    every = [(net, one, schedules(one)) for net, one in ((ours, optimizer), (theirs, plain))]
    for step in range(6):
        for net, one, planned in every:
            one.zero_grad()
            backward(net, step, rank)
            one.step()
            for schedule in planned:
                schedule.step()
        assert_same(ours, theirs)


def check_a_step_is_one_step(rank: int, size: int) -> None:
    """For whoever counts training steps: trying the wrapped class is none, and its own step is no other."""
    steps = runtime().annotations.steps
    net = model()
    before = steps.count
    optimizer = ShardedOptimizer(net.parameters(), torch.optim.AdamW)
    for step in range(3):
        optimizer.zero_grad()
        backward(net, step, rank)
        optimizer.step()
        assert steps.count == before + step + 1


def check_a_closure(rank: int, size: int) -> None:
    ours, theirs = model(), model()
    optimizer = ShardedOptimizer(ours.parameters(), torch.optim.Adam)
    GradientBuckets(theirs)
    plain = torch.optim.Adam(theirs.parameters())
    for step in range(3):
        losses = []
        for net, one in ((ours, optimizer), (theirs, plain)):

            def closure(net: Net = net, one: Optimizer = one, step: int = step) -> Tensor:
                one.zero_grad()
                loss = loss_of(net, step, rank)
                loss.backward()
                return loss

            losses.append(one.step(closure))  # type: ignore[arg-type]
        assert losses[0] == losses[1]
        assert_same(ours, theirs)


def check_what_is_frozen_joins_later(rank: int, size: int) -> None:
    ours, theirs = model(), model()
    for net in (ours, theirs):
        net.layers[3].requires_grad_(False)
    pairs: list[tuple[Net, Optimizer]] = []
    for net, make in ((ours, ShardedOptimizer), (theirs, lambda params, kind: kind(params))):
        some = [p for name, p in net.named_parameters() if "layers.3" not in name]
        pairs.append((net, make(some, torch.optim.AdamW)))  # type: ignore[operator]
    buckets = GradientBuckets(theirs)
    for step in range(4):
        if step == 2:
            buckets.close()
            for net, optimizer in pairs:
                net.layers[3].requires_grad_(True)
                with torch.no_grad():
                    net.layers[3].weight.fill_(float(rank) if net is ours else 0.0)
                    net.layers[3].bias.zero_()
                optimizer.add_param_group({"params": net.layers[3].parameters(), "lr": 0.02})
            GradientBuckets(theirs)
        for net, optimizer in pairs:
            optimizer.zero_grad()
            backward(net, step, rank)
            optimizer.step()
        assert_same(ours, theirs)
    optimizer = ShardedOptimizer(ours.parameters(), torch.optim.AdamW)
    ours.frozen.requires_grad_(True)
    backward(ours, 9, rank)
    with pytest.raises(RuntimeError, match="parameter 2 was frozen"):
        optimizer.step()


def check_parameters_that_were_replaced(rank: int, size: int) -> None:
    """As averages of weights are swapped in and out, and parameters set from a vector."""
    ours, theirs = model(), model()
    optimizer = ShardedOptimizer(ours.parameters(), torch.optim.SGD, lr=0.1)
    GradientBuckets(theirs)
    plain = torch.optim.SGD(theirs.parameters(), lr=0.1)
    for step in range(3):
        for net, one in ((ours, optimizer), (theirs, plain)):
            for parameter in net.parameters():
                parameter.data = parameter.detach() * 0.5
            one.zero_grad()
            backward(net, step, rank)
            for parameter in net.parameters():
                if parameter.grad is not None:
                    parameter.grad = parameter.grad * 0.25
            one.step()
        assert_same(ours, theirs)
    ours.layers[1].double()
    optimizer.zero_grad()
    with pytest.raises(RuntimeError, match=r"parameter \d+ was float32\[36\] when .* now float64\[36\]"):
        optimizer.step()


def check_only_what_was_exchanged_is_stepped(rank: int, size: int) -> None:
    net = model()
    named = [(name, parameter) for name, parameter in net.named_parameters()]
    optimizer = ShardedOptimizer(named, torch.optim.SGD, lr=0.1)
    with optimizer.no_sync():
        backward(net, 0, rank)
    with pytest.raises(RuntimeError, match=r'gradient of parameter \d+ \(".*"\) is not the mean'):
        optimizer.step()
    backward(net, 1, rank)
    optimizer.step()
    net.zero_grad()
    optimizer.step()
    net.scale.grad = torch.ones_like(net.scale)
    optimizer.step()  # it had a mean, which was changed by hand


def _zero(net: nn.Module) -> None:
    net.zero_grad(set_to_none=False)


def _halve(net: nn.Module) -> None:
    for parameter in net.parameters():
        if parameter.grad is not None:
            parameter.grad.mul_(0.5)


def check_means_that_later_passes_add_to(rank: int, size: int) -> None:
    """The mean of a pass is a gradient as any other: the user may set it to zero or scale it between passes."""
    for change in (_zero, _halve, nn.Module.zero_grad, lambda net: None):
        for before in (True, False):
            ours, theirs = model().double(), model().double()
            wrapped = nn.parallel.DistributedDataParallel(theirs)
            optimizer = ShardedOptimizer(ours.parameters(), torch.optim.SGD, lr=0.1)
            plain = torch.optim.SGD(theirs.parameters(), lr=0.1)
            for net, sync in ((ours, optimizer), (wrapped, wrapped)):
                for step in range(2):
                    net(batch(step, rank).double()).square().mean().backward()
                    with sync.no_sync():
                        if before:
                            change(net)  # type: ignore[operator]
                        net(batch(step + 10, rank).double()).square().mean().backward()
                        if not before:
                            change(net)  # type: ignore[operator]
                net(batch(20, rank).double()).square().mean().backward()
            optimizer.step()
            plain.step()
            for one, right in zip(ours.parameters(), theirs.parameters(), strict=True):
                torch.testing.assert_close(one, right, rtol=1e-12, atol=1e-12)
            optimizer.close()


def check_a_subgroup(rank: int, size: int) -> None:
    group = dist.new_group([1, 2])
    if rank == 0:
        return
    ours, theirs = model(rank), model(1)
    optimizer = ShardedOptimizer(ours.parameters(), torch.optim.AdamW, group)
    GradientBuckets(theirs, group)
    plain = torch.optim.AdamW(theirs.parameters())
    for step in range(2):
        for net, one in ((ours, optimizer), (theirs, plain)):
            one.zero_grad()
            backward(net, step, rank)
            one.step()
        assert_same(ours, theirs)
    optimizer.consolidate_state_dict(to=1)
    if rank == 2:
        assert_same_state(optimizer.state_dict(), plain.state_dict())
    else:
        with pytest.raises(RuntimeError, match="state lies in shards"):
            optimizer.state_dict()


def check_it_lives_as_long_as_somebody_holds_it(rank: int, size: int) -> None:
    net = nn.Linear(64, 64)
    optimizer = ShardedOptimizer(net.parameters(), torch.optim.AdamW)
    memory = weakref.ref(optimizer._buckets[0].flat)
    net(torch.ones(1, 64)).sum().backward()
    gc.collect()
    assert memory() is not None
    del optimizer
    net.zero_grad()
    end = time.monotonic() + 100
    while memory() is not None:  # until the thread that has told of the last exchange lets go of it
        assert time.monotonic() < end
        gc.collect()
    if rank == 0:
        net(torch.ones(1, 64)).sum().backward()  # exchanges nothing any more
        assert net.weight.grad is not None and net.weight.grad.eq(1).all()


CHECKS = [
    value for name, value in sorted(globals().items()) if name.startswith("check_") and "plain_optimizer" not in name
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__.removeprefix("check_"))
def test_sharded_optimizer(ranks: Ranks, check: Callable[..., None]) -> None:
    ranks(check, 3)


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize(("size", "sizes"), [(2, SIZES_OF_BUCKETS[::2]), (3, SIZES_OF_BUCKETS[1:2])], ids=["2", "3"])
def test_training_is_the_plain_optimizers(ranks: Ranks, name: str, size: int, sizes: Sequence[int]) -> None:
    ranks(check_training_is_the_plain_optimizers, size, name=name, sizes=sizes)


@pytest.mark.parametrize("size", [1, 4])
def test_one_rank_and_four(ranks: Ranks, size: int) -> None:
    for name in ("momentum", "adamw"):
        ranks(check_training_is_the_plain_optimizers, size, name=name)
    ranks(check_memory_is_one_part, size)
