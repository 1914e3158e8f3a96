"""GradientBuckets: gradients in the arena are DDP's, bit for bit, in whatever way they come."""

from __future__ import annotations

import copy
import gc
import pickle
import time
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint
from torch_ranks import Ranks

import paceline.torch
from paceline.errors import CommunicationError, Mismatch
from paceline.process.current import runtime
from paceline.torch.bucket import assign

sgd = torch.optim.SGD
ALGORITHM = 7
"""Where the event ring's rows say it."""


class Weights(NamedTuple):
    weight: float


class Net(nn.Module):
    """Each of the inner layers may be left out; the first one is used twice; two dtypes."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))
        self.again = self.layers[0]
        self.convolution = nn.Conv2d(1, 4, 3).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.scale = nn.Parameter(torch.tensor(0.5, dtype=torch.float64))
        self.frozen = nn.Parameter(torch.ones(16), requires_grad=False)
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x: Tensor, without: int | None = None) -> Tensor:
        for index, layer in enumerate(self.layers):
            x = x if index == without else layer(x).tanh()
        images = self.convolution(x.reshape(-1, 1, 4, 4)).flatten(1)
        result: Tensor = self.again(images * self.scale.float()) * self.frozen
        return result


def model(seed: int = 0) -> Net:
    torch.manual_seed(seed)
    return Net()


def batch(step: int, rank: int) -> Tensor:
    return torch.randn(5, 16, generator=torch.Generator().manual_seed(1000 * step + rank))


def backward(net: nn.Module, step: int, rank: int, without: int | None = None) -> None:
    net(batch(step, rank), without).square().sum().backward()


def train(net: nn.Module, rank: int) -> None:
    for step in range(2):
        backward(net, step, rank)


def gradients(net: nn.Module) -> list[Tensor | None]:
    return [parameter.grad for parameter in net.parameters()]


def assert_same(left: nn.Module, right: nn.Module) -> None:
    """Sums of two halves have no order, so they must be equal; of more ranks DDP over Gloo has another order."""
    exact = dist.get_world_size() == 2
    for ours, theirs in zip(gradients(left), gradients(right), strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None and theirs is not None:
            torch.testing.assert_close(ours, theirs, rtol=0 if exact else 1e-6, atol=0 if exact else 1e-6)


def assert_equal_on_all_ranks(net: nn.Module) -> None:
    for gradient in gradients(net):
        missing = torch.tensor([gradient is None], dtype=torch.int32)
        dist.all_reduce(missing)
        assert missing.item() in (0, dist.get_world_size())
        if gradient is not None:
            everybody = [torch.empty_like(gradient) for _ in range(dist.get_world_size())]
            dist.all_gather(everybody, gradient)
            assert all(torch.equal(gradient, other) for other in everybody)


def check_training_is_ddps(rank: int, size: int) -> None:
    gloo = dist.new_group(backend="gloo")
    for none, bucket_bytes in ((True, 1), (False, 1500), (True, 1 << 20)):
        ours, theirs = model(rank), DDP(model(), process_group=gloo)
        ours.seen += rank
        buckets = paceline.torch.GradientBuckets(ours, bucket_bytes=bucket_bytes)
        assert ours.seen.eq(0).all()
        assert len(buckets._buckets) == {1: 11, 1500: 3, 1 << 20: 2}[bucket_bytes]
        optimizers = [torch.optim.SGD(net.parameters(), 0.05, momentum=0.9) for net in (ours, theirs)]
        for step in range(4):
            for net, optimizer in zip((ours, theirs), optimizers, strict=True):
                optimizer.zero_grad(set_to_none=none)
                backward(net, step, rank)
            assert_same(ours, theirs.module)
            for optimizer in optimizers:
                optimizer.step()
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
            assert one.grad is None or one.grad.stride() == one.stride()


def check_nothing_is_copied(rank: int, size: int) -> None:
    """Gradients stay where they are, and every bucket is reduced in place, from the first step on."""
    net = nn.Sequential(nn.Linear(300, 300), nn.Linear(300, 300))
    paceline.torch.GradientBuckets(net, bucket_bytes=100_000)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    places = []
    for _ in range(3):
        optimizer.zero_grad()
        net(torch.randn(4, 300)).sum().backward()
        optimizer.step()
        rows = runtime().events()[-2:]
        assert [row[ALGORITHM] for row in rows] == ["in_place"] * 2
        places.append([g.data_ptr() for g in gradients(net) if g is not None])
    assert places[0] == places[1] == places[2]
    assert len(places[0]) == 4


def check_unused_parameters(rank: int, size: int) -> None:
    for bucket_bytes in (1, 1500, 1 << 20):
        ours, theirs = model(), DDP(model(), find_unused_parameters=True)
        paceline.torch.GradientBuckets(ours, bucket_bytes=bucket_bytes)
        for step, without in enumerate((1, 2 if rank == 0 else 3, 2 if rank == 0 else None, 1, None)):
            for net in (ours, theirs):
                net.zero_grad()
                backward(net, step, rank, without)
            assert_same(ours, theirs.module)
            assert_equal_on_all_ranks(ours)


def check_a_gradient_that_nobody_has_keeps_its_value(rank: int, size: int) -> None:
    ours, theirs = model(), DDP(model(), find_unused_parameters=True)
    paceline.torch.GradientBuckets(ours)
    for without in (None, 1, 2):
        for net in (ours, theirs):
            backward(net, 0, rank, without)
        assert_equal_on_all_ranks(ours)
    for ours_, theirs_ in zip(gradients(ours), gradients(theirs), strict=True):
        if ours_ is not None and theirs_ is not None:
            torch.testing.assert_close(ours_, theirs_)


def check_accumulation(rank: int, size: int) -> None:
    ours, theirs = model(), DDP(model())
    buckets = paceline.torch.GradientBuckets(ours, bucket_bytes=1500)
    for step in range(7):
        quiet = step in (0, 1, 4)  # 2, 3, 5 and 6 reduce; 3 and 6 on top of what was reduced already
        for net, no_sync in ((ours, buckets.no_sync), (theirs, theirs.no_sync)):
            with no_sync() if quiet else nullcontext():
                backward(net, step, rank)
        if not quiet:
            torch.testing.assert_close(gradients(ours), gradients(theirs.module))
            assert_equal_on_all_ranks(ours)
        if step == 3:
            ours.zero_grad()
            theirs.zero_grad()


def check_several_losses_in_one_step(rank: int, size: int) -> None:
    """Forward passes first, then their backward passes, each of which reaches other parameters."""
    ours, theirs = model(), model()
    paceline.torch.GradientBuckets(ours, bucket_bytes=1500)
    losses = [ours(batch(step, rank), step).square().sum() for step in (1, 2)]
    for loss in losses:
        loss.backward()
    for step in (1, 2):
        sum(theirs(batch(step, other), step).square().sum() for other in range(size)).div(size).backward()
    torch.testing.assert_close(gradients(ours), gradients(theirs), rtol=1e-5, atol=1e-5)


def _clamp(parameter: Tensor) -> None:
    assert parameter.grad is not None
    parameter.grad.clamp_(-0.5, 0.5)


def _replace(parameter: Tensor) -> None:
    assert parameter.grad is not None
    parameter.grad = parameter.grad * 2


def _other_memory(net: nn.Module) -> None:
    for parameter in net.parameters():
        if parameter.grad is not None:
            parameter.grad.data = parameter.grad.data * 0.5


def _other_order(net: nn.Module) -> None:
    """Changes the order of elements in memory, also of a square matrix at the same address."""
    net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    for parameter in net.parameters():
        if parameter.grad is not None and parameter.grad.dim() == 2:
            parameter.grad.data = parameter.grad.data.t()


def _new_gradients(net: nn.Module) -> None:
    for parameter in net.parameters():
        if parameter.grad is not None:
            parameter.grad = torch.ones_like(parameter)


def check_gradients_that_the_user_changes(rank: int, size: int) -> None:
    """Between passes, with new memory or another order of it, and during a pass, by hooks that come after ours."""
    for change in (_other_memory, _other_order, _new_gradients):
        for none in (True, False, None):
            ours, theirs = model(), DDP(model())
            paceline.torch.GradientBuckets(ours, bucket_bytes=1500)
            for step in range(3):
                for net in (ours, theirs):
                    backward(net, step, rank)
                assert_same(ours, theirs.module)
                for net in (ours, theirs.module):
                    change(net)
                    if none is not None:
                        net.zero_grad(set_to_none=none)
    for hook in (_clamp, _replace):
        ours, theirs = model(), model()
        paceline.torch.GradientBuckets(ours, bucket_bytes=1)
        for net in (ours, theirs):
            for parameter in net.parameters():
                if parameter.requires_grad:
                    parameter.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]
        wrapped = DDP(theirs)
        for step in range(2):
            for net in (ours, wrapped):
                net.zero_grad()
                backward(net, step, rank)
            assert_same(ours, theirs)


def check_a_dtype_that_changes(rank: int, size: int) -> None:
    net = nn.Linear(4, 4)
    paceline.torch.GradientBuckets(net)
    net.double()
    with pytest.raises(TypeError, match=r"was float32\[4(, 4)?\] when .* now has a gradient of float64\[4"):
        net(torch.ones(2, 4).double()).sum().backward()


def check_weights_of_zero(rank: int, size: int) -> None:
    """A gradient that only a rank of weight 0 has is zero on all ranks, and none of them lacks it."""
    net: Any = nn.ModuleDict({name: nn.Linear(2, 1) for name in ("everywhere", "on_one_rank", "nowhere")})
    batches = Weights([0.0, 1.5, 1.5][rank])
    paceline.torch.GradientBuckets(net, batches=batches)
    x = torch.full((3, 2), rank + 1.0)
    (net["everywhere"](x) + (net["on_one_rank"](x) if rank == 0 else 0)).sum().backward()
    assert net["everywhere"].weight.grad.eq((2 + 3) * 3 / 2).all()
    assert net["on_one_rank"].weight.grad.eq(0).all()
    assert net["nowhere"].weight.grad is None


def check_checkpoints(rank: int, size: int) -> None:
    for reentrant in (False, True):
        ours, theirs = model(), model()
        paceline.torch.GradientBuckets(ours, bucket_bytes=1)
        for net in (ours, theirs):
            x = batch(0, rank).requires_grad_()
            for layer in net.layers[1:]:
                x = checkpoint(layer, x, use_reentrant=reentrant)
            x.square().sum().backward()
        for one, other in zip(gradients(ours), gradients(theirs), strict=True):
            assert (one is None) == (other is None)
            if one is not None and other is not None:
                dist.all_reduce(other, dist.ReduceOp.AVG)
                torch.testing.assert_close(one, other)


class Broken(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        raise KeyError("broken layer")


def check_an_exception_in_backward(rank: int, size: int) -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    buckets = paceline.torch.GradientBuckets(net, bucket_bytes=1)
    kept: list[BaseException] = []
    with pytest.raises(KeyError, match="broken layer") as caught:
        net[1](Broken.apply(net[0](torch.ones(2, 4)))).sum().backward()  # type: ignore[no-untyped-call]
    kept.append(caught.value)
    with pytest.raises(RuntimeError, match="backward pass before this one raised"):
        net(torch.ones(2, 4)).sum().backward()
    buckets.close()
    net.zero_grad()
    net(torch.ones(2, 4)).sum().backward()
    again = paceline.torch.GradientBuckets(net)
    with pytest.raises(KeyError, match="broken layer"):
        net[1](Broken.apply(net[0](torch.ones(2, 4)))).sum().backward()  # type: ignore[no-untyped-call]
    again = paceline.torch.GradientBuckets(net)  # takes over what has failed
    net.zero_grad()
    net(torch.full((2, 4), rank + 1.0)).sum().backward()
    assert_equal_on_all_ranks(net)
    again.close()


def check_an_exception_on_one_rank(rank: int, size: int) -> None:
    """The others, which wait for its gradients, hear of it at once."""
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    paceline.torch.GradientBuckets(net, bucket_bytes=1)
    hidden = net[0](torch.ones(2, 4))
    words = "broken layer" if rank == 1 else "rank 1 .* raised before it began: .*the backward pass raised an exception"
    with pytest.raises(KeyError if rank == 1 else Mismatch, match=words):
        net[1](Broken.apply(hidden) if rank == 1 else hidden).sum().backward()  # type: ignore[no-untyped-call]
    dist.barrier()


class Inner(torch.autograd.Function):
    """Its backward runs one of its own, on a parameter that the outer one has been at already."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, layer: nn.Linear) -> Tensor:
        ctx.layer = layer
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        with torch.enable_grad():
            ctx.layer(torch.ones(2, 4)).sum().backward()
        return gradient, None


