"""JAX's own collectives on Paceline: XLA calls MPI for them, and Paceline's library stands for the MPI."""

from __future__ import annotations

import ctypes
import logging

import jax

from paceline import _engine
from paceline.errors import CommunicationError, ConfigurationError
from paceline.group.group import Group
from paceline.jax import coordination, groups, mpi_library
from paceline.process import at_exit

log = logging.getLogger("paceline.jax")


def initialize(coordinator_address: str | None = None, *, timeout: float | None = None, **options: object) -> Group:
    """Join this process to its job, and let JAX's collectives between CPUs run on Paceline; returns the group of all.

    Call it in place of `jax.distributed.initialize`, which it calls, before any computation. The launcher's environment
    says which rank this is. It does what `init` does, so that the functions of `paceline.jax` work beside JAX's own.

    coordinator_address: where rank 0 listens for JAX's coordination service, as host:port; None: a free port of rank 0.
    timeout: the seconds for the meeting and then for every collective; None: as of `paceline.init`. options: what else
    `jax.distributed.initialize` takes; `num_processes` and `process_id` must be those of the environment.

    Raises ConfigurationError if JAX did not load Paceline's library, has several CPU devices in this process, or is
    given another place in the job than the environment says, and RendezvousError if the ranks cannot meet.
    """
    serve = mpi_library.loaded().paceline_mpi_serve
    group = groups.init(timeout=timeout)
    _check_place(group, options)
    division = _Division(group)
    serve(ctypes.c_void_p(_engine.communicator(group.native, division)))
    at_exit.register(division.end_together)
    jax.config.update("jax_cpu_collectives_implementation", "mpi")
    coordination.connect(group, coordinator_address, options)
    devices = jax.local_device_count("cpu")
    if devices != 1:
        raise ConfigurationError(
            f"JAX has {devices} CPU devices in this process, and its collectives through MPI serve one: start a rank "
            "for each device, without jax_num_cpu_devices and --xla_force_host_platform_device_count"
        )
    return group


def _check_place(group: Group, options: dict[str, object]) -> None:
    """Take the place of this process in the job out of `options`. Raises ConfigurationError if it is another one."""
    for name, own in (("num_processes", group.size), ("process_id", group.rank)):
        given = options.pop(name, None)
        if given is not None and given != own:
            raise ConfigurationError(
                f"{name}={given}, but this is rank {group.rank} of {group.size} by its environment: start it with a "
                "launcher, or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT"
            )


class _Division:
    """Divides a group, and keeps the parts as long as the process lives, as XLA keeps its communicators."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._parts: list[Group] = []

    def __call__(self, color: int, key: int) -> _engine.Group:
        try:
            part = self._group.split(color, key)
        except CommunicationError as error:
            log.error("the ranks could not agree on a communicator for JAX: %s", error)
            raise
        assert part is not None
        self._parts.append(part)
        return part.native

    def end_together(self) -> None:
        """Wait until all ranks have ended their work; one that still computes with others learns that they have not.

        JAX waits for the others after this, and for a dead one too long.
        """
        try:
            for group in (*self._parts, self._group):
                group.barrier()
        except CommunicationError as error:
            log.debug("the ranks did not end together: %s", error)
