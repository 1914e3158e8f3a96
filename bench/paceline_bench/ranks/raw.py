"""Paceline's raw calls, on which the framework integrations are built, on NumPy arrays and without torch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import paceline

from .adapter import Call, Unsupported
from .case import Case, aligned
from .pattern import Array
from .ring import last_algorithm


def memory(options: dict[str, str]) -> Callable[[int], Array]:
    """Return the allocator of Paceline's data: ordinary memory, or its arena. It takes a number of bytes."""
    return (lambda size: paceline.empty(size, np.uint8)) if options.get("buffer") == "arena" else aligned


class Raw:
    """The world group, formed through the RANK, WORLD_SIZE and MASTER_* variables."""

    def __init__(self, options: dict[str, str], timeout: float) -> None:
        self._group = group = paceline.init(timeout=timeout)
        self.rank, self.size = group.rank, group.size
        self.about = "paceline's raw call"
        self.memory = memory(options)

    def bind(self, case: Case, source: Array, target: Array) -> Call:
        """Return the call that runs the case once. Raises Unsupported, for bfloat16 for example, which NumPy lacks."""
        if case.dtype == "bfloat16":
            raise Unsupported("NumPy has no bfloat16; measure it with --paths torch")
        group, op, root, codec = self._group, case.op, case.root, case.codec or None
        following, previous = (case.rank + 1) % case.ranks, (case.rank - 1) % case.ranks

        calls: dict[str, Call] = {
            "all_reduce": lambda: group.all_reduce(source, op, codec=codec),
            "all_gather": lambda: group.all_gather(target, source),
            "reduce_scatter": lambda: group.reduce_scatter(target, source, op),
            "broadcast": lambda: group.broadcast(source, root, codec=codec),
            "all_to_all": lambda: group.all_to_all(target, source),
            "reduce": lambda: group.reduce(source, root, op),
            "barrier": lambda: group.barrier(),
            "sendrecv": lambda: group.sendrecv(source, following, target, previous),
        }
        if case.collective not in calls:
            raise Unsupported(f"the raw interface has no {case.collective}")
        return calls[case.collective]

    def barrier(self) -> None:
        """Wait until every rank has entered."""
        self._group.barrier()

    def algorithm(self) -> str:
        """Return the algorithm of the last call."""
        return last_algorithm()

    def close(self) -> None:
        """Leave the group."""
        self._group.close()
