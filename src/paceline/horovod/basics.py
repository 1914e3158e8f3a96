"""Who and where this process is, and what Paceline stands on, in Horovod's words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from paceline.horovod import job
from paceline.horovod.process_sets import NO_MPI, ProcessSet, register_all


def init(comm: Sequence[int] | None = None, process_sets: Sequence[ProcessSet] | str | None = None) -> None:
    """Join this process to its job, as the launcher's environment tells it. A second call changes nothing.

    comm: the ranks of the launcher that make up the job (default: all). process_sets: sets to register at once, equal
    on all ranks; "dynamic" is accepted, as sets may be added at any time anyway.
    Raises ValueError for what cannot be meant, RendezvousError if the ranks cannot meet.
    """
    if comm is not None and not isinstance(comm, Iterable):
        raise ValueError(NO_MPI)
    if isinstance(process_sets, str) and process_sets.lower() != "dynamic":
        raise ValueError(f'process_sets should be a list of ProcessSet or "dynamic", not {process_sets!r}')
    wanted = [] if process_sets is None or isinstance(process_sets, str) else list(process_sets)
    if not job.start(comm, lambda made: register_all(made, wanted)) and wanted:
        raise ValueError("Horovod is initialized already; hvd.add_process_set adds process sets")


def shutdown() -> None:
    """Leave the job. `init` may be called again, on all ranks."""
    job.stop()


def is_initialized() -> bool:
    """Whether this process is in a job."""
    return job.running()


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Begin a timeline of the tensors of all ranks, which rank 0 writes to this file while the job runs.

    mark_cycles: mark when each batch was issued, which is what a cycle comes to.

    Raises OSError if the file cannot be made.
    """
    job.current().start_timeline(Path(file_path), mark_cycles)


def stop_timeline() -> None:
    """Finish the timeline's file; nothing happens if none was begun."""
    job.current().stop_timeline()


def size() -> int:
    """How many ranks the job has."""
    return job.current().size


def rank() -> int:
    """This process's rank in the job."""
    return job.current().rank


def local_size() -> int:
    """How many ranks this machine has."""
    return job.current().place.local_size


def local_rank() -> int:
    """This process's place among the ranks of its machine."""
    return job.current().place.local_rank


def cross_size() -> int:
    """How many machines have a rank with this local rank."""
    return job.current().place.cross_size


def cross_rank() -> int:
    """This process's place among those."""
    return job.current().place.cross_rank


def is_homogeneous() -> bool:
    """Whether every machine has equally many ranks."""
    return job.current().place.homogeneous


def mpi_threads_supported() -> bool:
    """Raises ValueError, as Horovod does where MPI is not enabled."""
    raise ValueError("Horovod MPI is not enabled: Paceline does without MPI")


def mpi_enabled() -> bool:
    """False: Paceline has its own transports."""
    return False


def mpi_built() -> bool:
    """False: Paceline has its own transports."""
    return False


def gloo_enabled() -> bool:
    """False: Paceline has its own transports."""
    return False


def gloo_built() -> bool:
    """False: Paceline has its own transports."""
    return False


def nccl_built() -> int:
    """0: tensors on a GPU go through the host's memory."""
    return 0


def ddl_built() -> bool:
    return False


def ccl_built() -> bool:
    return False


def cuda_built() -> bool:
    """False: nothing is compiled against CUDA."""
    return False


def rocm_built() -> bool:
    return False
