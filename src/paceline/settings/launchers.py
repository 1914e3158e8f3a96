"""Read what each launcher writes into a rank's environment, in one common form.

The launchers are torchrun and its like (RANK, WORLD_SIZE), horovodrun (HOROVOD_*), Open MPI 4 and 5
(OMPI_COMM_WORLD_*), MPICH and Intel MPI (PMI_*) and Slurm (SLURM_*), in this order: the most specific one wins, as when
mpirun is called inside a Slurm allocation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

Environment = Mapping[str, str]

LARGEST_WORLD = 1 << 20
"""Ranks that a job can have."""


@dataclass(frozen=True, slots=True)
class LauncherView:
    """A rank's place in its job according to its launcher; `paceline.settings.settings.Settings` explains fields."""

    launcher: str = "none"
    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int | None = 1
    rank_variable: str | None = None
    master_address: str | None = None
    master_port: int | None = None
    master_port_taken: bool = False
    """The launcher itself listens on `master_port`, as torchrun's agent does."""
    job: str = ""


def launcher_view(env: Environment) -> LauncherView:
    """Return the view of the first launcher that set both a rank and a size, or that of a job of one rank.

    env: environment variables by name. Raises ValueError, whose sentence names a variable with an impossible value.
    """
    for reader in (_torchrun, _horovodrun, _open_mpi, _pmi, _slurm):
        view = reader(env)
        if view is not None:
            return view
    return LauncherView(master_address=env.get("MASTER_ADDR") or None, master_port=_master_port(env))


def _torchrun(env: Environment) -> LauncherView | None:
    names = ["TORCHELASTIC_RUN_ID"]
    if env.get("LOCAL_WORLD_SIZE") == env.get("WORLD_SIZE"):  # each machine's agent counts its own failures
        names.append("TORCHELASTIC_RESTART_COUNT")
    elastic = [env[name] for name in names if env.get(name)]
    address, port = env.get("MASTER_ADDR", ""), env.get("MASTER_PORT", "")
    named = [*elastic, f"{address}:{port}" if address or port else ""]
    return _view(
        env,
        "torchrun" if elastic else "RANK and WORLD_SIZE",
        rank="RANK",
        size="WORLD_SIZE",
        local_rank=("LOCAL_RANK",),
        local_size=("LOCAL_WORLD_SIZE",),
        job="/".join(part for part in named if part),
        port_taken=env.get("TORCHELASTIC_USE_AGENT_STORE", "").lower() == "true",
    )


def _horovodrun(env: Environment) -> LauncherView | None:
    """The view of horovodrun with its Gloo controller; with MPI, the variables are those of mpirun.

    The address of its rendezvous server identifies the job. The server runs where horovodrun was called, which is
    usually rank 0's machine.
    """
    server, port = env.get("HOROVOD_GLOO_RENDEZVOUS_ADDR", ""), env.get("HOROVOD_GLOO_RENDEZVOUS_PORT", "")
    view = _view(
        env,
        "horovodrun",
        rank="HOROVOD_RANK",
        size="HOROVOD_SIZE",
        local_rank=("HOROVOD_LOCAL_RANK",),
        local_size=("HOROVOD_LOCAL_SIZE",),
        job=f"horovodrun {server}:{port}" if server else "",
    )
    if view is None or view.master_address is not None or not server:
        return view
    return replace(view, master_address=server)


def _open_mpi(env: Environment) -> LauncherView | None:
    names = ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid")
    return _view(
        env,
        "Open MPI",
        rank="OMPI_COMM_WORLD_RANK",
        size="OMPI_COMM_WORLD_SIZE",
        local_rank=("OMPI_COMM_WORLD_LOCAL_RANK",),
        local_size=("OMPI_COMM_WORLD_LOCAL_SIZE",),
        job=next((f"openmpi {env[name]}" for name in names if env.get(name)), ""),
    )


def _pmi(env: Environment) -> LauncherView | None:
    return _view(
        env,
        "MPICH or Intel MPI",
        rank="PMI_RANK",
        size="PMI_SIZE",
        local_rank=("MPI_LOCALRANKID", "PMI_LOCAL_RANK", "SLURM_LOCALID"),
        local_size=("MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"),
        # Only srun --mpi=pmi2 identifies the job; the ranks of two mpiexec in one allocation must not mix.
        job="" if env.get("MPI_LOCALNRANKS") else _slurm_job(env),
        by_slurm=not env.get("MPI_LOCALNRANKS"),
    )


