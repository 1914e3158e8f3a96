"""Training with DistributedDataParallel, whose buckets of gradients MPI sums in a thread of its own."""

import importlib
import queue
import threading
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from ..pattern import Array
from ..silent import SilentProcessGroup
from .torch_ddp import TorchDdp


class TorchMpi(TorchDdp):
    """options["sum"]: "allreduce" calls MPI_Allreduce for each bucket; "ring" is Baidu's ring for each tensor."""

    def __init__(self, options: dict[str, str], timeout: float) -> None:
        torch.set_num_threads(1)
        importlib.import_module("mpi4py").rc.thread_level = "multiple"
        # This is not an import statement because importing mpi4py.MPI initialises MPI.
        self._mpi: Any = importlib.import_module("mpi4py.MPI")
        self._world = self._mpi.COMM_WORLD
        self.rank, self.size = self._world.Get_rank(), self._world.Get_size()
        self._backend = options["sum"]
        library = " ".join(self._mpi.Get_library_version().splitlines()[0].split(",")[0].split())
        self.about = f"DDP over {self._backend} of {library} with torch {torch.__version__}"
        self._work: queue.SimpleQueue[tuple[dist.GradBucket, Future[Tensor]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._sum, daemon=True)
        self._thread.start()

    def distributed(self, module: nn.Module) -> nn.Module:
        """Return DDP whose buckets go to the thread."""
        made = DistributedDataParallel(module, process_group=SilentProcessGroup(self.rank, self.size))
        made.register_comm_hook(None, self._hand_over)
        return made

    def close(self) -> None:
        """End the thread and MPI."""
        self._work.put(None)
        self._thread.join()
        self._mpi.Finalize()

    def _hand_over(self, state: object, bucket: dist.GradBucket) -> Future[Tensor]:
        summed: Future[Tensor] = Future()
        self._work.put((bucket, summed))
        return summed

    def _sum(self) -> None:
        while (work := self._work.get()) is not None:
            bucket, summed = work
            try:
                if self._backend == "ring":
                    for gradient in bucket.gradients():
                        ring(self._world, gradient.numpy().reshape(-1))
                else:
                    self._world.Allreduce(self._mpi.IN_PLACE, bucket.buffer().numpy())
                summed.set_result(bucket.buffer().div_(self.size))
            except Exception as error:
                summed.set_exception(error)  # type: ignore[arg-type]  # its annotation is wrong


def ring(world: Any, data: Array) -> None:
    """Sum `data`, a vector, over all ranks in place, by messages to the next rank and from the one before alone.

    A. Gibiansky, "Bringing HPC Techniques to Deep Learning" (Baidu, 2017): the scatter-reduce and the all-gather of a
    ring, each of size - 1 rounds, by MPI_Sendrecv, for each tensor on its own.
    """
    rank, size = world.Get_rank(), world.Get_size()
    following, before = (rank + 1) % size, (rank - 1) % size
    parts = np.array_split(data, size)
    room = np.empty_like(parts[0])  # array_split makes the first parts the largest
    for turn in range(size - 1):
        target = parts[(rank - turn - 1) % size]
        received = room[: target.size]
        world.Sendrecv(parts[(rank - turn) % size], following, 0, received, before, 0)
        target += received
    for turn in range(size - 1):
        world.Sendrecv(parts[(rank + 1 - turn) % size], following, 0, parts[(rank - turn) % size], before, 0)
