"""The work of torch's operators for collectives on this machine's memory, once every mode has seen them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from functools import cache

import torch
import torch.distributed as dist
from torch import ScriptObject, Tensor
from torch._C import _distributed_c10d as c10d
from torch.utils._python_dispatch import _disable_current_modes

from paceline.torch.checks import Reduction


class Served:
    """A process group whose methods do the work."""

    _last_dispatched: dist.Work | None = None
    """Kept, because torch's side of a work in Python ends with that."""


in_kernel = ContextVar("in_kernel", default=False)
"""True while this thread is past all who could see the call."""

_reduction: ContextVar[Reduction | None] = ContextVar("_reduction", default=None)
"""That of the call under way. An operator hands on its name, and not the factor of PREMUL_SUM."""


@contextmanager
def reducing(op: Reduction | None) -> Iterator[None]:
    """The operators that are called in this context reduce by `op`."""
    token = _reduction.set(op)
    try:
        yield
    finally:
        _reduction.reset(token)


@cache
def register() -> None:
    """Give every operator of `torch.ops.c10d` a kernel of Python. May be called any number of times.

    A process group whose backend is C++ finds that from there, as it does from torch's own kernels.
    """
    library = torch.library.Library("c10d", "IMPL")  # type: ignore[no-untyped-call]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(?s).*Overriding a previously registered kernel")
        for name in vars(_Kernels):
            if not name.startswith("__"):
                for key in ("CPU", "CUDA", "SparseCPU") if name == "allreduce_" else ("CPU", "CUDA"):
                    library.impl(name, getattr(_Kernels, name), key)  # type: ignore[no-untyped-call]
    _registered.append(library)


_registered: list[torch.library.Library] = []
"""An operator forgets the kernels of a library that nobody keeps."""


