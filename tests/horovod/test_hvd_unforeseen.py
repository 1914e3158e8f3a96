"""Steps that are not as policies, bundles and tuning foresee them go on, however a rank waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from horovod_ranks import Ranks


def _by_callback(coordinator: Any, request: Any) -> None:
    over = threading.Event()
    coordinator.when_over(request, over.set)
    assert over.wait(60)


def _by_asking(coordinator: Any, request: Any) -> None:
    while not request.done():
        time.sleep(0.001)


def _blocked(coordinator: Any, request: Any) -> None:
    request.wait()


WAYS: dict[str, Callable[[Any, Any], None]] = {"callback": _by_callback, "asking": _by_asking, "blocked": _blocked}


def _coordinator(policy: str) -> tuple[Any, Callable[[str, Any], Any]]:
    from paceline.coordinate import Options, Span, coordinator
    from paceline.horovod import job

    made = coordinator(job.current()._world, Options(policy=policy))
    return made, lambda name, array: made.all_reduce(name, Span.of(array), shape=array.shape)


def check_part_of_an_order(rank: int, size: int, way: str) -> None:
    coordinator, reduce = _coordinator("graph")
    coordinator.set_order([["a", "b"]])
    arrays = {name: np.ones(1024, np.float32) for name in "ab"}
    for _ in range(3):
        for request in [reduce(name, array) for name, array in arrays.items()]:
            request.wait()
    for name, array in arrays.items():
        request = reduce(name, array)
        WAYS[way](coordinator, request)
        request.wait()
    assert coordinator.counters().deviations == 1
    assert all((array == float(size) ** 4).all() for array in arrays.values())
    coordinator.close()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("machines", ["00", "01"])
def test_a_rank_that_waits_for_part_of_an_order_goes_on(ranks: Ranks, way: str, machines: str) -> None:
    ranks(check_part_of_an_order, 2, machines=machines, way=way)


def check_name_again(rank: int, size: int, way: str) -> None:
    coordinator, reduce = _coordinator("graph")
    coordinator.set_order([["a", "b"]])
    arrays = [np.ones(1 << 20, np.float32) for _ in range(4)]
    for _ in range(3):
        for request in [reduce("a", arrays[0]), reduce("b", arrays[1])]:
            request.wait()
    under_way = [reduce("a", arrays[0]), reduce("b", arrays[1])]
    again = reduce("a", arrays[2])  # waits its turn
    WAYS[way](coordinator, again)
    reduce("b", arrays[3]).wait()
    for request in [*under_way, again]:
        request.wait()
    assert all(array[0] == size**4 for array in arrays[:2]) and all(array[0] == size for array in arrays[2:])
    coordinator.close()


@pytest.mark.parametrize("way", WAYS)
def test_a_name_that_waits_its_turn_is_waited_for(ranks: Ranks, way: str) -> None:
    ranks(check_name_again, way=way)


def check_bundles(rank: int, size: int, policy: str) -> None:
    from paceline.coordinate import Span
    from paceline.errors import Mismatch

    coordinator, _ = _coordinator(policy)
    arrays = {name: np.ones(4, np.float32) for name in "abc"}

    def bundle(number: int, members: int) -> list[Any]:
        return [
            coordinator.all_reduce(name, Span.of(array), bundle=(number, members), shape=array.shape)
            for name, array in arrays.items()
        ]

    for request in bundle(7, 3 + rank):
        with pytest.raises(Mismatch, match=r"bundle 7 of 3.*bundle 7 of 4"):
            request.wait()
    for request in bundle(7 + rank, 3):
        with pytest.raises(Mismatch, match=r"bundle 7 of 3.*bundle 8 of 3"):
            request.wait()
    for request in bundle(7, 3):
        request.wait()
    assert all(array[0] == size for array in arrays.values())
    coordinator.close()


@pytest.mark.parametrize("policy", ["board", "cycle"])
@pytest.mark.parametrize("machines", ["00", "01"])
def test_ranks_that_disagree_on_a_bundle_all_hear_it(ranks: Ranks, policy: str, machines: str) -> None:
    ranks(check_bundles, 2, machines=machines, policy=policy)


def check_tuning(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    numbers, flag = torch.ones(1000), torch.ones(1, dtype=torch.bool)
    for _ in range(60):
        hvd.allreduce(numbers, name="numbers")
        assert hvd.allreduce(flag, name="flag", op=hvd.Max).item()


def test_tuning_of_steps_with_a_flag(ranks: Ranks) -> None:
    ranks(check_tuning, environment={"PACELINE_AUTOTUNE": "1"})
