"""DistributedOptimizer and what brings ranks to one model: equal to one process that sees every rank's batch."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import pytest
import torch
from horovod_ranks import Ranks
from torch import Tensor, nn

from paceline.horovod.exceptions import HorovodInternalError


def net(seed: int = 1) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).double()


def batch(rank: int, step: int) -> tuple[Tensor, Tensor]:
    source = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(4, 6, generator=source).double(), torch.randn(4, 3, generator=source).double()


def loss(model: nn.Module, rank: int, step: int) -> Tensor:
    data, target = batch(rank, step)
    return nn.functional.mse_loss(model(data), target)


def alone(size: int, steps: int, passes: int = 1, sums: bool = False, make: Any = None) -> nn.Module:
    """One process that computes all ranks' losses."""
    model = net()
    optimizer = (make or sgd)(model.parameters())
    for step in range(steps):
        optimizer.zero_grad()
        for rank, number in itertools.product(range(size), range(passes)):
            (loss(model, rank, step * passes + number) / (1 if sums else size)).backward()
        optimizer.step()
    return model


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=0.01)


def assert_close(model: nn.Module, other: nn.Module, tolerance: float = 1e-12) -> None:
    for (name, mine), theirs in zip(model.named_parameters(), other.parameters(), strict=True):
        assert torch.allclose(mine, theirs, rtol=tolerance, atol=tolerance), name


WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "sum": {"op": 1},
    "passes": {"backward_passes_per_step": 3},
    "predivided": {"gradient_predivide_factor": 2.0},
    "groups": {"groups": 2},
    "one group": {"groups": 1},
    "num_groups": {"num_groups": 3},
    "fp16": {},
    "bf16": {},
}


def check_training(rank: int, size: int, way: str) -> None:
    import paceline.horovod.torch as hvd

    options = dict(WAYS[way])
    model = net(seed=rank)  # differs until it is broadcast
    hvd.broadcast_parameters(net().state_dict() if rank == 0 else model.state_dict(), root_rank=0)
    if rank == 0:
        model.load_state_dict(net().state_dict())
    optimizer: Any = sgd(model.parameters())
    if way in ("fp16", "bf16"):
        options["compression"] = getattr(hvd.Compression, way)
    if way in ("groups", "num_groups"):
        options["gradient_predivide_factor"] = 4.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), **options)
    assert type(optimizer).__name__ == "SGD" and isinstance(optimizer, torch.optim.SGD)
    passes = options.get("backward_passes_per_step", 1)
    for step in range(3):
        optimizer.zero_grad()
        for number in range(passes):
            loss(model, rank, step * passes + number).backward()
        optimizer.step()
    assert_close(model, alone(size, 3, passes, way == "sum"), 1e-2 if "compression" in options else 1e-12)
    everyone = hvd.allgather(torch.cat([p.detach().flatten() for p in model.parameters()])[None])
    assert all(torch.equal(row, everyone[0]) for row in everyone)


@pytest.mark.parametrize("way", list(WAYS))
def test_training_equals_one_process(ranks: Ranks, way: str) -> None:
    ranks(check_training, 3 if way in ("plain", "groups") else 2, way=way)


def check_given_groups(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    model = net()
    first, last = model[0], model[2]
    groups = [[last.weight, first.bias], [first.weight]]
    optimizer: Any = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters(), groups=groups)
    for step in range(2):
        optimizer.zero_grad()
        loss(model, rank, step).backward()
        optimizer.step()
    assert_close(model, alone(size, 2))
    for wrong, words in (
        ([[first.bias, first.bias]], "only appear once"),
        ([[1]], "must consist of torch.Tensor"),
        (-1, "non-negative"),
    ):
        with pytest.raises(ValueError, match=words):
            hvd.DistributedOptimizer(sgd(model.parameters()), groups=wrong)


def test_groups_that_the_user_makes(ranks: Ranks) -> None:
    ranks(check_given_groups)


