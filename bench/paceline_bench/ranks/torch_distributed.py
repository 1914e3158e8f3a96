"""Measures backends of torch.distributed: Paceline's and Gloo's are called in exactly the same way."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from .adapter import Call, Unsupported
from .case import Case, aligned
from .pattern import Array

OPS = {
    "sum": dist.ReduceOp.SUM,
    "product": dist.ReduceOp.PRODUCT,
    "min": dist.ReduceOp.MIN,
    "max": dist.ReduceOp.MAX,
}


class TorchDistributed:
    """The default process group of `backend`, formed through the RANK, WORLD_SIZE and MASTER_* variables."""

    def __init__(self, backend: str, timeout: float) -> None:
        torch.set_num_threads(1)
        dist.init_process_group(backend, timeout=timedelta(seconds=timeout))
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.about = f"{backend} through torch {torch.__version__}"

    def memory(self, size: int) -> Array:
        """Return ordinary memory, uint8[size]."""
        return aligned(size)

    def bind(self, case: Case, source: Array, target: Array) -> Call:
        """Return the call that runs the case once. Raises Unsupported."""
        a, b = _tensor(source, case.dtype), _tensor(target, case.dtype)
        op, root = OPS[case.op], case.root
        following, previous = (case.rank + 1) % case.ranks, (case.rank - 1) % case.ranks

        def sendrecv() -> None:
            work = dist.isend(a, following)
            dist.recv(b, previous)
            if work is not None:
                work.wait()

        calls: dict[str, Call] = {
            "all_reduce": lambda: dist.all_reduce(a, op),
            "all_gather": lambda: dist.all_gather_into_tensor(b, a),
            "reduce_scatter": lambda: dist.reduce_scatter_tensor(b, a, op),
            "broadcast": lambda: dist.broadcast(a, root),
            "all_to_all": lambda: dist.all_to_all_single(b, a),
            "reduce": lambda: dist.reduce(a, root, op),
            "barrier": lambda: dist.barrier(),
            "sendrecv": sendrecv,
        }
        if case.collective not in calls:
            raise Unsupported(f"torch.distributed has no {case.collective}")
        return calls[case.collective]

    def barrier(self) -> None:
        """Wait until every rank has entered."""
        dist.barrier()

    def algorithm(self) -> str:
        """Return "default", because the backend does not report it."""
        return "default"

    def close(self) -> None:
        """Leave the process group."""
        dist.destroy_process_group()


class Gloo(TorchDistributed):
    """torch's own backend for CPU tensors."""

    def __init__(self, options: dict[str, str], timeout: float) -> None:
        super().__init__("gloo", timeout)


class PacelineTorch(TorchDistributed):
    """Paceline's backend."""

    def __init__(self, options: dict[str, str], timeout: float) -> None:
        importlib.import_module("paceline.torch")
        super().__init__("paceline", timeout)
        ring = importlib.import_module(".ring", __package__)
        self._memory = importlib.import_module(".raw", __package__).memory(options)
        self._last_algorithm: Callable[[], str] = ring.last_algorithm

    def memory(self, size: int) -> Array:
        """Return memory of the kind that the options name, uint8[size]."""
        memory: Array = self._memory(size)
        return memory

    def algorithm(self) -> str:
        """Return the algorithm of the last call."""
        return self._last_algorithm()


def _tensor(array: Array, dtype: str) -> Any:
    # Not every torch version accepts uint16, so the bits of bfloat16 are passed as int16.
    if dtype == "bfloat16":
        return torch.from_numpy(array.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(array)
