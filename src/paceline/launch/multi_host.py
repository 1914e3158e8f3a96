"""Starts ranks on several hosts, with the variables that torchrun sets; ssh starts those on other hosts."""

from __future__ import annotations

import os
import secrets
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from paceline.launch import tree
from paceline.launch.job import UNBUFFERED, Command, wrapped
from paceline.launch.prefixed_output import PrefixedOutputJob
from paceline.launch.remote import Ssh
from paceline.launch.reservation import reserve
from paceline.launch.resources import plan_resources
from paceline.launch.stderr import Collector
from paceline.rendezvous.dial import TcpAddress
from paceline.settings.settings import STORE_PORTS, port_range


class Starter:
    """Makes the commands that run `argv` on a host, with the number of threads that suits the host.

    env: the whole environment of the ranks, apart from the variables of each rank. here: returns whether a host is this
    machine.
    """

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], ssh: Ssh, here: Callable[[str], bool]) -> None:
        self._argv = tuple(argv)
        self.env = {**UNBUFFERED, **env}
        self._ssh = ssh
        self._here = here

    def command(self, host: str, variables: Mapping[str, str], name: str, ranks: int) -> Command:
        """Return the command that starts one rank.

        variables: the variables of this rank alone. ranks: the number of ranks that share the host's CPUs.
        Raises ValueError if arguments and environment are too long for ssh.
        """
        from paceline.cpu.budget import available

        env = {**self.env, **variables}
        if not self._here(host):
            return self._ssh.command(host, self._argv, env, name, ranks)
        env.update(plan_resources(ranks, available(), env).variables)
        return Command(wrapped(self._argv, death_signal=signal.SIGKILL, parent=os.getpid()), env, name)


class MultiHostJob(PrefixedOutputJob):
    """Runs rank i on host `hosts[i]`.

    here: returns whether a host is this machine. address: the address at which other hosts reach this machine. copies:
    see `PrefixedOutputJob`. extra_env: further variables of each rank.
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
        extra_env: Sequence[Mapping[str, str]] = (),
    ) -> None:
        self._reservation: socket.socket | None = None
        if here(hosts[0]):
            self._reservation, master = reserve(address, starter.env)
        else:
            allowed = port_range(starter.env) or (STORE_PORTS[0], STORE_PORTS[-1])
            master = TcpAddress(hosts[0], secrets.choice(range(allowed[0], allowed[1] + 1)))
        commands = []
        for rank, (host, extra) in enumerate(zip(hosts, extra_env or [{}] * len(hosts), strict=True)):
            place = {
                "RANK": str(rank),
                "WORLD_SIZE": str(len(hosts)),
                "LOCAL_RANK": str(hosts[:rank].count(host)),
                "LOCAL_WORLD_SIZE": str(hosts.count(host)),
                "MASTER_ADDR": master.host,
                "MASTER_PORT": str(master.port),
            }
            commands.append(starter.command(host, {**place, **extra}, f"rank {rank} on {host}", hosts.count(host)))
        super().__init__(commands, mark, collector, copies)

    def terminate(self, grace: float = 2.0) -> list[int]:
        """End the job as `Job.terminate` does, and release the port."""
        left = super().terminate(grace)
        if self._reservation is not None:
            self._reservation.close()
        return left


def new_mark() -> str:
    """Return a mark for a new job of this process."""
    return tree.new_mark(os.environ)