def check_order_of_calls(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    model = net()
    optimizer: Any = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters(), op=hvd.Sum)

    def gradients() -> list[Tensor]:
        return [parameter.grad.clone() for parameter in model.parameters()]  # type: ignore[union-attr]

    loss(model, rank, 0).backward()
    with pytest.raises(AssertionError, match=r"zero_grad\(\) was called after loss.backward\(\)"):
        optimizer.zero_grad()
    with pytest.raises(AssertionError, match="more than backward_passes_per_step times"):
        loss(model, rank, 0).backward()
    optimizer.synchronize()
    first = gradients()
    optimizer.synchronize()
    assert all(map(torch.equal, first, gradients()))  # the second call changed nothing
    optimizer.zero_grad()
    loss(model, rank, 0).backward()
    optimizer.synchronize()
    nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    clipped = gradients()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with optimizer.skip_synchronize():
            optimizer.step()
    assert not caught and all(map(torch.equal, clipped, gradients()))
    optimizer.zero_grad()
    loss(model, rank, 0).backward()
    optimizer.synchronize()
    with pytest.warns(UserWarning, match=r"optimizer.step\(\) called without optimizer.skip_synchronize\(\)"):
        optimizer.step()
    optimizer.set_backward_passes_per_step(2)
    optimizer.zero_grad()
    loss(model, rank, 1).backward()
    optimizer.step()  # one pass of two is enough, if there are no more
    loss(model, rank, 2).backward()
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.zero_grad()


def test_the_order_of_calls(ranks: Ranks) -> None:
    ranks(check_order_of_calls)


class TwoHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.heads = nn.Linear(4, 4), nn.ModuleList([nn.Linear(4, 2) for _ in range(2)])

    def forward(self, x: Tensor, head: int) -> Tensor:
        return self.heads[head](self.body(x))  # type: ignore[no-any-return]


def check_unused(rank: int, size: int, groups: int | None) -> None:
    import paceline.horovod.torch as hvd

    torch.manual_seed(0)
    model = TwoHeads()
    optimizer: Any = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters(), groups=groups
    )
    before = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer.zero_grad()
    model(torch.ones(1, 4), rank % 2).sum().backward()
    optimizer.step()
    assert all(not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    everyone = hvd.allgather(torch.cat([p.detach().flatten() for p in model.parameters()])[None])
    assert torch.equal(everyone[0], everyone[1])


@pytest.mark.parametrize("groups", [None, 2])
def test_parameters_that_only_some_ranks_use(ranks: Ranks, groups: int | None) -> None:
    ranks(check_unused, groups=groups)


def check_changing_requires_grad(rank: int, size: int) -> None:
    """A generator and a discriminator in turn."""
    import paceline.horovod.torch as hvd

    torch.manual_seed(0)
    nets = [nn.Conv2d(1, 3, 1), nn.Conv2d(3, 1, 1)]
    optimizers: list[Any] = [
        hvd.DistributedOptimizer(
            torch.optim.SGD(each.parameters(), lr=0.1), [(f"{number}.{n}", p) for n, p in each.named_parameters()]
        )
        for number, each in enumerate(nets)
    ]
    for step in range(6):
        for number, each in enumerate(nets):
            each.requires_grad_(step % 2 == number)
        for optimizer in optimizers:
            optimizer.zero_grad()
        nets[1](nets[0](torch.rand(1, 1, 4, 4))).sum().backward()
        for number, each in enumerate(nets):
            assert all((p.grad is not None) == (step % 2 == number) for p in each.parameters())
        optimizers[step % 2].step()


def test_requires_grad_that_changes(ranks: Ranks) -> None:
    ranks(check_changing_requires_grad)


def check_sparse(rank: int, size: int, as_dense: bool) -> None:
    import paceline.horovod.torch as hvd

    torch.manual_seed(0)
    model = nn.Embedding(10, 3, sparse=True)
    reference = nn.Embedding(10, 3)
    reference.load_state_dict(model.state_dict())
    words = [torch.tensor([[1, 2, 4], [4, 3, 9]]), torch.tensor([[1, 3], [4, 7]])]
    optimizer: Any = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters(), sparse_as_dense=as_dense
    )
    optimizer.zero_grad()
    model(words[rank]).sum().backward()
    optimizer.step()
    assert model.weight.grad is not None and model.weight.grad.is_sparse
    (sum(reference(each).sum() for each in words) / 2).backward()
    with torch.no_grad():
        reference.weight -= reference.weight.grad
    assert torch.allclose(model.weight, reference.weight)
    adam: Any = hvd.DistributedOptimizer(torch.optim.SparseAdam(list(model.parameters())), sparse_as_dense=as_dense)
    assert isinstance(adam, torch.optim.SparseAdam)