def check_a_second_gradient_after_the_first_was_sent(rank: int, size: int) -> None:
    net = nn.Linear(4, 4, bias=False)
    paceline.torch.GradientBuckets(net)
    with pytest.raises(RuntimeError, match="got a second gradient"):
        net(Inner.apply(torch.ones(2, 4, requires_grad=True), net)).sum().backward()  # type: ignore[no-untyped-call]
    dist.barrier()  # who ends with a collective under way fails it for those that have yet to come there


def check_they_live_as_long_as_the_model(rank: int, size: int) -> None:
    net = nn.Linear(4, 4)
    buckets = paceline.torch.GradientBuckets(net)
    exchange, memory = weakref.ref(buckets._exchange), weakref.ref(buckets._buckets[0].flat)
    del buckets
    gc.collect()
    assert exchange() is not None
    net(torch.ones(1, 4)).sum().backward()
    assert memory() is not None
    del net
    gc.collect()
    assert exchange() is None
    deadline = time.monotonic() + 60
    while memory() is not None and time.monotonic() < deadline:  # the engine's thread may have yet to let go of it
        time.sleep(0.001)
    assert memory() is None


def check_low_precision_and_complex(rank: int, size: int) -> None:
    for dtype in (torch.bfloat16, torch.float16, torch.complex64):
        net = nn.Linear(8, 8).to(dtype)
        paceline.torch.GradientBuckets(net)
        net(torch.full((1, 8), rank + 1, dtype=dtype)).abs().sum().backward()
        assert net.weight.grad is not None and net.weight.grad.dtype == dtype
        assert_equal_on_all_ranks(net)


