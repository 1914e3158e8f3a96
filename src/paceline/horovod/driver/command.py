"""Turns horovodrun's elastic options into the job that carries them out."""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from paceline.errors import RendezvousError
from paceline.horovod.driver.cooldown import Cooldown
from paceline.horovod.driver.hosts import Discovery, FixedHosts
from paceline.horovod.driver.job import ElasticJob
from paceline.horovod.driver.limits import PATIENCE, Limits
from paceline.horovod.driver.rounds import Rounds
from paceline.horovod.driver.store import DriverStore
from paceline.horovod.hosts import Slots, is_here, own_address
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
    """Yield a function that makes the job that the options describe. Leaving the context closes the job's driver.

    env: the ranks' environment; a secret and the mark of an elastic job are added to it.

    Raises ValueError for invalid options and RendezvousError if ranks on other hosts could not reach this machine.
    """
    settings = Settings.from_environment(env)
    limits = _limits(options, hosts, settings.elastic_timeout)
    cooldown = Cooldown(tuple(options.cooldown) if options.cooldown else None)
    secret = env.setdefault("PACELINE_SECRET", secrets.token_hex(32))
    env["HOROVOD_ELASTIC"] = "1"
    mark = new_mark()
    source: Discovery | FixedHosts
    if options.host_discovery_script:
        source = Discovery(options.host_discovery_script, options.slots, {**env, tree.MARK: mark})
    else:
        source = FixedHosts(hosts or {"localhost": limits.ranks})
    try:
        listener, address = listen_tcp(_address(options, source.latest), settings.ports)
        store = DriverStore([listener], secret.encode())
        try:
            starter = Starter(options.command, env, Ssh(options.ssh_port, options.ssh_identity_file), is_here)
            host = f"[{address.host}]" if ":" in address.host else address.host

            def command(worker: int, where: str, place: int) -> Command:
                variables = {
                    "PACELINE_ELASTIC": f"{host}:{address.port}/{worker}",
                    "MASTER_ADDR": address.host,
                    "LOCAL_RANK": str(place),
                }
                ranks_there = source.latest.get(where, place + 1)
                return starter.command(where, variables, f"worker {worker} on {where}", ranks_there)

            rounds = Rounds(limits, cooldown)
            copies = output_folder(options)
            yield lambda collector: ElasticJob(rounds, source, store, command, mark, collector, copies)
        finally:
            store.close()
    finally:
        source.close()


def _limits(options: argparse.Namespace, hosts: Slots, timeout: float | None) -> Limits:
    ranks: int | None = options.num_proc or sum(hosts.values()) or options.min_num_proc
    if ranks is None:
        raise ValueError("say how many ranks to start with, for example: -np 4 --min-np 2 python train.py")
    scripted = bool(options.host_discovery_script)
    if scripted and hosts:
        raise ValueError("the hosts come from --host-discovery-script or from -H and --hostfile, not from both")
    if hosts and sum(hosts.values()) < ranks:
        raise ValueError(f"-np {ranks} is more than the {sum(hosts.values())} slots of the hosts")
    least = options.min_num_proc or ranks
    given = (seconds for seconds in (options.elastic_timeout, timeout) if seconds is not None)
    return Limits(ranks, least, options.max_num_proc, next(given, PATIENCE), options.reset_limit, scripted)


def _address(options: argparse.Namespace, hosts: Slots) -> str:
    """Return the address to listen on; it is the loopback address only if no other machine can join."""
    if all(is_here(host) for host in hosts) and not options.host_discovery_script:
        return "127.0.0.1"
    try:
        return own_address(options, next((host for host in hosts if not is_here(host)), None))
    except RendezvousError as error:
        if not all(is_here(host) for host in hosts):
            raise
        say(f"hosts other than this one cannot join: {error}")
        return "127.0.0.1"