class _Kernels:
    """Named as the operators are, with their arguments."""

    @staticmethod
    def allreduce_(
        tensors: list[Tensor],
        group: ScriptObject,
        op: ScriptObject,
        sparse_indices: Tensor | None,
        asynchronous: bool = True,
        timeout: int = -1,
    ) -> tuple[list[Tensor], ScriptObject]:
        options = _options(c10d.AllreduceOptions, asynchronous, timeout, reduceOp=_op(op))
        return tensors, _call(group, tensors[0], "allreduce", tensors, options)

    @staticmethod
    def broadcast_(
        tensors: list[Tensor],
        group: ScriptObject,
        root: int,
        root_tensor: int,
        asynchronous: bool = True,
        timeout: int = -1,
    ) -> tuple[list[Tensor], ScriptObject]:
        options = _options(c10d.BroadcastOptions, asynchronous, timeout, rootRank=root, rootTensor=root_tensor)
        return tensors, _call(group, tensors[0], "broadcast", tensors, options)

    @staticmethod
    def reduce_(
        tensors: list[Tensor],
        group: ScriptObject,
        op: ScriptObject,
        root: int,
        root_tensor: int,
        asynchronous: bool = True,
        timeout: int = -1,
    ) -> ScriptObject:
        more = {"reduceOp": _op(op), "rootRank": root, "rootTensor": root_tensor}
        options = _options(c10d.ReduceOptions, asynchronous, timeout, **more)
        return _call(group, tensors[0], "reduce", tensors, options)

    @staticmethod
    def _reduce_scatter_base_(
        output: Tensor,
        input: Tensor,
        group: ScriptObject,
        op: ScriptObject,
        asynchronous: bool = True,
        timeout: int = -1,
    ) -> tuple[Tensor, ScriptObject]:
        options = _options(c10d.ReduceScatterOptions, asynchronous, timeout, reduceOp=_op(op))
        return output, _call(group, output, "_reduce_scatter_base", output, input, options)

    @staticmethod
    def reduce_scatter_(
        outputs: list[Tensor],
        inputs: list[list[Tensor]],
        group: ScriptObject,
        op: ScriptObject,
        asynchronous: bool = True,
        timeout: int = -1,
    ) -> tuple[list[Tensor], ScriptObject]:
        options = _options(c10d.ReduceScatterOptions, asynchronous, timeout, reduceOp=_op(op))
        return outputs, _call(group, outputs[0], "reduce_scatter", outputs, inputs, options)

    @staticmethod
    def _allgather_base_(
        output: Tensor, input: Tensor, group: ScriptObject, asynchronous: bool = True, timeout: int = -1
    ) -> tuple[Tensor, ScriptObject]:
        options = _options(c10d.AllgatherOptions, asynchronous, timeout)
        return output, _call(group, output, "_allgather_base", output, input, options)

    @staticmethod
    def allgather_(
        outputs: list[list[Tensor]],
        inputs: list[Tensor],
        group: ScriptObject,
        asynchronous: bool = True,
        timeout: int = -1,
    ) -> tuple[list[list[Tensor]], ScriptObject]:
        options = _options(c10d.AllgatherOptions, asynchronous, timeout)
        return outputs, _call(group, inputs[0], "allgather", outputs, inputs, options)

    @staticmethod
    def gather_(
        outputs: list[list[Tensor]],
        inputs: list[Tensor],
        group: ScriptObject,
        root: int,
        asynchronous: bool = True,
        timeout: int = -1,
    ) -> ScriptObject:
        options = _options(c10d.GatherOptions, asynchronous, timeout, rootRank=root)
        return _call(group, inputs[0], "gather", outputs, inputs, options)

    @staticmethod
    def scatter_(
        outputs: list[Tensor],
        inputs: list[list[Tensor]],
        group: ScriptObject,
        root: int,
        asynchronous: bool = True,
        timeout: int = -1,
    ) -> tuple[list[Tensor], ScriptObject]:
        options = _options(c10d.ScatterOptions, asynchronous, timeout, rootRank=root)
        return outputs, _call(group, outputs[0], "scatter", outputs, inputs, options)

    @staticmethod
    def alltoall_(
        outputs: list[Tensor], inputs: list[Tensor], group: ScriptObject, asynchronous: bool = True, timeout: int = -1
    ) -> tuple[list[Tensor], ScriptObject]:
        options = _options(c10d.AllToAllOptions, asynchronous, timeout)
        return outputs, _call(group, outputs[0], "alltoall", outputs, inputs, options)

    @staticmethod
    def alltoall_base_(
        output: Tensor,
        input: Tensor,
        group: ScriptObject,
        output_splits: list[int],
        input_splits: list[int],
        asynchronous: bool = True,
        timeout: int = -1,
    ) -> ScriptObject:
        options = _options(c10d.AllToAllOptions, asynchronous, timeout)
        return _call(group, output, "alltoall_base", output, input, output_splits, input_splits, options)

    @staticmethod
    def barrier(
        tensor: Tensor, group: ScriptObject, devices: list[int], asynchronous: bool = True, timeout: int = -1
    ) -> ScriptObject:
        options = _options(c10d.BarrierOptions, asynchronous, timeout, device_ids=devices)
        return _call(group, tensor, "barrier", options)

    @staticmethod
    def send(tensors: list[Tensor], group: ScriptObject, peer: int, tag: int) -> ScriptObject:
        return _call(group, tensors[0], "send", tensors, peer, tag)

    @staticmethod
    def recv_(tensors: list[Tensor], group: ScriptObject, peer: int, tag: int) -> ScriptObject:
        return _call(group, tensors[0], "recv", tensors, peer, tag)

    @staticmethod
    def recv_any_source_(tensors: list[Tensor], group: ScriptObject, tag: int) -> ScriptObject:
        return _call(group, tensors[0], "recv_anysource", tensors, tag)


def _call(boxed: ScriptObject, tensor: Tensor, method: str, *arguments: object) -> ScriptObject:
    group = dist.ProcessGroup.unbox(boxed)
    token = in_kernel.set(True)
    try:
        with _disable_current_modes():
            if isinstance(group, Served):
                work = group._last_dispatched = getattr(group, method)(*arguments)
            else:
                work = getattr(group._get_backend(tensor.device), method)(*arguments)
    finally:
        in_kernel.reset(token)
    boxed_work: ScriptObject = work.boxed()
    return boxed_work


def _options(kind: Callable[[], object], asynchronous: bool, timeout: int, **fields: object) -> object:
    options = kind()
    if timeout >= 0:
        fields["timeout"] = timedelta(milliseconds=timeout)
    for name, value in {"asyncOp": asynchronous, **fields}.items():
        setattr(options, name, value)
    return options


def _op(boxed: ScriptObject) -> Reduction:
    known = dist.ReduceOp.RedOpType(boxed.op())  # type: ignore[attr-defined]  # a method of the class in C++
    if known != dist.ReduceOp.RedOpType.PREMUL_SUM:  # type: ignore[attr-defined]  # its stub lacks it
        return known
    op = _reduction.get()
    if op is None:
        raise NotImplementedError("torch keeps no factor of PREMUL_SUM in a graph: multiply the tensor, and use SUM")
    return op
