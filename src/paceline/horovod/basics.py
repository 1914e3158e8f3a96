"""Horovod's queries about this process, its job, and the transports in use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from paceline.horovod import job
from paceline.horovod.process_sets import NO_MPI, ProcessSet, register_all

__all__ = [
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "gloo_built",
    "gloo_enabled",
    "init",
    "is_homogeneous",
    "is_initialized",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "rocm_built",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
]


def init(comm: Sequence[int] | None = None, process_sets: Sequence[ProcessSet] | str | None = None) -> None:
    """Join this process to its job, as described by the launcher's environment. A second call changes nothing.

    comm: the launcher's ranks that make up the job; all ranks by default. process_sets: the sets to register at once,
    the same on all ranks. "dynamic" is accepted and changes nothing, because sets may be added at any time.

    Raises ValueError for invalid arguments and RendezvousError if the ranks cannot connect.
    """
    if comm is not None and not isinstance(comm, Iterable):
        raise ValueError(NO_MPI)
    if isinstance(process_sets, str) and process_sets.lower() != "dynamic":
        raise ValueError(f'process_sets should be a list of ProcessSet or "dynamic", not {process_sets!r}')
    wanted = [] if process_sets is None or isinstance(process_sets, str) else list(process_sets)
    if not job.start(comm, lambda made: register_all(made, wanted)) and wanted:
        raise ValueError("Horovod is initialized already; hvd.add_process_set adds process sets")


def shutdown() -> None:
    """Leave the job. All ranks may call `init` again afterwards."""
    job.stop()


def is_initialized() -> bool:
    """Return whether this process is in a job."""
    return job.running()


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Start recording a timeline of all ranks' tensors; rank 0 writes it to this file while the job runs.

    mark_cycles: also mark when each batch was issued, which corresponds to Horovod's cycles.

    Raises OSError if the file cannot be created.
    """
    job.current().start_timeline(Path(file_path), mark_cycles)


def stop_timeline() -> None:
    """Finish the timeline's file. Does nothing if no timeline was started."""
    job.current().stop_timeline()


def size() -> int:
    """Return the number of ranks in the job."""
    return job.current().size


def rank() -> int:
    """Return this process's rank in the job."""
    return job.current().rank


def local_size() -> int:
    """Return the number of ranks on this machine."""
    return job.current().place.local_size


def local_rank() -> int:
    """Return this process's index among the ranks of its machine."""
    return job.current().place.local_rank


def cross_size() -> int:
    """Return the number of machines that have a rank with this process's local rank."""
    return job.current().place.cross_size


def cross_rank() -> int:
    """Return the index of this machine among the machines that have a rank with this process's local rank."""
    return job.current().place.cross_rank


def is_homogeneous() -> bool:
    """Return whether all machines have the same number of ranks."""
    return job.current().place.homogeneous


def mpi_threads_supported() -> bool:
    """Always raises ValueError, as Horovod does where MPI is not enabled."""
    raise ValueError("Horovod MPI is not enabled: Paceline does without MPI")


def mpi_enabled() -> bool:
    """Return False: Paceline has its own transports."""
    return False


def mpi_built() -> bool:
    """Return False: Paceline has its own transports."""
    return False


def gloo_enabled() -> bool:
    """Return False: Paceline has its own transports."""
    return False


def gloo_built() -> bool:
    """Return False: Paceline has its own transports."""
    return False


def nccl_built() -> int:
    """Return 0: tensors on a GPU are staged through host memory."""
    return 0


def ddl_built() -> bool:
    """Return False: Paceline has its own transports."""
    return False


def ccl_built() -> bool:
    """Return False: Paceline has its own transports."""
    return False


def cuda_built() -> bool:
    """Return False: nothing is compiled against CUDA."""
    return False


def rocm_built() -> bool:
    """Return False: nothing is compiled against ROCm."""
    return False
