"""Sums of a JAX array over all ranks, each in a program of its own; by Paceline, and by JAX's Gloo.

A program is given the array's memory for its result, as a training step gives its gradients'; otherwise a large sum
would cost little beside the system's new memory for each result.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from .adapter import Call, Unsupported
from .case import Case, aligned
from .pattern import Array


def _shard_map() -> Any:
    try:
        return jax.shard_map
    except AttributeError:  # before JAX 0.7
        from jax.experimental import shard_map

        return shard_map.shard_map


class _Sums:
    """A job. program: gives the sum of its argument over all ranks, and may destroy the argument."""

    rank: int
    size: int
    about: str
    program: Callable[[Any], Any]

    def memory(self, size: int) -> Array:
        """Return ordinary memory, uint8[size]."""
        return aligned(size)

    def bind(self, case: Case, source: Array, target: Array) -> Call:
        """Return the call that runs the case once, and returns the sum. Raises Unsupported for all but sums."""
        if (case.collective, case.op) != ("all_reduce", "sum"):
            raise Unsupported("JAX's sums are measured, and nothing else")
        held = self.given(source.copy())

        def call() -> Any:
            nonlocal held
            held = self.program(held).block_until_ready()
            return self.own(held)

        return call

    def given(self, mine: Array) -> Any:
        """Return the program's argument, made of this rank's array."""
        return jax.device_put(mine)

    def own(self, result: Any) -> Any:
        """Return what this rank has of the result."""
        return result

    def algorithm(self) -> str:
        """Return "default", because JAX does not report it."""
        return "default"


class Functions(_Sums):
    """`paceline.jax.all_reduce` under `jax.jit`."""

    def __init__(self, options: dict[str, str], timeout: float) -> None:
        import paceline.jax

        self._group = paceline.jax.init(timeout=timeout)
        self.rank, self.size = self._group.rank, self._group.size
        self.about = f"paceline.jax with JAX {jax.__version__}"
        self.program = jax.jit(paceline.jax.all_reduce, donate_argnums=0)

    def barrier(self) -> None:
        """Wait until every rank has entered."""
        self._group.barrier()

    def close(self) -> None:
        """Leave the job."""
        jax.effects_barrier()
        self._group.close()


class Psum(_Sums):
    """`jax.lax.psum` under `shard_map`, over the CPU collectives that `options["implementation"]` names."""

    def __init__(self, options: dict[str, str], timeout: float) -> None:
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        jax.config.update("jax_platforms", "cpu")
        self.join(options["implementation"], timeout)
        self.about = f"{options['implementation']} in JAX {jax.__version__}"
        mesh, split = Mesh(np.array(jax.devices()), ("ranks",)), PartitionSpec("ranks")
        psum = _shard_map()(lambda x: jax.lax.psum(x, "ranks"), mesh=mesh, in_specs=split, out_specs=split)
        self.program = jax.jit(psum, donate_argnums=0)
        self._sharding = NamedSharding(mesh, split)

    def join(self, implementation: str, timeout: float) -> None:
        """Join the job. timeout: seconds."""
        jax.config.update("jax_cpu_collectives_implementation", implementation)
        address = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        jax.distributed.initialize(address, self.size, self.rank, initialization_timeout=int(timeout))

    def given(self, mine: Array) -> Any:
        """Return the program's argument, of which this rank has `mine`."""
        return jax.make_array_from_process_local_data(self._sharding, mine)

    def own(self, result: Any) -> Any:
        """Return what this rank has of the result."""
        return result.addressable_data(0)

    def barrier(self) -> None:
        """Wait until every rank has entered."""
        self.program(self.given(np.zeros(1, np.float32))).block_until_ready()

    def close(self) -> None:
        """Leave the job."""
        jax.distributed.shutdown()
