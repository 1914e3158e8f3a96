"""MPI through mpi4py: raw calls on NumPy buffers, with the MPI library that the launcher's environment selects."""

from __future__ import annotations

import importlib
from typing import Any

from .adapter import Call, Unsupported
from .case import Case, aligned
from .pattern import Array

DTYPES = {
    "float16": "FLOAT16_T",
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "int8": "INT8_T",
    "uint8": "UINT8_T",
    "int32": "INT32_T",
    "int64": "INT64_T",
}
OPS = {"sum": "SUM", "product": "PROD", "min": "MIN", "max": "MAX"}


class Mpi:
    """The world communicator, started with MPI_THREAD_MULTIPLE."""

    def __init__(self, options: dict[str, str], timeout: float) -> None:
        # With MPI_THREAD_SINGLE, MPICH stalls if ranks outnumber cores.
        importlib.import_module("mpi4py").rc.thread_level = "multiple"
        # This is not an import statement because importing mpi4py.MPI initialises MPI.
        self._mpi: Any = importlib.import_module("mpi4py.MPI")
        self._world = self._mpi.COMM_WORLD
        self._algorithm = options.get("algorithm", "default")
        self.rank, self.size = self._world.Get_rank(), self._world.Get_size()
        lines = self._mpi.Get_library_version().splitlines()
        self.about = " ".join(lines[0].split(",")[0].split())

    memory = staticmethod(aligned)

    def bind(self, case: Case, source: Array, target: Array) -> Call:
        """Return the call that runs the case once. Raises Unsupported."""
        mpi, world, root = self._mpi, self._world, case.root
        dtype = getattr(mpi, DTYPES.get(case.dtype, ""), mpi.DATATYPE_NULL)
        if dtype == mpi.DATATYPE_NULL:
            raise Unsupported(f"this MPI has no {case.dtype}")
        a, b, op = [source, dtype], [target, dtype], getattr(mpi, OPS[case.op])
        following, previous = (case.rank + 1) % case.ranks, (case.rank - 1) % case.ranks
        in_place = mpi.IN_PLACE
        if case.rank == root:
            reduce: Call = lambda: world.Reduce(in_place, a, op, root)  # noqa: E731
        else:
            reduce = lambda: world.Reduce(a, None, op, root)  # noqa: E731
        calls: dict[str, Call] = {
            "all_reduce": lambda: world.Allreduce(in_place, a, op),
            "all_gather": lambda: world.Allgather(a, b),
            "reduce_scatter": lambda: world.Reduce_scatter_block(a, b, op),
            "broadcast": lambda: world.Bcast(a, root),
            "all_to_all": lambda: world.Alltoall(a, b),
            "reduce": reduce,
            "barrier": lambda: world.Barrier(),
            "sendrecv": lambda: world.Sendrecv(a, following, 0, b, previous, 0),
        }
        if case.collective not in calls:
            raise Unsupported(f"this benchmark has no {case.collective} for MPI")
        return calls[case.collective]

    def barrier(self) -> None:
        """Wait until every rank has entered."""
        self._world.Barrier()

    def algorithm(self) -> str:
        """Return the setting that the options name."""
        return self._algorithm

    def close(self) -> None:
        """Finalize MPI."""
        self._mpi.Finalize()
