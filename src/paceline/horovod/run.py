"""`python -m paceline.horovod.run -np 4 python train.py` runs a job with horovodrun's options."""

from __future__ import annotations

import argparse
import os
import secrets
import selectors
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from paceline.errors import RendezvousError
from paceline.horovod.hosts import Slots, elsewhere, from_file, from_text, is_here, own_address, placed
from paceline.horovod.options import REFUSED, VARIABLES, WITHOUT_EFFECT, check, flag, output_folder, parser
from paceline.horovod.rank_layout import rank_variables
from paceline.launch.job import Job
from paceline.launch.run import LaunchRequest, run, say, watch
from paceline.launch.stderr import Collector
from paceline.launch.supervise import Signals

_ELASTIC_ALONE = ("max_num_proc", "slots", "elastic_timeout", "reset_limit", "cooldown")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and return the exit code of the rank that failed first, or 0.

    argv: the arguments without the program's name; `sys.argv` by default.

    Raises SystemExit with code 2 for invalid arguments.
    """
    reader = parser()
    options = reader.parse_args(argv)
    try:
        if options.config_file is not None:
            from paceline.horovod.config_file import arguments

            file_arguments, unknown = arguments(Path(options.config_file))
            for line in unknown:
                say(line)
            options = reader.parse_args([*file_arguments, *(sys.argv[1:] if argv is None else argv)])
        return _run(options)
    except (ValueError, RendezvousError) as error:
        reader.error(str(error))


def _run(options: argparse.Namespace) -> int:
    given = {name for name, value in vars(options).items() if value not in (None, False, [])}
    for name in REFUSED:
        if name in given:
            raise ValueError(f"{flag(name)} is not supported: {REFUSED[name]}")
    if not options.command:
        raise ValueError("name the program to run, for example: -np 4 python train.py")
    for name in WITHOUT_EFFECT:
        if name in given:
            say(f"{flag(name)} has no effect: {WITHOUT_EFFECT[name]}")
    added = environment(options)
    check(added, os.environ)
    env = {**os.environ, **added}
    if {"host_discovery_script", "min_num_proc"} & given:
        from paceline.horovod.driver.command import elastic

        with elastic(options, _hosts(options), env) as make:
            return _watch(make)
    alone = next((name for name in _ELASTIC_ALONE if name in given), None)
    if alone is not None:
        raise ValueError(f"{flag(alone)} requires --min-np or --host-discovery-script, which make a job elastic")
    hosts = _hosts(options)
    ranks = _ranks(options, hosts)
    everyone = placed(hosts or {"localhost": ranks}, ranks)
    if elsewhere(hosts, ranks) or options.output_filename is not None:
        count = ", ".join(f"{host}:{everyone.count(host)}" for host in dict.fromkeys(everyone))
        say(f"{ranks} ranks on {count}")  # not once signals are watched, as its reader may stall
        return _watch(lambda collector: _spread(options, everyone, env, collector))
    from paceline.cpu.budget import available
    from paceline.launch.arguments import Arguments

    arguments = Arguments((), ("--no-python",), tuple(options.command))
    request = LaunchRequest(arguments, str(ranks), direct=True, extra_env=tuple(rank_variables(everyone)))
    return run(request, env, available())


def _watch(make: Callable[[Collector], Job]) -> int:
    signals = Signals()
    with selectors.DefaultSelector() as selector, signals.watched(selector):
        collector = Collector(selector, interrupts=signals.received)
        return watch(make(collector), selector, signals, collector)


def _spread(options: argparse.Namespace, hosts: list[str], env: dict[str, str], collector: Collector) -> Job:
    from paceline.launch.multi_host import MultiHostJob, Starter, new_mark
    from paceline.launch.remote import Ssh

    env.setdefault("PACELINE_SECRET", secrets.token_hex(32))
    far = next((host for host in hosts if not is_here(host)), None)
    address = "127.0.0.1" if far is None else own_address(options, far)
    starter = Starter(options.command, env, Ssh(options.ssh_port, options.ssh_identity_file), is_here)
    return MultiHostJob(
        starter, hosts, is_here, address, new_mark(), collector, output_folder(options), rank_variables(hosts)
    )


def environment(options: argparse.Namespace) -> dict[str, str]:
    """Return the variables that the options add to the ranks' environment."""
    values = {variable: getattr(options, name) for name, variable in VARIABLES.items()}
    added = {variable: str(value) for variable, value in values.items() if value is not None}
    if options.fusion_threshold_mb is not None:
        added["HOROVOD_FUSION_THRESHOLD"] = str(options.fusion_threshold_mb << 20)
    switches = {
        "HOROVOD_AUTOTUNE": options.autotune,
        "HOROVOD_TIMELINE_MARK_CYCLES": options.timeline_mark_cycles,
        "HOROVOD_STALL_CHECK_DISABLE": options.no_stall_check,
    }
    added.update({variable: str(int(value)) for variable, value in switches.items() if value is not None})
    if options.nics:
        added["PACELINE_INTERFACE"] = ",".join(options.nics)
    if options.verbose:
        added["PACELINE_LOG"] = "INFO"
    return added


def _hosts(options: argparse.Namespace) -> Slots:
    if options.hosts:
        return from_text(options.hosts)
    if options.hostfile:
        return from_file(Path(options.hostfile))
    return {}


def _ranks(options: argparse.Namespace, hosts: Slots) -> int:
    slots = sum(hosts.values())
    ranks: int = slots if options.num_proc is None else options.num_proc
    if ranks < 1:
        raise ValueError("say how many ranks to start, for example: -np 4 python train.py")
    if hosts and ranks > slots:
        raise ValueError(f"-np {ranks} is more than the {slots} slots of the hosts")
    return ranks


if __name__ == "__main__":
    sys.exit(main())
