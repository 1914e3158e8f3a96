"""A rank that does nothing but take batches of images, from a pipeline that ranks share or from one of its own."""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import resource
import time
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Subset

from .images import Images
from .wire import Message

_CLASSES = 1000
_POLL_SECONDS = 0.01


class Loading:
    """One rank, whose `options["method"]` is "shared" or "own"."""

    def __init__(self, options: dict[str, str], timeout: float) -> None:
        torch.set_num_threads(1)
        importlib.import_module("paceline.torch")
        dist.init_process_group("paceline", timeout=timedelta(seconds=timeout))
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.about = f"torch {torch.__version__}"
        self._timeout = timeout
        batch, workers = int(options["batch"]), int(options["workers"])  # of all ranks together
        data: Any = Images(int(options["images"]), int(options["pixels"]), _CLASSES)
        self._loader: Iterable[Any]
        if options["method"] == "shared":
            shared = importlib.import_module("paceline.torch.data").Loader
            self._loader = shared(data, batch_size=batch, num_workers=workers)
        else:
            mine = Subset(data, range(self.rank, len(data), self.size))
            self._loader = DataLoader(mine, batch_size=batch // self.size, num_workers=workers // self.size)

    def do_read(self) -> Message:
        """Take all batches of an epoch; return wall seconds, CPU seconds with those of input workers, and images."""
        dist.barrier()
        cpu, begin, images = _cpu_seconds(), time.perf_counter(), 0
        for inputs, _ in self._loader:
            images += len(inputs)
        dist.barrier()
        seconds = time.perf_counter() - begin
        del inputs
        gc.collect()
        deadline = time.monotonic() + self._timeout
        while multiprocessing.active_children() and time.monotonic() < deadline:  # a worker's time counts at its end
            time.sleep(_POLL_SECONDS)
        return {"seconds": seconds, "cpu_seconds": _cpu_seconds() - cpu, "images": images}

    def close(self) -> None:
        """Leave the process group."""
        dist.destroy_process_group()


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