def check_ranks_disagree(rank: int, size: int) -> None:
    turned = nn.Linear(5, 3, bias=False) if rank == 1 else nn.Linear(3, 5, bias=False)
    with pytest.raises(ValueError, match=r'parameter "weight": float32\[5, 3\] on rank 0, float32\[3, 5\] on rank 1'):
        paceline.torch.GradientBuckets(turned)
    images = nn.Conv2d(2, 2, 2)
    if rank == 2:
        images.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match=r'"weight": .* on rank 0, .* in memory order \[8, 1, 4, 2\] on rank 2'):
        paceline.torch.GradientBuckets(images)
    net = nn.Linear(2, 2)
    with pytest.raises(ValueError, match="on the buckets: bucket_bytes=100, codec=None on rank 0, bucket_bytes=200"):
        paceline.torch.GradientBuckets(net, bucket_bytes=200 if rank == 1 else 100)
    net.bias.requires_grad_(rank != 1)
    with pytest.raises(ValueError, match=r'parameter "bias": float32\[2\] on rank 0, float32\[2\], frozen on rank 1'):
        paceline.torch.GradientBuckets(net)


def _new_head(net: nn.Sequential) -> None:
    net[1] = nn.Linear(4, 4)


def _assigned(net: nn.Sequential) -> None:
    net.load_state_dict({name: value.clone() for name, value in net.state_dict().items()}, assign=True)