@pytest.mark.parametrize("as_dense", [False, True])
def test_sparse_gradients(ranks: Ranks, as_dense: bool) -> None:
    ranks(check_sparse, as_dense=as_dense)


def check_sparse_on_one_rank(rank: int, size: int) -> None:
    """Ranks whose batches use no word take part with no rows, also if that is so in the first steps of all."""
    import paceline.horovod.torch as hvd

    torch.manual_seed(0)
    model = nn.ModuleList([nn.Embedding(10, 3, sparse=True), nn.Embedding(7, 2, sparse=True)])
    reference = nn.ModuleList([nn.Embedding(10, 3), nn.Embedding(7, 2)])
    reference.load_state_dict(model.state_dict())
    optimizer: Any = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters())
    for step in range(4):
        optimizer.zero_grad()
        for number, one in enumerate(model):
            if rank == (step + number) % size:
                one(torch.tensor([step, 2])).sum().backward()
        optimizer.step()
        reference.zero_grad()
        sum(one(torch.tensor([step, 2])).sum() / size for one in reference).backward()
        with torch.no_grad():
            for one in reference:
                one.weight -= one.weight.grad
    for one, right in zip(model.parameters(), reference.parameters(), strict=True):
        assert torch.allclose(one, right)


def test_sparse_gradients_on_one_rank(ranks: Ranks) -> None:
    ranks(check_sparse_on_one_rank)


def check_sparse_and_dense(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    model = nn.Embedding(10, 3, sparse=rank == 0)
    optimizer: Any = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters())
    model(torch.tensor([1])).sum().backward()
    with pytest.raises(HorovodInternalError, match="sparse_as_dense" if rank == 0 else "sparse float32"):
        optimizer.step()
    hvd.barrier()


def test_sparse_and_dense_gradients_of_one_parameter(ranks: Ranks) -> None:
    ranks(check_sparse_and_dense, fresh=True)


