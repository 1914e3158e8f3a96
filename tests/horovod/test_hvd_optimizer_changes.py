"""An optimizer whose step calls a closure, whose state is loaded, or whose parameters change."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from horovod_ranks import Ranks
from torch import Tensor, nn
from torch.nn import Parameter


def _same_everywhere(tensor: Tensor) -> bool:
    import paceline.horovod.torch as hvd

    parts = hvd.allgather(tensor.detach()[None])
    return bool((parts == parts[0]).all())


def check_closure(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    weight = Parameter(torch.zeros(3))
    optimizer: Any = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0))

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = (weight * float(rank * 2 + 1)).sum()
        loss.backward()
        return loss

    for step in range(3):
        loss = optimizer.step(closure)
        assert weight.tolist() == [-2.0 * (step + 1)] * 3
        assert loss.item() == -2.0 * step * 3 * 2
    with optimizer.skip_synchronize():
        optimizer.step(closure)
    assert weight.tolist() == [-8.0] * 3
    (weight * float(rank * 2 + 1)).sum().backward()
    assert optimizer.step(lambda: None) is None  # gradients of before, which are combined once
    assert weight.grad is not None and weight.grad.tolist() == [4.0] * 3


def check_line_search(rank: int, size: int, wrap: bool = True) -> None:
    """How often it evaluates depends on the losses: all ranks must see the same ones."""
    import paceline.horovod.torch as hvd

    torch.manual_seed(0)
    data, wanted = torch.rand(size, 20, 4, dtype=torch.float64), torch.rand(size, 20, 1, dtype=torch.float64)
    models = [nn.Linear(4, 1).double() for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    own = torch.optim.LBFGS(models[0].parameters(), line_search_fn="strong_wolfe")
    optimizers: list[Any] = [
        hvd.DistributedOptimizer(own, models[0].named_parameters()),
        torch.optim.LBFGS(models[1].parameters(), line_search_fn="strong_wolfe"),
    ]
    batches = [(data[rank], wanted[rank]), (data.flatten(0, 1), wanted.flatten(0, 1))]
    for model, optimizer, (x, y) in zip(models, optimizers, batches, strict=True):

        def closure(model: nn.Module = model, optimizer: Any = optimizer, x: Tensor = x, y: Tensor = y) -> Tensor:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            return loss

        for _ in range(2):
            optimizer.step(closure)
    assert torch.allclose(models[0].weight, models[1].weight, atol=1e-9)
    assert _same_everywhere(models[0].weight)


def check_adasum_closure(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    weight = Parameter(torch.zeros(3))
    optimizer: Any = hvd.DistributedOptimizer(torch.optim.LBFGS([weight], max_iter=3), op=hvd.Adasum)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = ((weight - rank - 1) ** 2).sum()
        loss.backward()
        return loss

    for _ in range(2):
        optimizer.step(closure)
        assert _same_everywhere(weight)


@pytest.mark.parametrize("check", [check_closure, check_line_search, check_adasum_closure])
def test_gradients_of_a_closure_are_combined(ranks: Ranks, check: Any) -> None:
    ranks(check)


def check_shared_groups(rank: int, size: int, by: str) -> None:
    import paceline.horovod.torch as hvd

    weight = Parameter(torch.ones(2))
    first = torch.optim.SGD([weight], 0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(first, 1, 0.1)
    optimizer: Any = hvd.DistributedOptimizer(first)
    saved = optimizer.state_dict()
    used = []
    for _ in range(3):
        if by == "broadcast":
            hvd.broadcast_optimizer_state(optimizer, 0)
            weight.grad = None
        else:
            saved["param_groups"][0]["lr"] = optimizer.param_groups[0]["lr"]
            (optimizer if by == "new" else first).load_state_dict(saved)
        optimizer.zero_grad()
        weight.sum().backward()
        used.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    assert used == pytest.approx([0.1, 0.01, 0.001])
    assert first.param_groups is optimizer.param_groups and first.state is optimizer.state


@pytest.mark.filterwarnings("ignore:Detected call of")
@pytest.mark.parametrize("by", ["broadcast", "new", "first"])
def test_a_scheduler_of_before_works_after_a_state_was_loaded(ranks: Ranks, by: str) -> None:
    ranks(check_shared_groups, by=by)


def check_parameters_that_come_later(rank: int, size: int, op: str) -> None:
    import paceline.horovod.torch as hvd

    body, head, late = (Parameter(torch.zeros(2)) for _ in range(3))
    body.requires_grad_(False)
    optimizer: Any = hvd.DistributedOptimizer(
        torch.optim.SGD([body, head], 1.0), [("body", body), ("head", head)], op=getattr(hvd, op)
    )

    def step(*parameters: Parameter) -> None:
        optimizer.zero_grad()
        sum((parameter * float(rank * 2 + 1)).sum() for parameter in parameters).backward()
        optimizer.step()
        for parameter in parameters:
            assert _same_everywhere(parameter), [each.tolist() for each in parameters]

    step(head)
    body.requires_grad_(True)
    for _ in range(2):
        step(body, head)
    optimizer.add_param_group({"params": [late]})
    for _ in range(2):
        step(body, head, late)
    if op == "Average":
        assert body.tolist() == [-8.0] * 2 and head.tolist() == [-10.0] * 2 and late.tolist() == [-4.0] * 2
    again = Parameter(torch.zeros(2))
    optimizer.param_groups[1]["params"] = [again]
    for _ in range(2):
        step(body, head, again)
    step(head)
    (late * 2).sum().backward()  # it is nobody's any more


@pytest.mark.parametrize("op", ["Average", "Adasum"])
def test_parameters_that_are_added_or_unfrozen_later(ranks: Ranks, op: str) -> None:
    ranks(check_parameters_that_come_later, op=op)


def check_roll_back(rank: int, size: int, op: str) -> None:
    import paceline.horovod.torch as hvd

    weight = Parameter(torch.zeros(1 << 16))
    optimizer: Any = hvd.DistributedOptimizer(torch.optim.SGD([weight], 1.0), op=getattr(hvd, op))
    saved = optimizer.state_dict()
    for _ in range(2):
        (weight * 10).sum().backward()
        optimizer.load_state_dict(saved)
        optimizer.zero_grad()
        (weight * (rank + 1)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert _same_everywhere(weight)
    if op == "Average":
        assert weight.unique().tolist() == [-3.0]


@pytest.mark.parametrize("op", ["Average", "Adasum"])
def test_a_state_may_be_loaded_after_a_backward_pass(ranks: Ranks, op: str) -> None:
    ranks(check_roll_back, op=op)


def check_failed_gradients(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    weights = [Parameter(torch.zeros(3 + rank)), Parameter(torch.zeros(1 << 16))]
    optimizer: Any = hvd.DistributedOptimizer(torch.optim.SGD(weights, 1.0))
    for _ in range(2):
        sum(weight.sum() for weight in weights).backward()
        with pytest.raises(hvd.HorovodInternalError, match="disagree"):
            optimizer.step()
        optimizer.zero_grad()
    assert weights[1].unique().tolist() == [0.0]
    with pytest.raises(hvd.HorovodInternalError, match="disagree"):
        hvd.broadcast_parameters({"a": torch.zeros(3 + rank), "b": torch.zeros(1 << 16)}, 0)
    hvd.broadcast_parameters({"a": torch.zeros(3), "b": torch.zeros(1 << 16)}, 0)


def test_a_step_of_which_one_gradient_fails_is_over(ranks: Ranks) -> None:
    ranks(check_failed_gradients)


def check_unused_embedding(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    torch.manual_seed(0)
    words, body = nn.Embedding(10, 3, sparse=True), Parameter(torch.zeros(3))
    optimizer: Any = hvd.DistributedOptimizer(torch.optim.SGD([words.weight, body], 1.0))
    before = words.weight.detach().clone()
    for step in range(3):
        optimizer.zero_grad()
        used = step == 0 or rank == 0
        ((words(torch.tensor([1, 2])).sum() if used else 0) + body.sum()).backward()
        optimizer.step()
    assert (before - words.weight).detach()[:4, 0].tolist() == pytest.approx([0, 2, 2, 0])
    assert _same_everywhere(words.weight)
    fresh = nn.Embedding(10, 3, sparse=True)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(fresh.parameters(), 1.0), [("fresh", fresh.weight)])
    if rank == 0:  # the other rank does not know yet that it is sparse
        fresh(torch.tensor([1])).sum().backward()
    before = fresh.weight.detach().clone()
    optimizer.step()
    assert (before - fresh.weight).detach()[:3, 0].tolist() == pytest.approx([0, 1 / size, 0])
    assert _same_everywhere(fresh.weight)


def test_an_embedding_that_one_rank_does_not_use(ranks: Ranks) -> None:
    ranks(check_unused_embedding)
