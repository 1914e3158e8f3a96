"""Collectives by torch's dispatcher, where dispatch modes and classes of tensors see them. Others go past it.

The calls enter torch's operators here; `dispatched_kernels` has what the operators do in the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cache

import torch
import torch.distributed as dist
from torch import ScriptObject, Tensor
from torch._C import _distributed_c10d as c10d
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from paceline.torch import checks, dispatched_kernels
from paceline.torch.checks import Reduction
from paceline.torch.opaque import opaque

modes = torch._C._len_torch_dispatch_stack
"""The function that counts the dispatch modes which are active in this thread."""
USUAL = frozenset((Tensor, torch.nn.Parameter))
"""Classes of tensors that nobody but torch handles."""


def handled(tensor: Tensor) -> bool:
    """Return whether the tensor's class has its own way with operators, and has not been asked yet."""
    own = type(tensor).__torch_dispatch__ is not _NOBODY
    return own and not dispatched_kernels.in_kernel.get()


_NOBODY = torch._C._disabled_torch_dispatch_impl


@opaque
class Dispatched(dispatched_kernels.Served):
    """Every operator of torch's for collectives, with this group."""

    _size: int

    def _by_dispatcher(self, operator: str, *arguments: object) -> dist.Work:
        """Call an operator of `torch.ops.c10d`. Its first arguments stand before the group, the last is the options."""
        dispatched_kernels.register()
        *tensors, opts = arguments
        group = self.boxed()  # type: ignore[attr-defined]  # a process group has it
        more = getattr(_Arguments, operator)(opts, self._size)
        with dispatched_kernels.reducing(getattr(opts, "reduceOp", None)):
            result = getattr(torch.ops.c10d, operator)(*_listed(operator, tensors), group, *more)
        return _work(result)


class _Arguments:
    """The arguments that each operator takes behind the group."""

    @staticmethod
    def allreduce_(opts: object, size: int) -> tuple[object, ...]:
        return boxed(checks.reduce_op(opts)), None, *_waiting(opts)

    @staticmethod
    def broadcast_(opts: object, size: int) -> tuple[object, ...]:
        return checks.root_of(opts, size), 0, *_waiting(opts)

    @staticmethod
    def reduce_(opts: object, size: int) -> tuple[object, ...]:
        return boxed(getattr(opts, "reduceOp", dist.ReduceOp.SUM)), checks.root_of(opts, size), 0, *_waiting(opts)

    @staticmethod
    def _reduce_scatter_base_(opts: object, size: int) -> tuple[object, ...]:
        return boxed(checks.reduce_op(opts)), *_waiting(opts)

    reduce_scatter_ = _reduce_scatter_base_

    @staticmethod
    def gather_(opts: object, size: int) -> tuple[object, ...]:
        return checks.root_of(opts, size), *_waiting(opts)

    scatter_ = gather_

    @staticmethod
    def _allgather_base_(opts: object, size: int) -> tuple[object, ...]:
        return _waiting(opts)

    allgather_ = alltoall_ = _allgather_base_

    @staticmethod
    def alltoall_base_(opts: tuple[list[int], list[int], object], size: int) -> tuple[object, ...]:
        return list(opts[0]), list(opts[1]), *_waiting(opts[2])

    @staticmethod
    def barrier(opts: object, size: int) -> tuple[object, ...]:
        return [], *_waiting(opts)

    @staticmethod
    def send(peer_and_tag: tuple[int, ...], size: int) -> tuple[int, ...]:
        return peer_and_tag

    recv_ = recv_any_source_ = send


_LISTS = {"allreduce_": (1,), "broadcast_": (1,), "reduce_": (1,), "allgather_": (2, 1), "gather_": (2, 1)}
_LISTS |= {"scatter_": (1, 2), "reduce_scatter_": (1, 2), "alltoall_": (1, 1)}
_LISTS |= {"send": (1,), "recv_": (1,), "recv_any_source_": (1,)}
"""The depth of the lists in which each operator wants its tensors, where it does."""


def _listed(operator: str, tensors: Sequence[object]) -> list[object]:
    depths = _LISTS.get(operator, (0,) * len(tensors))
    return [_in_lists(given, depth) for given, depth in zip(tensors, depths, strict=True)]


def _in_lists(given: object, depth: int) -> object:
    if depth == 0:
        return given
    if depth == 1:
        return [given] if isinstance(given, Tensor) else given
    return [given] if isinstance(given, Sequence) and given and isinstance(given[0], Tensor) else given


def _waiting(opts: object) -> tuple[bool, int]:
    timeout = checks.timeout_of(opts)
    return checks.is_async(opts), -1 if timeout is None else int(timeout.total_seconds() * 1000)


def _work(result: object) -> dist.Work:
    while isinstance(result, tuple | list):
        result = result[-1]
    if isinstance(result, ScriptObject):
        return dist.Work.unbox(result)
    return result  # type: ignore[return-value]  # a mode has answered


class _Caught(Exception):
    pass


class _Catch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Takes a reduction out of a call that goes no further."""

    reduction: ScriptObject

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]  # as torch's is
        self.reduction = args[2]
        raise _Caught


@cache
def boxed(op: Reduction) -> ScriptObject:
    """The reduction as operators take it, which torch makes in C++ alone."""
    options = c10d.AllreduceOptions()
    options.reduceOp = op  # type: ignore[assignment]  # takes a name, too
    with _disable_current_modes():
        group, tensor = dist.ProcessGroup(dist.HashStore(), 0, 1), torch.empty(0)
        with _Catch() as catch, suppress(_Caught):  # type: ignore[no-untyped-call]
            group.allreduce([tensor], options)
    found: ScriptObject = catch.reduction
    return found
