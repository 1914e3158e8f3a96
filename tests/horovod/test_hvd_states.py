"""States of a training that are restored: nothing of what was under way stays."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from horovod_ranks import Ranks


def check_restored_objects(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    model = torch.nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(0)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), 1.0), model.named_parameters(), backward_passes_per_step=2
    )
    average = {"w": torch.zeros(1)}
    state: Any = hvd.elastic.TorchState(
        model=model, optimizer=optimizer, average=average, seen=[], loss=torch.zeros(1), n=0
    )
    runs = 0

    @hvd.elastic.run
    def train(state: Any) -> None:
        nonlocal runs
        runs += 1
        assert state.seen == list(range(state.n)) and state.average["w"].item() == state.n
        assert model.weight.grad is None or not model.weight.grad.any()  # zeros, as a state that is broadcast leaves
        while state.n < 4:
            loss = model(torch.ones(1, 1)).sum()
            loss.backward()  # each pass has gradient 1
            state.loss = loss  # what a graph leads to is kept, too
            state.seen.append(state.n)
            state.average["w"].add_(1)
            state.n += 1
            if state.n == 3 and runs == 1:
                raise hvd.HorovodInternalError("as a failed collective")
            if state.n % 2 == 0:
                optimizer.step()
                optimizer.zero_grad()
                state.commit()

    train(state)
    assert runs == 2 and model.weight.item() == -4
    assert state.seen == [0, 1, 2, 3] and state.average["w"].item() == 4


def test_what_was_changed_in_place_is_restored(ranks: Ranks) -> None:
    ranks(check_restored_objects)


def check_failure_after_backward(rank: int, size: int, op: str) -> None:
    import paceline.horovod.torch as hvd

    torch.manual_seed(0)
    model = torch.nn.Linear(2, 1)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), 0.1), model.named_parameters(), op=getattr(hvd, op)
    )
    state: Any = hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0)
    failed = False

    @hvd.elastic.run
    def train(state: Any) -> None:
        nonlocal failed
        while state.step < 4:
            optimizer.zero_grad()
            model(torch.ones(1, 2)).sum().backward()
            if state.step == 2 and not failed:
                failed = True
                raise hvd.HorovodInternalError("as a failed collective")
            optimizer.step()
            state.step += 1
            state.commit()

    before = model.bias.item()
    train(state)
    if op == "Average":
        assert model.bias.item() == pytest.approx(before - 0.4)


@pytest.mark.parametrize("op", ["Average", "Adasum"])
def test_a_failure_between_a_backward_pass_and_its_step(ranks: Ranks, op: str) -> None:
    ranks(check_failure_after_backward, op=op)
