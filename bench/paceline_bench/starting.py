"""Starts the ranks of one system: directly or by an MPI's own launcher, here or on the machines of a lab."""

from __future__ import annotations

import itertools
import os
import shlex
import signal
from collections.abc import Mapping
from pathlib import Path

from paceline.cpu.budget import available
from paceline.lab.job import LabJob
from paceline.lab.lab import Lab
from paceline.lab.layout import INTERFACE
from paceline.launch import tree
from paceline.launch.job import Command, Job, wrapped
from paceline.launch.local import LocalJob
from paceline.launch.threads import thread_variables
from paceline_bench.systems import MPI_FILES, System

_BENCH = Path(__file__).parent
# All ports of a lab's machines are free, but the jobs of a run share them, so each job takes the next one.
_LAB_PORTS = itertools.count(29400)


def job(system: System, ranks: int, address: Path, scratch: Path, environ: Mapping[str, str], lab: Lab | None) -> Job:
    """Return the job whose ranks connect to the Unix socket `address`; its output goes to files in `scratch`.

    environ: the environment that the ranks inherit. lab: the machines that the ranks are started on, None for this one.
    """
    # What a rank leaves in its temporary folder when it is killed, as TensorFlow does, goes with the run's.
    env = {**environ, **thread_variables(1, environ), "TMPDIR": str(scratch), **system.environment}
    start = f"import sys; sys.path.append({str(_BENCH)!r}); from ranks.program import main; main({str(address)!r})"
    argv = [str(system.python), "-c", start]
    if system.launcher != "local":
        return _mpi_job(system, argv, ranks, scratch, env, lab)
    if lab is not None:
        return LabJob(lab, argv, env, port=next(_LAB_PORTS), threads=1, output=scratch)
    apart: list[dict[str, str]] = []
    if system.machines > 1:
        apart = [{"PACELINE_MACHINE": f"machine-{rank * system.machines // ranks}"} for rank in range(ranks)]
    return LocalJob(ranks, argv, {**env, "GLOO_SOCKET_IFNAME": "lo"}, output=scratch, extra_env=apart)


def _mpi_job(system: System, argv: list[str], ranks: int, scratch: Path, env: dict[str, str], lab: Lab | None) -> Job:
    library, launcher = MPI_FILES[system.launcher]
    prefix = system.python.parent.parent
    # The absolute path alone selects the MPI; if MPI4PY_MPIABI were set too, mpi4py would not load it from there.
    env = {**env, "MPI4PY_LIBMPI": str(prefix / library)}
    env.pop("MPI4PY_MPIABI", None)
    command_line = _openmpi if system.launcher == "openmpi" else _hydra
    options, added = command_line(system.launcher, prefix, ranks, argv, lab, _agent(lab, scratch) if lab else Path())
    command = [str(prefix / launcher), *options]
    if lab is not None:
        command = [*lab.exec(0), *command]
    program = wrapped(command, death_signal=signal.SIGTERM, parent=os.getpid())
    return Job([Command(program, {**env, **added}, f"{system.name}'s launcher")], tree.new_mark(env), output=scratch)


CommandLine = tuple[list[str], dict[str, str]]
"""A launcher's arguments, and the variables that its environment needs in addition."""


def _hydra(name: str, prefix: Path, ranks: int, argv: list[str], lab: Lab | None, agent: Path) -> CommandLine:
    """Return the command line of MPICH's or Intel MPI's launcher."""
    added = {"I_MPI_ROOT": str(prefix)} if name == "intelmpi" else {}
    if lab is None:
        fabrics = {"I_MPI_FABRICS": "shm"} if name == "intelmpi" else {}
        return ["-launcher", "fork", "-n", str(ranks), *argv], {**added, **fabrics}
    # UCX identifies a machine by its kernel, and would find shared memory between the machines of a lab.
    added |= {"FI_PROVIDER": "tcp", "FI_TCP_IFACE": INTERFACE, "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": INTERFACE}
    options = ["-launcher", "rsh", "-launcher-exec", str(agent), "-iface", INTERFACE]
    if name == "mpich":
        return [*options, "-hosts", _hosts(lab), "-n", str(ranks), *argv], added
    # Intel MPI's launcher ignores the numbers in a list of hosts, so each machine gets a set of arguments.
    for number, machine in enumerate(lab.machines):
        options += [*([":"] if number else []), "-host", machine.host, "-n", str(len(machine.ranks)), *argv]
    return options, {**added, "I_MPI_FABRICS": "shm:ofi"}


def _hosts(lab: Lab) -> str:
    return ",".join(f"{machine.host}:{len(machine.ranks)}" for machine in lab.machines)


def _openmpi(name: str, prefix: Path, ranks: int, argv: list[str], lab: Lab | None, agent: Path) -> CommandLine:
    """Return the command line of Open MPI's launcher, which is PRRTE's."""
    added = {variable: str(prefix) for variable in ("OPAL_PREFIX", "PMIX_PREFIX", "PRTE_PREFIX")}
    for runtime in ("OMPI", "PRTE"):
        added |= {f"{runtime}_ALLOW_RUN_AS_ROOT": "1", f"{runtime}_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    options = ["--personality", "ompi", "--map-by", "slot:OVERSUBSCRIBE" if lab else ":OVERSUBSCRIBE"]
    options += ["--bind-to", "none"]
    # Waiting ranks must let others run if they share cores; otherwise spinning is best.
    if ranks > available().cpus:
        options += ["--mca", "mpi_yield_when_idle", "1"]
    if lab is not None:
        options += ["--host", _hosts(lab), "--prtemca", "plm_ssh_agent", str(agent)]
        options += ["--prtemca", "prte_if_include", INTERFACE]
        options += ["--mca", "btl_tcp_if_include", INTERFACE, "--mca", "pml", "ob1", "--mca", "btl", "self,sm,tcp"]
    return [*options, "-n", str(ranks), *argv], added


def _agent(lab: Lab, scratch: Path) -> Path:
    """Write the script that launchers call in place of rsh, with a machine's name and words for a shell there."""
    cases = [
        f'{shlex.quote(machine.host)}) exec {shlex.join(lab.exec(number))} sh -c "$*" ;;'
        for number, machine in enumerate(lab.machines)
    ]
    file = scratch / "agent"
    file.write_text("\n".join(["#!/bin/sh", "host=$1; shift", "case $host in", *cases, "esac", "exit 1", ""]))
    file.chmod(0o700)
    return file