def _unfrozen(net: nn.Sequential) -> None:
    net[2].requires_grad_(True)


def _more(net: nn.Sequential) -> None:
    net.append(nn.Linear(4, 4))


def check_parameters_that_train_later_are_refused(rank: int, size: int) -> None:
    for change, name in (
        (_new_head, "1.weight"),
        (_assigned, "0.weight"),
        (_unfrozen, "2.weight"),
        (_more, "3.weight"),
    ):
        for by_forward in (True, False):
            net = nn.Sequential(*(nn.Linear(4, 4) for _ in range(3)))
            net[2].requires_grad_(False)
            buckets = paceline.torch.GradientBuckets(net)
            copies = [copy.deepcopy(net), pickle.loads(pickle.dumps(net))]
            kept = net[0](torch.ones(2, 4))
            change(net)
            with pytest.raises(RuntimeError, match=f'parameter "{name}" trains, but its gradient is not exchanged'):
                net(torch.ones(2, 4)) if by_forward else kept.sum().backward()
            for one in copies:
                change(one)
                one(torch.ones(2, 4)).sum().backward()
            net.eval()(torch.ones(2, 4))
            buckets.close()
            net.train()(torch.ones(2, 4)).sum().backward()


def check_parameters_that_go(rank: int, size: int) -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    paceline.torch.GradientBuckets(net, codec="int8")
    for _ in range(2):
        net(torch.full((2, 4), rank + 1.0)).sum().backward()
        assert_equal_on_all_ranks(net)
        if len(net) > 1:
            del net[1]


def check_a_graph_of_gradients(rank: int, size: int) -> None:
    net = nn.Linear(4, 4)
    buckets = paceline.torch.GradientBuckets(net)
    with buckets.no_sync():
        net(torch.ones(2, 4)).square().sum().backward(create_graph=True)
    assert net.weight.grad is not None and net.weight.grad.requires_grad
    net.zero_grad()
    with pytest.raises(RuntimeError, match=r"leave out backward\(create_graph=True\)"):
        net(torch.ones(2, 4)).square().sum().backward(create_graph=True)


