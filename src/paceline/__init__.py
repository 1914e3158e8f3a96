"""Paceline keeps every rank of a training job in step.

`init()` joins this rank to its job and gives a `Group` with the collectives, `empty()` makes arrays that they need not
copy; `paceline.torch` is the same for PyTorch. Nothing here imports a framework.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from paceline.version import VERSION

if TYPE_CHECKING:
    from paceline.cpu.pinning import InputWorkers
    from paceline.group.group import Group
    from paceline.group.operation import Operation
    from paceline.process.arena import empty

__all__ = ["Group", "Operation", "empty", "init", "worker_init"]

__version__ = VERSION

_HOMES = {
    "Group": "paceline.group.group",
    "Operation": "paceline.group.operation",
    "empty": "paceline.process.arena",
}
"""Loaded when they are first asked for."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'paceline' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def init(rank: int | None = None, size: int | None = None, timeout: float | None = None) -> Group:
    """Join this process to its job; returns the group of all ranks.

    The launcher's environment (paceline run, torchrun, horovodrun, mpirun, srun) says which rank this is, unless `rank`
    and `size` are given. timeout: the seconds for the meeting and then for every collective; None: see `Limits`. Raises
    ConfigurationError if the arguments or the environment make no sense, and RendezvousError if the ranks cannot meet.
    """
    from paceline.process import init

    return init.init(rank, size, timeout)


def worker_init(then: Callable[[int], object] | None = None) -> InputWorkers:
    """The `worker_init_fn` of a DataLoader: its workers go to the CPUs that `--cores` keeps for them, then call `then`.

    It can be pickled, and does nothing but call `then` where cores are not divided. Raises CommunicationError before
    this process has joined a job.
    """
    from paceline.process.current import runtime

    return runtime().input_workers(then)
