"""Dispatch modes, fake tensors and subclasses of tensors see of collectives what they see of torch's own groups."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map
from torch_ranks import Ranks


def all_reduce(x: Tensor) -> Tensor:
    result = x * 2
    dist.all_reduce(result)
    return result


def all_reduce_max_async(x: Tensor) -> Tensor:
    result = x * 2
    work = dist.all_reduce(result, dist.ReduceOp.MAX, async_op=True)
    assert work is not None
    work.wait()
    return result


def broadcast(x: Tensor) -> Tensor:
    result = x.clone()
    dist.broadcast(result, 1)
    return result


def reduce(x: Tensor) -> Tensor:
    result = x.clone()
    dist.reduce(result, 1, dist.ReduceOp.AVG)
    return result


def all_gather_into(x: Tensor) -> Tensor:
    result = x.new_empty(2 * len(x))
    dist.all_gather_into_tensor(result, x)
    return result


def all_gather(x: Tensor) -> Tensor:
    result = [torch.empty_like(x) for _ in range(2)]
    dist.all_gather(result, x)
    return torch.cat(result)


def reduce_scatter_tensor(x: Tensor) -> Tensor:
    result = x.new_empty(len(x) // 2)
    dist.reduce_scatter_tensor(result, x)
    return result


def reduce_scatter(x: Tensor) -> Tensor:
    result = x.new_empty(len(x) // 2)
    dist.reduce_scatter(result, list(x.chunk(2)))
    return result


def all_to_all_single(x: Tensor) -> Tensor:
    result = torch.empty_like(x)
    dist.all_to_all_single(result, x)
    return result


def all_to_all(x: Tensor) -> Tensor:
    result = [x.new_empty(len(x) // 2) for _ in range(2)]
    dist.all_to_all(result, list(x.chunk(2)))
    return torch.cat(result)


def gather_and_scatter(x: Tensor) -> Tensor:
    rank, result = dist.get_rank(), torch.empty_like(x)
    rows = [torch.empty_like(x) for _ in range(2)]
    dist.gather(x, rows if rank == 0 else None)
    dist.scatter(result, rows if rank == 0 else None)
    return result


def messages(x: Tensor) -> Tensor:
    result = x.clone()
    if dist.get_rank() == 0:
        dist.send(result, 1)
        dist.recv(result, 1)
    else:
        dist.recv(result, 0)
        dist.send(result + 1, 0)
    dist.barrier()
    return result


OPERATORS = {
    all_reduce: ["allreduce_"],
    all_reduce_max_async: ["allreduce_"],
    broadcast: ["broadcast_"],
    reduce: ["reduce_"],
    all_gather_into: ["_allgather_base_"],
    all_gather: ["allgather_"],
    reduce_scatter_tensor: ["_reduce_scatter_base_"],
    reduce_scatter: ["reduce_scatter_"],
    all_to_all_single: ["alltoall_base_"],
    all_to_all: ["alltoall_"],
    gather_and_scatter: ["gather_", "scatter_"],
    messages: [],  # ranks call different ones
}


class Seen(TorchDispatchMode):
    """Remembers the operators for collectives that it hands on."""

    def __init__(self) -> None:
        super().__init__()
        self.operators: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "c10d":
            self.operators.append(func._opname)
        return func(*args, **(kwargs or {}))


def check_modes(rank: int, size: int) -> None:
    x = torch.arange(4.0) + rank
    for function, operators in OPERATORS.items():
        plain = function(x)
        with Seen() as seen, warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            assert torch.equal(function(x), plain), function
        assert seen.operators == operators or (not operators and len(seen.operators) == 3)
        with FakeTensorMode() as mode:
            assert function(mode.from_tensor(x)).shape == plain.shape
    from torch.distributed.tensor.debug import CommDebugMode  # imports torch's compiler, which takes a second

    with CommDebugMode() as counted:
        all_reduce(x)
        all_gather_into(x)
    assert counted.get_total_counts() == 2


def check_graphs(rank: int, size: int) -> None:
    x = torch.arange(4.0) + rank
    for function, operators in OPERATORS.items():
        for how in ("real", "fake", "symbolic"):
            graph = make_fx(function, tracing_mode=how)(x)
            found = [
                node.target._opname for node in graph.graph.nodes if getattr(node.target, "namespace", "") == "c10d"
            ]
            assert found == operators or (not operators and len(found) == 3)
            if function not in (all_reduce_max_async, messages):  # nothing in the graph waits for these
                assert torch.equal(graph(x + 10), function(x + 10)), (function, how)


class Wrapper(Tensor):
    """A tensor that only stands for another one."""

    @staticmethod
    def __new__(cls, held: Tensor) -> Wrapper:
        return Tensor._make_wrapper_subclass(cls, held.shape, dtype=held.dtype)

    def __init__(self, held: Tensor) -> None:
        self.held = held

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*tree_map(lambda one: one.held if isinstance(one, Wrapper) else one, args), **(kwargs or {}))


class Named(Tensor):
    """A tensor with a class of its own, which handles nothing."""


def check_subclasses(rank: int, size: int) -> None:
    held = torch.full((3,), rank + 1.0)
    dist.all_reduce(Wrapper(held))
    assert held.tolist() == [3.0] * 3
    work = dist.broadcast(Wrapper(held.mul_(rank)), 1, async_op=True)
    assert work is not None
    work.wait()
    assert work.get_future().wait()[0] is held and held.tolist() == [3.0] * 3
    named = torch.ones(2).as_subclass(Named)
    dist.all_reduce(named)
    assert named.tolist() == [2.0, 2.0]


def check_a_message_from_any_rank(rank: int, size: int) -> None:
    number = torch.full((1,), rank + 1.0)
    with Seen() as seen:
        if rank == 0:
            dist.send(number, 1)
        else:
            assert dist.recv(number) == 0 and number.item() == 1
    assert seen.operators == ["recv_any_source_" if rank else "send"]


def check_factors(rank: int, size: int) -> None:
    half: Any = dist._make_nccl_premul_sum(0.5)

    def halves(x: Tensor) -> Tensor:
        result = x.clone()
        dist.all_reduce(result, half)
        return result

    with Seen() as seen:
        assert halves(torch.ones(2)).tolist() == [1.0, 1.0]
    assert seen.operators == ["allreduce_"]
    graph = make_fx(halves)(torch.ones(2))
    with pytest.raises(NotImplementedError, match="keeps no factor of PREMUL_SUM in a graph"):
        graph(torch.ones(2))


def check_other_backends(rank: int, size: int) -> None:
    gloo = dist.new_group(backend="gloo")
    for group in (None, gloo):
        ones = torch.ones(2)
        with Seen() as seen:
            dist.all_reduce(ones, group=group)
            dist.all_gather([torch.empty(2), torch.empty(2)], ones, group=group)
        assert seen.operators == ["allreduce_", "allgather_"] and ones.tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    "check",
    [check_modes, check_graphs, check_subclasses, check_a_message_from_any_rank, check_factors, check_other_backends],
)
def test_dispatch(ranks: Ranks, check: Callable[..., None]) -> None:
    ranks(check, 2)