def check_names(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    one, two = nn.Linear(1, 1), nn.Linear(1, 1)
    both = torch.optim.SGD([*one.parameters(), *two.parameters()], lr=0.1)
    with pytest.raises(ValueError, match=r"must be unique\. Found duplicates: bias, weight"):
        hvd.DistributedOptimizer(both, [*one.named_parameters(), *two.named_parameters()])
    with pytest.raises(ValueError, match=r"were not named; their shapes: "):
        hvd.DistributedOptimizer(both, one.named_parameters())
    with pytest.raises(ValueError, match="sequence of tuples"):
        hvd.DistributedOptimizer(both, ["weight"])
    with pytest.raises(ValueError, match="must be > 0"):
        hvd.DistributedOptimizer(both, backward_passes_per_step=0)
    with pytest.raises(ValueError, match="not supported with op != Average"):
        hvd.DistributedOptimizer(both, gradient_predivide_factor=2.0, op=hvd.Sum)
    optimizer: Any = hvd.DistributedOptimizer(both)
    (one(torch.ones(1)) + two(torch.ones(1)) * (rank + 1)).sum().backward()
    optimizer.step()
    assert two.weight.grad is not None and two.weight.grad.item() == 1.5


def test_names_of_parameters(ranks: Ranks) -> None:
    ranks(check_names)


def check_optimizer_of_a_process_set(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    pair = hvd.add_process_set([0, 2])
    model = net()
    optimizer: Any = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters(), process_set=pair)
    loss(model, rank, 0).backward()
    optimizer.step()
    same = net()
    reference = sgd(same.parameters())
    for other in [0, 2] if rank != 1 else [1]:
        (loss(same, other, 0) / (2 if rank != 1 else 1)).backward()
    reference.step()
    assert_close(model, same)


def test_an_optimizer_of_a_process_set(ranks: Ranks) -> None:
    ranks(check_optimizer_of_a_process_set, 3)


OPTIMIZERS = [
    "SGD",
    "Adam",
    "AdamW",
    "Adagrad",
    "Adadelta",
    "RMSprop",
    "NAdam",
    "RAdam",
    "Adamax",
    "ASGD",
    "Rprop",
    "LBFGS",
]


def check_optimizer_state(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    for name, started in itertools.product(OPTIMIZERS, (False, True)):
        model = net()
        options = {"momentum": 0.5} if name in ("SGD", "RMSprop") else {}
        optimizer: Any = getattr(torch.optim, name)(model.parameters(), lr=0.1 if rank == 0 else 0.7, **options)
        for step in range(2 if rank == 0 else int(started)):
            optimizer.zero_grad()
            loss(model, rank, step).backward()
            optimizer.step(lambda: 1.0) if name == "LBFGS" else optimizer.step()
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        if name != "LBFGS":
            optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
        new = not optimizer.state
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        assert not new or not any(weight.grad.any() for weight in model.parameters()), name
        assert optimizer.param_groups[0]["lr"] == 0.1, name
        states = hvd.allgather_object(optimizer.state_dict())
        assert repr(states[0]) == repr(states[1]), name
        if name != "LBFGS":
            optimizer.zero_grad()
            loss(model, rank, 5).backward()
            optimizer.step()
            weights = hvd.allgather(model[0].weight.detach())
            assert torch.equal(*weights.chunk(2)), name


def test_the_state_of_every_optimizer(ranks: Ranks) -> None:
    ranks(check_optimizer_state)


def check_parameters(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    right = net(1).state_dict()
    for form in (
        nn.Module.state_dict,
        lambda m: list(m.named_parameters()),
        lambda m: list(m.parameters()),
        nn.Module.parameters,
    ):
        model = net(rank)
        hvd.broadcast_parameters(form(model), root_rank=1)
        assert all(torch.equal(value, right[name]) for name, value in model.state_dict().items())
    with pytest.raises(ValueError, match="invalid params of type"):
        hvd.broadcast_parameters(7, root_rank=0)
    with pytest.raises(ValueError, match="should hold tensors, but 'lr' is a float"):
        hvd.broadcast_parameters({"lr": 0.1}, root_rank=0)


def test_broadcast_parameters(ranks: Ranks) -> None:
    ranks(check_parameters)


def check_adasum_optimizer(rank: int, size: int) -> None:
    """What changed on each rank is combined by Adasum."""
    import paceline.horovod.torch as hvd
    from paceline.horovod.adasum import adasum

    model = net()
    optimizer: Any = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters(), op=hvd.Adasum)
    ghosts = [net() for _ in range(size)]
    steppers = [sgd(ghost.parameters()) for ghost in ghosts]
    for step in range(3):
        optimizer.zero_grad()
        loss(model, rank, step).backward()
        before = [parameter.detach().clone() for parameter in model.parameters()]
        with pytest.raises(AssertionError, match=r"zero_grad\(\) was called after"):
            optimizer.zero_grad()
        optimizer.step()
        for other, (ghost, stepper) in enumerate(zip(ghosts, steppers, strict=True)):
            stepper.zero_grad()
            loss(ghost, other, step).backward()
            stepper.step()
        for number, parameter in enumerate(model.parameters()):
            changes = [list(ghost.parameters())[number].detach() - before[number] for ghost in ghosts]
            right = before[number] + torch.from_numpy(adasum([change.numpy() for change in changes]))
            assert torch.allclose(parameter, right, rtol=1e-12, atol=1e-14)
        for ghost in ghosts:
            ghost.load_state_dict(model.state_dict())
    with pytest.raises(AssertionError, match="not supported when using Adasum"), optimizer.skip_synchronize():
        pass
    optimizer.synchronize()


@pytest.mark.parametrize("size", [2, 3])
def test_adasum_optimizer(ranks: Ranks, size: int) -> None:
    ranks(check_adasum_optimizer, size)


def check_schedulers(rank: int, size: int) -> None:
    """A scheduler of the first optimizer, or of the new one, sets the same learning rate."""
    import paceline.horovod.torch as hvd

    model = net()
    first = sgd(model.parameters())
    before = torch.optim.lr_scheduler.StepLR(first, 1, 0.1)
    optimizer: Any = hvd.DistributedOptimizer(first, model.named_parameters())
    after = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.1)
    for scheduler in (before, after):
        optimizer.zero_grad()
        loss(model, rank, 0).backward()
        optimizer.step()
        scheduler.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.0005)
    assert_same = hvd.allgather(model[0].weight.detach())
    assert torch.equal(*assert_same.chunk(2))


