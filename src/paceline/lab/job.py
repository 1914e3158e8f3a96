"""Starts the ranks of one job on the machines of a lab."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from paceline.lab.lab import Lab
from paceline.launch import tree
from paceline.launch.job import Command, Job, wrapped
from paceline.launch.threads import thread_variables


class LabJob(Job):
    """Runs the program `argv` on every rank of a lab, as `LocalJob` does on this machine.

    env: the whole environment of the ranks, to which the lab's variables, the rank's place, MASTER_ADDR and MASTER_PORT
    are added. port: where the ranks meet; jobs of a lab at the same time need a port each. threads: threads per rank
    for numeric libraries; variables set in `env` take precedence. output: a folder for each rank's output
    (`rank-0.out`, `rank-0.err`, …).
    """

    def __init__(
        self, lab: Lab, argv: Sequence[str], env: Mapping[str, str], *, port: int, threads: int, output: Path
    ) -> None:
        base = {
            **env,
            **thread_variables(threads, env),
            "WORLD_SIZE": str(lab.topology.world),
            "MASTER_ADDR": lab.machines[0].address,
            "MASTER_PORT": str(port),
        }
        commands = []
        for number, machine in enumerate(lab.machines):
            program = wrapped([*lab.exec(number), *argv], death_signal=signal.SIGKILL, parent=os.getpid())
            for rank in machine.ranks:
                where = {
                    "RANK": str(rank),
                    "LOCAL_RANK": str(machine.ranks.index(rank)),
                    "LOCAL_WORLD_SIZE": str(len(machine.ranks)),
                }
                commands.append(
                    Command(program, {**base, **lab.environment(number), **where}, f"rank {rank} on {machine.host}")
                )
        super().__init__(commands, tree.new_mark(env), output=output)
