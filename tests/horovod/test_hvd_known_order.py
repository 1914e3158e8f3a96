"""Policy `graph` under DistributedOptimizer: an order known beforehand, and steps that do not keep to it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from horovod_ranks import Ranks
from test_hvd_optimizer import alone, assert_close, loss, net, sgd

STEPS = 6


def check_training(rank: int, size: int, buffers: int, named: bool) -> None:
    import paceline.horovod.torch as hvd
    from paceline.horovod import job

    coordinator = job.current().channel(0).coordinator
    assert coordinator.options.policy == "graph"
    model = net()
    names = model.named_parameters() if named else None
    optimizer: Any = hvd.DistributedOptimizer(sgd(model.parameters()), names)
    issued = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss(model, rank, step).backward()
        optimizer.step()
        issued.append(coordinator.counters().issues)
    assert_close(model, alone(size, STEPS))
    counters = coordinator.counters()
    assert counters.deviations == 0
    # The first step goes by the board; then every step is as many batches as the scheme has buffers.
    assert [after - before for before, after in pairwise(issued[2:])] == [buffers] * (STEPS - 3)


@pytest.mark.parametrize("machines", ["00", "01"])
@pytest.mark.parametrize(("fusion_bytes", "buffers"), [(64 << 20, 1), (256, 2)])
def test_gradients_go_as_told(ranks: Ranks, machines: str, fusion_bytes: int, buffers: int) -> None:
    environment = {"PACELINE_POLICY": "graph", "PACELINE_FUSION_BYTES": str(fusion_bytes)}
    ranks(check_training, machines=machines, environment=environment, buffers=buffers, named=fusion_bytes > 256)


def check_a_frozen_layer(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    model = net()
    optimizer: Any = hvd.DistributedOptimizer(sgd(model.parameters()), model.named_parameters())
    for step in range(STEPS):
        model[0].requires_grad_(step % 2 == 0)  # gradients that do not come are submitted as zeros, late
        optimizer.zero_grad(set_to_none=False)
        loss(model, rank, step).backward()
        optimizer.step()
        total = hvd.allreduce(next(model.parameters()).detach().sum()[None].clone(), name="apart")
        assert total.item() == pytest.approx(next(model.parameters()).sum().item())


def test_other_requests_and_layers_that_are_frozen_for_a_while(ranks: Ranks) -> None:
    ranks(check_a_frozen_layer, environment={"PACELINE_POLICY": "graph"})