@pytest.mark.filterwarnings("ignore:Detected call of")
def test_schedulers(ranks: Ranks) -> None:
    ranks(check_schedulers)


def check_sync_batch_norm(rank: int, size: int, affine: bool, dims: int) -> None:
    import paceline.horovod.torch as hvd

    source = torch.Generator().manual_seed(3)
    everything = torch.randn(*((3 * size, 4, *(5, 2)[: dims - 2])), generator=source).double()
    cuts = [0, 1, *(3 * number for number in range(2, size + 1))]  # one sample on the first rank
    mine = everything[cuts[rank] : cuts[rank + 1]].clone().requires_grad_()
    whole = everything.clone().requires_grad_()
    layer = hvd.SyncBatchNorm(4, affine=affine).double()
    kind = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d}[dims]
    right = kind(4, affine=affine).double()
    if affine:
        for each in (layer, right):
            nn.init.constant_(each.weight, 1.5)
            nn.init.constant_(each.bias, -0.5)
    given, wanted = layer(mine), right(whole)
    assert torch.allclose(given, wanted[cuts[rank] : cuts[rank + 1]])
    assert torch.allclose(layer.running_mean, right.running_mean)
    assert torch.allclose(layer.running_var, right.running_var)
    assert layer.num_batches_tracked == 1
    weights = torch.randn(wanted.shape, generator=source).double()
    (given * weights[cuts[rank] : cuts[rank + 1]]).sum().backward()
    (wanted * weights).sum().backward()
    assert torch.allclose(mine.grad, whole.grad[cuts[rank] : cuts[rank + 1]])
    if affine:
        assert torch.allclose(hvd.allreduce(layer.weight.grad, op=hvd.Sum), right.weight.grad)
        assert torch.allclose(hvd.allreduce(layer.bias.grad, op=hvd.Sum), right.bias.grad)
    layer.eval()
    right.eval()
    assert torch.allclose(layer(mine), right(mine))
    with pytest.raises(ValueError, match="at least 2D"):
        layer(torch.ones(3))


@pytest.mark.parametrize(("affine", "dims"), [(True, 2), (False, 4), (True, 4), (True, 3)])
def test_sync_batch_norm(ranks: Ranks, affine: bool, dims: int) -> None:
    ranks(check_sync_batch_norm, 3, affine=affine, dims=dims)