def _slurm(env: Environment) -> LauncherView | None:
    size = next((n for n in ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS") if env.get(n)), "SLURM_NTASKS")
    return _view(
        env,
        "Slurm",
        rank="SLURM_PROCID",
        size=size,
        local_rank=("SLURM_LOCALID",),
        local_size=(),
        job=_slurm_job(env),
        by_slurm=True,
    )


def _slurm_job(env: Environment) -> str:
    if not env.get("SLURM_JOB_ID"):
        return ""
    parts = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT")
    return "slurm " + ".".join(env.get(name) or "0" for name in parts)


def _view(
    env: Environment,
    launcher: str,
    *,
    rank: str,
    size: str,
    local_rank: tuple[str, ...],
    local_size: tuple[str, ...],
    job: str,
    port_taken: bool = False,
    by_slurm: bool = False,
) -> LauncherView | None:
    """The common form, or None where this launcher did not start this process.

    rank, size: names of variables. local_rank, local_size: names of variables, of which the first one set is used.
    """
    if not env.get(rank) or not env.get(size):
        return None
    ranks = number(env, size, 1, LARGEST_WORLD)
    me = number(env, rank, 0, ranks - 1)
    local = _first(env, local_size)
    if local is not None:
        here: int | None = number(env, local, 1, ranks)
    else:
        here = 1 if ranks == 1 else _slurm_local_size(env, ranks) if by_slurm else None
    place = _first(env, local_rank)
    address = env.get("MASTER_ADDR") or None
    if address is None and here == ranks:
        address = "127.0.0.1"
    if address is None:
        address = slurm_first_host(env)
    return LauncherView(
        launcher=launcher,
        rank=me,
        size=ranks,
        local_rank=number(env, place, 0, ranks - 1) if place else (me if here == ranks else 0),
        local_size=here,
        rank_variable=rank,
        master_address=address,
        master_port=_master_port(env),
        master_port_taken=port_taken,
        job=job,
    )


def number(env: Environment, name: str, lowest: int, highest: int) -> int:
    """Return the integer in the variable `name`, which must be set.

    Raises ValueError, which names the variable, unless it is a whole number from `lowest` to `highest`.
    """
    text = env[name].strip()
    if re.fullmatch(r"[0-9]{1,9}", text) and lowest <= int(text) <= highest:
        return int(text)
    raise ValueError(f"{name}={text[:80]!r} should be a whole number from {lowest} to {highest}")


def _first(env: Environment, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if env.get(name)), None)


def _master_port(env: Environment) -> int | None:
    return number(env, "MASTER_PORT", 1, 65535) if env.get("MASTER_PORT") else None


def slurm_first_host(env: Environment) -> str | None:
    """Return the host of Slurm's task 0, the first in the node list of the step (else of the job); None without a list.

    Raises ValueError, which names the variable, if the list is malformed.
    """
    name = _first(env, ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"))
    if name is None:
        return None
    try:
        return first_host(env[name])
    except ValueError as error:
        raise ValueError(f"{name}={env[name][:80]!r} {error}") from None


def first_host(nodelist: str) -> str:
    """Return the first host of a Slurm host list: n01 for `n[01-03,7],gpu2`, a1b3 for `a[1-2]b[3-4]`.

    Raises ValueError if the list is malformed.
    """
    first = re.match(r"((?:[^\[\],]|\[[^\[\]]*\])*)(?:,|$)", nodelist.strip())
    pieces = re.split(r"\[([^\[\]]*)\]", first.group(1) if first else "")
    for index in range(1, len(pieces), 2):
        low = re.match(r"[0-9]+(?=$|[-,])", pieces[index])
        if low is None:
            raise ValueError("has a bracket without numbers; a host list looks like n[01-03,7],gpu2")
        pieces[index] = low.group(0)
    host = "".join(pieces)
    if not re.fullmatch(r"[A-Za-z0-9_.:-]{1,253}", host):
        raise ValueError("does not begin with a host name; a host list looks like n[01-03,7],gpu2")
    return host


def _slurm_local_size(env: Environment, ranks: int) -> int | None:
    """The number of tasks that Slurm started on this node, from a list such as `2(x3),1` and this node's index."""
    name = _first(env, ("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"))
    node = env.get("SLURM_NODEID", "0")
    if name is None or not re.fullmatch(r"[0-9]{1,9}", node):
        return None
    index = int(node)
    for item in env[name].split(","):
        match = re.fullmatch(r"\s*([0-9]{1,7})(?:\(x([0-9]{1,7})\))?\s*", item)
        if match is None:
            return None
        repeats = int(match.group(2) or 1)
        if index < repeats:
            tasks = int(match.group(1))
            return tasks if 1 <= tasks <= ranks else None
        index -= repeats
    return None