def check_the_last_exchange_of_a_model_counts(rank: int, size: int) -> None:
    ours, theirs = model(), DDP(model())
    paceline.torch.GradientBuckets(ours.layers)
    for bucket_bytes in (1, 1 << 20):
        paceline.torch.GradientBuckets(ours, bucket_bytes=bucket_bytes)
        for net in (ours, theirs):
            net.zero_grad()
            backward(net, 0, rank)
        assert_same(ours, theirs.module)


def check_a_nan_that_weighs_nothing(rank: int, size: int) -> None:
    net = nn.Linear(2, 1)
    paceline.torch.GradientBuckets(net, batches=Weights(0.0 if rank == 1 else size / (size - 1)))
    net(torch.full((1, 2), float("nan") if rank == 1 else 1.0)).sum().backward()
    assert net.weight.grad is not None
    torch.testing.assert_close(net.weight.grad, torch.ones(1, 2))


def check_what_it_refuses(rank: int, size: int) -> None:
    with pytest.raises(ValueError, match="no parameter"):
        paceline.torch.GradientBuckets(nn.ReLU())
    with pytest.raises(ValueError, match="found one on meta"):
        paceline.torch.GradientBuckets(nn.Linear(2, 2, device="meta"))
    net = nn.Linear(2, 2)
    whole = nn.Sequential(net, nn.Linear(2, 2))
    first = paceline.torch.GradientBuckets(whole)
    for again in (paceline.torch.GradientBuckets, lambda m: paceline.torch.ShardedOptimizer(m.parameters(), sgd)):
        with pytest.raises(ValueError, match=r"a GradientBuckets exchanges gradients of some of these .* close\(\) it"):
            again(net)
    first.close()
    paceline.torch.GradientBuckets(net)
    with pytest.raises(TypeError, match="takes the module whose gradients it reduces, not a list"):
        paceline.torch.GradientBuckets(list(net.parameters()))  # type: ignore[arg-type]
    table = nn.Embedding(4, 2, sparse=True)
    paceline.torch.GradientBuckets(table)
    with pytest.raises(TypeError, match=r'the parameter "weight" has a sparse gradient'):
        table(torch.tensor([1])).sum().backward()


def check_a_subgroup(rank: int, size: int) -> None:
    group = dist.new_group([1, 2])
    if rank == 0:
        return
    net = model(rank)
    paceline.torch.GradientBuckets(net, group)
    expected = model(1)
    for other in (1, 2):
        (expected(batch(0, other)).square().sum() / 2).backward()
    backward(net, 0, rank)
    torch.testing.assert_close(gradients(net), gradients(expected))


def abort_in_backward(rank: int, size: int) -> None:
    net = model()
    paceline.torch.GradientBuckets(net, bucket_bytes=1500)
    if rank == 0:
        group: Any = dist.group.WORLD
        backward(net, 0, rank)
        group.abort()
    else:
        with pytest.raises(CommunicationError, match="rank 0 called abort"):
            train(net, rank)


CHECKS = [value for name, value in sorted(globals().items()) if name.startswith("check_")]


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__.removeprefix("check_"))
def test_gradient_buckets(ranks: Ranks, check: Callable[..., None]) -> None:
    ranks(check, 3)


def test_a_rank_aborts(ranks: Ranks) -> None:
    ranks(abort_in_backward, 2, fresh=True)


def test_training_is_ddps_bit_for_bit(ranks: Ranks) -> None:
    ranks(check_training_is_ddps, 2)


def test_buckets_are_filled_by_dtype_and_ordered_by_when_they_are_complete() -> None:
    def parameter(bytes: int, dtype: torch.dtype = torch.float32) -> nn.Parameter:
        return nn.Parameter(torch.empty(bytes // dtype.itemsize, dtype=dtype))

    a, b, c, d = parameter(8), parameter(8, torch.float64), parameter(40), parameter(4)
    names = {id(a): "a", id(b): "b", id(c): "c", id(d): "d"}

    def filled(limit: int) -> list[str]:
        return ["".join(names[id(p)] for p in bucket) for bucket in assign([a, b, c, d], limit)]

    assert filled(1) == ["a", "b", "c", "d"]
    assert filled(16) == ["b", "ac", "d"]
    assert filled(1000) == ["b", "acd"]
