"""From horovodrun's elastic options to the job that carries them out."""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from paceline.errors import RendezvousError
from paceline.horovod.driver.cooldown import Resting
from paceline.horovod.driver.hosts import Discovery, FixedHosts
from paceline.horovod.driver.job import ElasticJob
from paceline.horovod.driver.limits import PATIENCE, Limits
from paceline.horovod.driver.rounds import Rounds
from paceline.horovod.driver.store import Board
from paceline.horovod.hosts import Slots, is_here
from paceline.horovod.options import output_folder
from paceline.launch import tree
from paceline.launch.job import Command, Job
from paceline.launch.multi_host import Starter, new_mark
from paceline.launch.remote import Ssh
from paceline.launch.run import say
from paceline.launch.stderr import Collector
from paceline.rendezvous.listener import listen_tcp
from paceline.settings.settings import Settings


@contextmanager
def elastic(options: argparse.Namespace, hosts: Slots, env: dict[str, str]) -> Iterator[Callable[[Collector], Job]]:
    """What makes the job that the options describe; leaving the context closes what it stood on.

    Raises ValueError for what cannot be meant, RendezvousError if ranks elsewhere could not reach this machine.
    """
    settings = Settings.from_environment(env)
    limits = _limits(options, hosts, settings.elastic_timeout)
    resting = Resting(tuple(options.cooldown) if options.cooldown else None)
    secret = env.setdefault("PACELINE_SECRET", secrets.token_hex(32))
    env["HOROVOD_ELASTIC"] = "1"
    mark = new_mark()
    source: Discovery | FixedHosts
    if options.host_discovery_script:
        source = Discovery(options.host_discovery_script, options.slots, {**env, tree.MARK: mark})
    else:
        source = FixedHosts(hosts or {"localhost": limits.ranks})
    try:
        door, address = listen_tcp(_address(options, source.latest), settings.ports)
        board = Board([door], secret.encode())
        try:
            starter = Starter(options.command, env, Ssh(options.ssh_port, options.ssh_identity_file), is_here)
            host = f"[{address.host}]" if ":" in address.host else address.host

            def command(worker: int, where: str, place: int) -> Command:
                told = {
                    "PACELINE_ELASTIC": f"{host}:{address.port}/{worker}",
                    "MASTER_ADDR": address.host,
                    "LOCAL_RANK": str(place),
                }
                return starter.command(where, told, f"worker {worker} on {where}", source.latest.get(where, place + 1))

            rounds = Rounds(limits, resting)
            copies = output_folder(options)
            yield lambda collector: ElasticJob(rounds, source, board, command, mark, collector, copies)
        finally:
            board.close()
    finally:
        source.close()


def _limits(options: argparse.Namespace, hosts: Slots, timeout: float | None) -> Limits:
    ranks: int | None = options.num_proc or sum(hosts.values()) or options.min_num_proc
    if ranks is None:
        raise ValueError("say how many ranks to begin with, for example: -np 4 --min-np 2 python train.py")
    scripted = bool(options.host_discovery_script)
    if scripted and hosts:
        raise ValueError("the hosts come from --host-discovery-script or from -H and --hostfile, not from both")
    if hosts and sum(hosts.values()) < ranks:
        raise ValueError(f"-np {ranks} is more than the {sum(hosts.values())} slots of the hosts")
    least = options.min_num_proc or ranks
    given = (seconds for seconds in (options.elastic_timeout, timeout) if seconds is not None)
    return Limits(ranks, least, options.max_num_proc, next(given, PATIENCE), options.reset_limit, scripted)


def _address(options: argparse.Namespace, hosts: Slots) -> str:
    """Where the driver listens: on this machine alone only if no other one can come."""
    from paceline.horovod.run import own_address

    if all(is_here(host) for host in hosts) and not options.host_discovery_script:
        return "127.0.0.1"
    try:
        return own_address(options, next((host for host in hosts if not is_here(host)), None))
    except RendezvousError as error:
        if not all(is_here(host) for host in hosts):
            raise
        say(f"hosts other than this one cannot join: {error}")
        return "127.0.0.1"
