"""ShardedOptimizer: parameters become those of the plain optimizer on the mean gradients, bit for bit."""

from __future__ import annotations

import gc
import os
import signal
import weakref
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import pytest
import torch
import torch.distributed as dist
from harness import Ranks
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.optim import Optimizer

from paceline.errors import CommunicationError, PeerLost
from paceline.runtime.process import runtime
from paceline.torch import GradientBuckets, ShardedOptimizer
from paceline.torch.sharded.bucket import LINE

CLASSES: dict[str, tuple[type[Optimizer], dict[str, Any]]] = {
    "sgd": (torch.optim.SGD, {"lr": 0.01}),
    "momentum": (torch.optim.SGD, {"lr": 0.01, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    "adam": (torch.optim.Adam, {"lr": 0.01, "amsgrad": True}),
    "adamw": (torch.optim.AdamW, {"lr": 0.01}),
    "fused": (torch.optim.AdamW, {"lr": 0.01, "fused": True}),
    "foreach": (torch.optim.AdamW, {"lr": 0.01, "foreach": True}),
    "rmsprop": (torch.optim.RMSprop, {"lr": 0.01, "momentum": 0.9, "centered": True}),
    "adagrad": (torch.optim.Adagrad, {"lr": 0.01}),
    "adadelta": (torch.optim.Adadelta, {}),
    "adamax": (torch.optim.Adamax, {}),
    "nadam": (torch.optim.NAdam, {}),
    "radam": (torch.optim.RAdam, {}),
    "rprop": (torch.optim.Rprop, {}),
    "asgd": (torch.optim.ASGD, {}),
}


class Net(nn.Module):
    """Three dtypes, a parameter without dimensions, one in another memory order, one used twice, one frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(36, 36) for _ in range(4))
        self.convolution = nn.Conv2d(1, 4, 4, stride=2).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.scale = nn.Parameter(torch.tensor(0.5, dtype=torch.float64))
        self.shift = nn.Parameter(torch.full((100,), 0.25, dtype=torch.bfloat16))
        self.frozen = nn.Parameter(torch.ones(16), requires_grad=False)

    def forward(self, x: Tensor, without: int | None = None) -> Tensor:
        for index, layer in enumerate(self.layers):
            x = x if index == without else layer(x).tanh()
        images = self.convolution(self.layers[0](x).reshape(-1, 1, 6, 6)).flatten(1)
        result: Tensor = images * self.scale.to(x.dtype) * self.frozen + self.shift[:16].to(x.dtype)
        return result


def model(seed: int = 0) -> Net:
    torch.manual_seed(seed)
    return Net()


def groups(net: nn.Module) -> list[dict[str, Any]]:
    """Matrices and the rest, as weight decay divides them."""
    flat = [parameter for parameter in net.parameters() if parameter.dim() < 2]
    return [{"params": [p for p in net.parameters() if p.dim() >= 2], "weight_decay": 0.2}, {"params": flat}]


def batch(step: int, rank: int) -> Tensor:
    return torch.randn(5, 36, generator=torch.Generator().manual_seed(1000 * step + rank))


def loss_of(net: Net, step: int, rank: int, without: int | None = None) -> Tensor:
    result: Tensor = net(batch(step, rank).to(net.frozen.dtype), without).square().mean()
    return result


def backward(net: Net, step: int, rank: int, without: int | None = None) -> None:
    loss_of(net, step, rank, without).backward()


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
    gc.collect()
    net.zero_grad()
    assert memory() is None
    if rank == 0:
        net(torch.ones(1, 64)).sum().backward()  # exchanges nothing any more
        assert net.weight.grad is not None and net.weight.grad.eq(1).all()


def check_ranks_disagree(rank: int, size: int) -> None:
    wide = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 5 if rank == 2 else 4))
    with pytest.raises(
        ValueError, match=r'on parameter 2 \("1.weight"\): float32\[4, 4\] in group 0 on rank 0, .*5, 4.*2'
    ):
        ShardedOptimizer(wide.named_parameters(), torch.optim.SGD)
    some = list(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)).parameters())
    with pytest.raises(ValueError, match=r"on parameter 3: float32\[4\] in group 0 on rank 0, nothing on rank 1"):
        ShardedOptimizer(some[:3] if rank == 1 else some, torch.optim.SGD)
    with pytest.raises(ValueError, match="on the optimizer: SGD on rank 0, Adam on rank 1"):
        ShardedOptimizer(some, torch.optim.Adam if rank == 1 else torch.optim.SGD)
    with pytest.raises(ValueError, match=r"on the buckets: bucket_bytes=100, .* on rank 0, bucket_bytes=200"):
        ShardedOptimizer(some, torch.optim.SGD, bucket_bytes=200 if rank == 1 else 100)
    images = nn.Conv2d(2, 2, 2)
    if rank == 1:
        images.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match=r"parameter 0: float32\[2, 2, 2, 2\] .* in memory order \[8, 1, 4, 2\]"):
        ShardedOptimizer(images.parameters(), torch.optim.SGD)
    some[0].requires_grad_(rank != 1)
    with pytest.raises(ValueError, match=r"parameter 0: .* on rank 0, .*frozen on rank 1"):
        ShardedOptimizer(some, torch.optim.SGD)
    dist.barrier()


class Lamb(torch.optim.SGD):
    """What makes LAMB what it is: steps as large as the parameter."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        with torch.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter -= group["lr"] * parameter.norm() * parameter.grad / parameter.grad.norm()


class OneDistance(torch.optim.SGD):
    """What makes Prodigy and D-Adaptation what they are: an estimate over all parameters scales the step."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        with torch.no_grad():
            for group in self.param_groups:
                found = sum(float((one.grad * one).sum()) for one in group["params"] if one.grad is not None)
                group["distance"] = max(group.get("distance", 1e-6), 1e-6 * abs(found))
                for one in group["params"]:
                    one -= group["lr"] * group["distance"] * one.grad.sign()


class Angles(torch.optim.SGD):
    """What makes AdamP what it is: a step nearly at right angles to a row loses its part along the row."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        with torch.no_grad():
            for group in self.param_groups:
                for one in group["params"]:
                    step = one.grad.sign()
                    if one.dim() > 1:
                        rows, steps = one.view(len(one), -1), step.view(len(one), -1)
                        cosine = nn.functional.cosine_similarity(rows, one.grad.view(len(one), -1), dim=1).abs().max()
                        if cosine < 0.1 / rows.shape[1] ** 0.5:
                            along = rows / rows.norm(dim=1, keepdim=True)
                            steps -= along * (along * steps).sum(dim=1, keepdim=True)
                    one -= group["lr"] * step


def check_what_it_refuses(rank: int, size: int) -> None:
    net = nn.Linear(4, 4)
    for kind in (torch.optim.Adafactor, torch.optim.LBFGS, Lamb, OneDistance, Angles, torch.optim.SparseAdam):
        with pytest.raises(ValueError, match=f"{kind.__name__} does not work element by element"):
            ShardedOptimizer(net.parameters(), kind)
    if hasattr(torch.optim, "Muon"):
        with pytest.raises(ValueError, match="Muon does not work element by element"):
            ShardedOptimizer([net.weight], torch.optim.Muon)
    with pytest.raises(ValueError, match="found one on meta"):
        ShardedOptimizer(nn.Linear(2, 2, device="meta").parameters(), torch.optim.SGD)
    with pytest.raises(ValueError, match="empty parameter list"):
        ShardedOptimizer([], torch.optim.SGD)
    with pytest.raises(ValueError, match="no such codec: 'zip'"):
        ShardedOptimizer(net.parameters(), torch.optim.SGD, codec="zip")
    gloo = dist.new_group(backend="gloo")
    with pytest.raises(TypeError, match="codecs need a process group of Paceline, found one of gloo"):
        ShardedOptimizer(net.parameters(), torch.optim.SGD, gloo, codec="bf16")
    with pytest.raises(TypeError, match="nonsense"):
        ShardedOptimizer(net.parameters(), torch.optim.SGD, nonsense=1)
    whole = nn.Parameter(torch.zeros(4, 4))
    for other in (whole.data, whole.data[1], whole.data.t()):
        with pytest.raises(ValueError, match=r"float32\[4.* and float32\[4.* share memory"):
            ShardedOptimizer([whole, nn.Parameter(other)], torch.optim.SGD)
    ShardedOptimizer([nn.Parameter(half) for half in whole.data.chunk(2)], torch.optim.SGD)
    table = nn.Embedding(4, 2, sparse=True)
    _optimizer = ShardedOptimizer(table.named_parameters(), torch.optim.SGD)
    with pytest.raises(TypeError, match=r'parameter 0 \("weight"\) has a sparse gradient'):
        table(torch.tensor([1])).sum().backward()


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


# -- gradients in any order ---------------------------------------------------------------------------------------

Pass = dict[str, Any]
PROGRAM: list[Pass] = [
    {"backward": [[None, 1, 2]], "quiet": False, "looks": False, "zero_early": False, "none": True, "zero": "model"},
    {
        "backward": [[3, 3, 3], [2, 3, None]],
        "quiet": True,
        "looks": True,
        "zero_early": False,
        "none": True,
        "zero": "",
    },
    {"backward": [[1, 3, 1]], "quiet": False, "looks": False, "zero_early": False, "none": False, "zero": "optimizer"},
]
"""Passes of three ranks."""


def check_program(rank: int, size: int, program: Sequence[Pass]) -> None:
    """The same as with GradientBuckets, whatever is left out, comes twice, is set to zero or looked at in between."""
    ours, theirs = model(rank).double(), model().double()
    optimizer = ShardedOptimizer(ours.parameters(), torch.optim.SGD, lr=0.01, momentum=0.9, bucket_bytes=12000)
    buckets = GradientBuckets(theirs, bucket_bytes=12000)
    plain = torch.optim.SGD(theirs.parameters(), lr=0.01, momentum=0.9)
    for number, one in enumerate(program):
        for net, exchange, steps in ((ours, optimizer, optimizer), (theirs, buckets, plain)):
            for part, withouts in enumerate(one["backward"]):
                quiet = part + 1 < len(one["backward"]) and one["quiet"]
                with exchange.no_sync() if quiet else nullcontext():
                    backward(net, 10 * number + part, rank, withouts[rank])
            if one["looks"]:
                torch.autograd.grad(loss_of(net, number, rank), list(net.layers.parameters()))
            if one["zero_early"]:
                net.zero_grad(set_to_none=one["none"])
            steps.step()
            if one["zero"] == "optimizer":
                steps.zero_grad(set_to_none=one["none"])
            elif one["zero"] == "model":
                net.zero_grad(set_to_none=one["none"])
        for (name, mine), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-13, msg=f"{name} after {number}")
    optimizer.close()
    buckets.close()


def programs(size: int) -> st.SearchStrategy[list[Pass]]:
    withouts = st.lists(st.sampled_from([None, 0, 1, 2, 3]), min_size=size, max_size=size)
    one = st.fixed_dictionaries(
        {
            "backward": st.lists(withouts, min_size=1, max_size=3),
            "quiet": st.booleans(),
            "looks": st.booleans(),
            "zero_early": st.booleans(),
            "none": st.booleans(),
            "zero": st.sampled_from(["optimizer", "model", ""]),
        }
    )
    return st.lists(one, min_size=1, max_size=4)


@pytest.mark.parametrize("size", [2, 3])
def test_gradients_in_any_order(ranks: Ranks, size: int) -> None:
    @settings(max_examples=12, deadline=None)
    @given(programs(size))
    def holds(program: list[Pass]) -> None:
        ranks(check_program, size, program=program)

    holds()


# -- failures -----------------------------------------------------------------------------------------------------


def train(net: Net, rank: int) -> None:
    for step in range(2):
        backward(net, step, rank)


def abort_in_backward(rank: int, size: int) -> None:
    net = model()
    _optimizer = ShardedOptimizer(net.parameters(), torch.optim.SGD, bucket_bytes=6000)
    if rank == 0:
        group: Any = dist.group.WORLD
        backward(net, 0, rank)
        group.abort()
    else:
        with pytest.raises(CommunicationError, match="rank 0 called abort"):
            train(net, rank)


def die_before_the_step(rank: int, size: int) -> None:
    net = model()
    optimizer = ShardedOptimizer(net.parameters(), torch.optim.SGD)
    backward(net, 0, rank)
    if rank == size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(PeerLost, match=f"rank {size - 1} "):
        optimizer.step()


def test_a_rank_aborts(ranks: Ranks) -> None:
    ranks(abort_in_backward, 2, fresh=True)


def test_a_rank_dies_before_the_step(ranks: Ranks) -> None:
    with pytest.raises(AssertionError, match=r"rank 2 failed first:\nthe process died with exit code -9$"):
        ranks(die_before_the_step, 3, fresh=True)
