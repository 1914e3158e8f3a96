"""How the ranks of one system are started: directly, by an MPI's own launcher, or in network namespaces."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Mapping
from pathlib import Path

from paceline.bench.systems import MPI_FILES, System
from paceline.cores import available
from paceline.lab.namespaces import Machines
from paceline.launch import tree
from paceline.launch.job import Command, Job, wrapped
from paceline.launch.local import LocalJob
from paceline.launch.threads import thread_variables

_BENCH = Path(__file__).parent
# Any port is free in a namespace of our own; the jobs of a run share the namespaces, so each takes the next one.
_NAMESPACE_PORTS = itertools.count(29400)


def job(
    system: System, ranks: int, address: Path, scratch: Path, environ: Mapping[str, str], machines: Machines | None
) -> Job:
    """The job whose ranks connect to the Unix socket `address`; its output goes to files in `scratch`.

    environ: what the ranks inherit. machines: None for one machine; else ranks are spread over them in blocks.
    """
    env = {**environ, **thread_variables(1, environ), **system.environment}
    start = f"import sys; sys.path.append({str(_BENCH)!r}); from ranks.program import main; main({str(address)!r})"
    argv = [str(system.python), "-c", start]
    if system.launcher != "local":
        if machines is not None:
            raise ValueError(f"{system.name}'s ranks are started on one machine only")
        return _mpi_job(system, argv, ranks, scratch, env)
    if machines is not None:
        return _namespace_job(argv, ranks, scratch, env, machines)
    return LocalJob(ranks, argv, {**env, "GLOO_SOCKET_IFNAME": "lo"}, output=scratch)


def _namespace_job(argv: list[str], ranks: int, scratch: Path, env: dict[str, str], machines: Machines) -> Job:
    commands = []
    port = next(_NAMESPACE_PORTS)
    place = [rank * machines.count // ranks for rank in range(ranks)]
    for rank, machine in enumerate(place):
        where = {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank - place.index(machine)),
            "WORLD_SIZE": str(ranks),
            "LOCAL_WORLD_SIZE": str(place.count(machine)),
            "MASTER_ADDR": machines.addresses[0],
            "MASTER_PORT": str(port),
            "GLOO_SOCKET_IFNAME": machines.interface,
        }
        program = wrapped([*machines.exec(machine), *argv], death_signal=signal.SIGKILL, parent=os.getpid())
        commands.append(Command(program, {**env, **where}, f"rank {rank} on machine {machine}"))
    return Job(commands, tree.new_mark(env), output=scratch)


def _mpi_job(system: System, argv: list[str], ranks: int, scratch: Path, env: dict[str, str]) -> Job:
    library, launcher = MPI_FILES[system.launcher]
    prefix = system.python.parent.parent
    # The absolute path alone selects the MPI: with MPI4PY_MPIABI set as well, mpi4py would not load it from there.
    env = {**env, "MPI4PY_LIBMPI": str(prefix / library), "TMPDIR": str(scratch)}
    env.pop("MPI4PY_MPIABI", None)
    if system.launcher == "intelmpi":
        env |= {"I_MPI_ROOT": str(prefix), "I_MPI_FABRICS": "shm"}
    if system.launcher != "openmpi":
        command = [str(prefix / launcher), "-launcher", "fork", "-n", str(ranks), *argv]
    else:
        env |= {name: str(prefix) for name in ("OPAL_PREFIX", "PMIX_PREFIX", "PRTE_PREFIX")}
        for runtime in ("OMPI", "PRTE"):
            env |= {f"{runtime}_ALLOW_RUN_AS_ROOT": "1", f"{runtime}_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        placement = ["--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"]
        # Waiting ranks must let the others run where they share cores; spinning is best where they don't.
        settings = ["--mca", "mpi_yield_when_idle", "1"] if ranks > available().cpus else []
        personality = ["--personality", "ompi"]
        command = [str(prefix / launcher), *personality, *placement, *settings, "-n", str(ranks), *argv]
    program = wrapped(command, death_signal=signal.SIGTERM, parent=os.getpid())
    return Job([Command(program, env, f"{system.name}'s launcher")], tree.new_mark(env), output=scratch)
