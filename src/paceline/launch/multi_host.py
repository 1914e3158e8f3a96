"""Ranks on several hosts, each told its rank as torchrun would tell it; those on other hosts are started by ssh."""

from __future__ import annotations

import os
import secrets
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from paceline.launch import tree
from paceline.launch.job import UNBUFFERED, Command, wrapped
from paceline.launch.prefixed_output import HeardJob
from paceline.launch.remote import Ssh
from paceline.launch.resources import plan_resources
from paceline.launch.stderr import Collector
from paceline.settings.settings import STORE_PORTS


class Starter:
    """Makes the command that runs `argv` on a host, with the threads that are right there.

    env: the whole environment of the ranks, but for what each is told. here: whether a host is this machine.
    """

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], ssh: Ssh, here: Callable[[str], bool]) -> None:
        self._argv = tuple(argv)
        self._env = {**UNBUFFERED, **env}
        self._ssh = ssh
        self._here = here

    def command(self, host: str, told: Mapping[str, str], name: str, ranks: int) -> Command:
        """told: the environment of this rank alone. ranks: how many share the host's CPUs."""
        from paceline.cpu.budget import available

        env = {**self._env, **told}
        if not self._here(host):
            return self._ssh.command(host, self._argv, env, name, ranks)
        env.update(plan_resources(ranks, available(), env).variables)
        return Command(wrapped(self._argv, death_signal=signal.SIGKILL, parent=os.getpid()), env, name)


class SpreadJob(HeardJob):
    """Rank i on host `hosts[i]`. address: where other hosts reach this machine. copies: see `HeardJob`.

    told: what each rank's environment has beside what a launcher tells.
    """

    def __init__(
        self,
        starter: Starter,
        hosts: Sequence[str],
        here: Callable[[str], bool],
        address: str,
        mark: str,
        collector: Collector,
        copies: Path | None = None,
        told: Sequence[Mapping[str, str]] = (),
    ) -> None:
        self._reservation: socket.socket | None = None
        if here(hosts[0]):
            # Bound and kept, but not listening: nobody else is given this port, and rank 0 can still listen on it.
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            self._reservation = socket.socket(family, socket.SOCK_STREAM)
            self._reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._reservation.bind((address, 0))
            master = (address, self._reservation.getsockname()[1])
        else:
            master = (hosts[0], secrets.choice(STORE_PORTS))
        commands = []
        for rank, (host, extra) in enumerate(zip(hosts, told or [{}] * len(hosts), strict=True)):
            place = {
                "RANK": str(rank),
                "WORLD_SIZE": str(len(hosts)),
                "LOCAL_RANK": str(hosts[:rank].count(host)),
                "LOCAL_WORLD_SIZE": str(hosts.count(host)),
                "MASTER_ADDR": master[0],
                "MASTER_PORT": str(master[1]),
            }
            commands.append(starter.command(host, {**place, **extra}, f"rank {rank} on {host}", hosts.count(host)))
        super().__init__(commands, mark, collector, copies)

    def terminate(self, grace: float = 2.0) -> list[int]:
        """As `Job.terminate`; also gives the port back."""
        left = super().terminate(grace)
        if self._reservation is not None:
            self._reservation.close()
        return left


def new_mark() -> str:
    """A mark for a job of this process."""
    return tree.new_mark(os.environ)
