"""DDP's built-in communication hooks, which are C++ and take no value of a future that was completed in Python."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.graph import _engine_run_backward
from torch.futures import Future

_compresses = False


@cache
def follow_builtin_hooks() -> None:
    """Note from now on when DDP is given its built-in FP16_COMPRESS. May be called any number of times."""
    register = dist._register_builtin_comm_hook

    def noted(reducer: dist.Reducer, comm_hook_type: dist.BuiltinCommHookType) -> None:
        global _compresses
        _compresses = _compresses or comm_hook_type == dist.BuiltinCommHookType.FP16_COMPRESS
        register(reducer, comm_hook_type)

    dist._register_builtin_comm_hook = noted


def reads(results: Sequence[Tensor]) -> bool:
    """Return whether the built-in FP16_COMPRESS may read the future of these results. It wants a list of C++.

    The method that calls this was then called by C++ in a backward pass, which no function of Python's lies above.
    """
    if not _compresses or results[0].dtype != torch.float16:
        return False
    caller = sys._getframe(1).f_back
    return caller is None or caller.f_code is _engine_run_backward.__code__


def complete(results: list[Tensor]) -> Future[list[Tensor]]:
    """A future of a list of C++. torch lets Python make one only with its value, so the results must be there.

    Raises NotImplementedError for tensors of a device.
    """
    if not results[0].is_cpu:
        raise NotImplementedError(
            "DDP's built-in FP16_COMPRESS reads no results on devices that Paceline serves: register "
            "torch.distributed.algorithms.ddp_comm_hooks.default_hooks.fp16_compress_hook in its place"
        )
    return torch._C.fork(lambda: results)  # type: ignore[return-value]  # the class behind torch's Future
