"""Reduces a model's gradients by name through Horovod's API for PyTorch, with the same calls for Horovod and Paceline.

Horovod itself runs in an environment of its own, where Paceline need not be installed.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import threading
import time
from typing import Any

import torch

from .adapter import Call
from .case import Case, aligned
from .pattern import Array
from .whole import Whole

HOROVOD = "horovod.torch"


class ByName:
    """All ranks, connected through the RANK, WORLD_SIZE and MASTER_* variables, in the module `options["module"]`."""

    def __init__(self, options: dict[str, str], timeout: float) -> None:
        torch.set_num_threads(1)
        self._gradients = json.loads(options["gradients"])
        if options["module"] == HOROVOD:
            meet_as_horovod_does(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), timeout)
        self._hvd: Any = importlib.import_module(options["module"])
        self._hvd.init()
        self.rank, self.size = self._hvd.rank(), self._hvd.size()
        self.about = f"{options['module']} with torch {torch.__version__}"

    def memory(self, size: int) -> Array:
        """Return ordinary memory, uint8[size]."""
        return aligned(size)

    def bind(self, case: Case, source: Array, target: Array) -> Call:
        """Return the call that reduces all gradients once."""
        hvd, whole = self._hvd, torch.from_numpy(source)
        parts = torch.split(whole, [elements for _, elements in self._gradients])
        named = [(name, part) for (name, _), part in zip(self._gradients, parts, strict=True)]

        def step() -> None:
            for handle in [hvd.allreduce_async_(part, name=name, op=hvd.Sum) for name, part in reversed(named)]:
                hvd.synchronize(handle)

        return step

    def barrier(self) -> None:
        """Wait until every rank has entered."""
        self._hvd.barrier()

    def algorithm(self) -> str:
        """Return "default", because the systems do not report it."""
        return "default"

    def close(self) -> None:
        """Leave the job."""
        self._hvd.shutdown()


class MadeByName(ByName):
    """The same with gradients that each step makes, one after the other, as a backward pass does."""

    def bind(self, case: Case, source: Array, target: Array) -> Call:
        """Return the call that makes all gradients and reduces them once, and returns the sums."""
        hvd, one = self._hvd, torch.ones(())
        parts = torch.split(torch.from_numpy(source), [elements for _, elements in self._gradients])
        named = [(name, part) for (name, _), part in zip(self._gradients, parts, strict=True)]

        def step() -> Whole:
            handles = [hvd.allreduce_async_(part * one, name=name, op=hvd.Sum) for name, part in named]
            return Whole([hvd.synchronize(handle) for handle in handles])

        return step


def meet_as_horovod_does(rank: int, size: int, timeout: float) -> None:
    """Do what horovodrun does for ranks on this machine, without its ssh and its search for interfaces."""
    from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
    from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if rank == 0:
        server = RendezvousHTTPServer((address, port), RendezvousHandler, False)
        server.init(get_host_assignments(parse_hosts(f"localhost:{size}"), size, size))
        threading.Thread(target=server.serve_forever, daemon=True).start()
    else:
        _wait_for(address, port, time.monotonic() + timeout)
    places = {"RANK": rank, "SIZE": size, "LOCAL_RANK": rank, "LOCAL_SIZE": size, "CROSS_RANK": 0, "CROSS_SIZE": 1}
    os.environ.update({f"HOROVOD_{name}": str(value) for name, value in places.items()})
    os.environ |= {"HOROVOD_CONTROLLER": "gloo", "HOROVOD_CPU_OPERATIONS": "gloo", "HOROVOD_GLOO_IFACE": "lo"}
    os.environ |= {"HOROVOD_HOSTNAME": "localhost", "HOROVOD_GLOO_RENDEZVOUS_ADDR": address}
    os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"] = str(port)


def _wait_for(address: str, port: int, deadline: float) -> None:
    """Wait until rank 0 listens, because Horovod itself does not try again."""
    while True:
        try:
            socket.create_connection((address, port), 1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
