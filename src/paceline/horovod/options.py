"""horovodrun's options: which say something to the ranks, which have no effect here, and which are refused."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from paceline.settings.settings import ConfigurationError, Settings
from paceline.version import VERSION

VARIABLES = {
    "cycle_time_ms": "HOROVOD_CYCLE_TIME",
    "cache_capacity": "HOROVOD_CACHE_CAPACITY",
    "timeline_filename": "HOROVOD_TIMELINE",
    "autotune_log_file": "HOROVOD_AUTOTUNE_LOG",
    "stall_check_warning_time_seconds": "HOROVOD_STALL_CHECK_TIME_SECONDS",
    "stall_check_shutdown_time_seconds": "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS",
    "start_timeout": "HOROVOD_START_TIMEOUT",
    "log_level": "HOROVOD_LOG_LEVEL",
}
"""Options that say to the ranks what a variable of Horovod's says."""

WITHOUT_EFFECT = {
    "disable_cache": "nothing is checked that could be kept",
    "hierarchical_allreduce": "plans are made for the network that is found",
    "hierarchical_allgather": "plans are made for the network that is found",
    "torus_allreduce": "plans are made for the network that is found",
    "autotune_warmup_samples": "how many steps are tried follows from how much they differ",
    "autotune_steps_per_sample": "how many steps are tried follows from how much they differ",
    "autotune_bayes_opt_max_samples": "how many steps are tried follows from how much they differ",
    "autotune_gaussian_process_noise": "the noise is measured",
    "mpi_threads_disable": "there is no MPI",
    "mpi_args": "there is no MPI",
    "binding_args": "there is no MPI",
    "use_mpi": "there is no MPI",
    "use_gloo": "Paceline has its own transports",
    "tcp_flag": "Paceline chooses shared memory or TCP",
    "num_nccl_streams": "there is no NCCL",
    "thread_affinity": "there is no background thread",
    "gloo_timeout_seconds": "there is no Gloo; --stall-check-shutdown-time-seconds is the limit",
    "log_with_timestamp": "what a line of the log looks like, the program's logging says",
    "prefix_output_with_timestamp": "a line has its rank before it at most",
}
"""Options that are taken and do nothing, and why."""

REFUSED = {
    "use_jsrun": "use jsrun itself, with MASTER_ADDR set to rank 0's host",
}
"""Options without which the job would not be what was asked for, and what to do instead."""


def flag(name: str) -> str:
    """The option as people write it."""
    words = {"use_mpi": "mpi", "use_gloo": "gloo", "use_jsrun": "jsrun", "tcp_flag": "tcp"}
    return f"--{words.get(name, name).replace('_', '-')}"


class _Interfaces(argparse.Action):
    """Given several times, or several with commas."""

    def __call__(self, parser: object, namespace: argparse.Namespace, values: object, option: object = None) -> None:
        before = getattr(namespace, self.dest) or []
        setattr(namespace, self.dest, [*before, *str(values).split(",")])


class _Built(argparse.Action):
    def __call__(self, *_: object) -> None:
        print(
            f"Paceline {VERSION}\n\nFrameworks: PyTorch\nTransports: shared memory, TCP; no MPI, Gloo or NCCL is needed"
        )
        sys.exit(0)


def parser() -> argparse.ArgumentParser:
    """What reads the command line. The program and its arguments are its `command`."""
    parser = argparse.ArgumentParser(
        prog="python -m paceline.horovod.run",
        usage="%(prog)s -np RANKS [options] PROGRAM [ARGUMENTS]",
        description="Start a program on several ranks, here or on other hosts, with the options of horovodrun.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("-v", "--version", action="version", version=VERSION)
    add("-cb", "--check-build", action=_Built, nargs=0, help="say what is there")
    add("-np", "--num-proc", type=int, help="ranks to start")
    add("-H", "--hosts", help="host:slots,... ; others than this machine are reached by ssh")
    add("-hostfile", "--hostfile", help="file with a line `host slots=N` for each host")
    add("-p", "--ssh-port", type=int, help="port of the hosts' ssh servers")
    add("-i", "--ssh-identity-file", help="private key for ssh")
    add("--host-discovery-script", help="program that prints a line host:slots for each host that can be used now")
    add("--slots-per-host", dest="slots", type=int, help="slots of hosts for which the script prints none")
    add("--min-np", "--min-num-proc", dest="min_num_proc", type=int, help="ranks to go on with at least (-np)")
    add("--max-np", "--max-num-proc", dest="max_num_proc", type=int, help="ranks at most (as there are slots)")
    add("--elastic-timeout", type=float, help="seconds to wait for ranks and slots between two rounds")
    add("--reset-limit", type=int, help="how often ranks may come or go before the job is ended")
    add("--blacklist-cooldown-range", dest="cooldown", type=float, nargs=2, help="seconds without a failed host")
    add("--network-interfaces", "--network-interface", dest="nics", action=_Interfaces, help="interfaces to use")
    add("--start-timeout", type=float, help="seconds in which the ranks must have met")
    add("--fusion-threshold-mb", type=int, help="most megabytes that are combined together")
    add("--cycle-time-ms", type=float, help="milliseconds of a cycle, for policies that have cycles")
    add("--cache-capacity", type=int, help="names that polling policies remember")
    _add_switch(parser, "autotune", "find out in the first steps by which policy to agree, and how much to combine")
    add("--autotune-log-file", help="file for a table of what was tried")
    add("--timeline-filename", help="file for the timeline")
    _add_switch(parser, "timeline-mark-cycles", "mark in it when each batch was issued")
    add("--no-stall-check", action="store_true", default=None, help="no warning about ranks that are missing")
    add("--stall-check", dest="no_stall_check", action="store_false", default=None, help=argparse.SUPPRESS)
    add("--stall-check-warning-time-seconds", type=float, help="seconds until that warning")
    add("--stall-check-shutdown-time-seconds", type=float, help="seconds until a waiting call fails")
    add("--log-level", help="trace, debug, info, warning, error or fatal")
    add("--verbose", action="store_true", help="log what is done")
    add("--output-filename", help="folder for what ranks print, too: rank.0/stdout, rank.0/stderr, ...")
    add("--config-file", help="YAML file with options, over which those of the command line win")
    for name in sorted({*WITHOUT_EFFECT, *REFUSED}):
        _add_other(parser, name)
    for name in ("hierarchical-allreduce", "hierarchical-allgather", "torus-allreduce", "mpi-threads-disable"):
        add(f"--no-{name}", dest=name.replace("-", "_"), action="store_false", default=False, help=argparse.SUPPRESS)
    for name in ("log-without-timestamp", "log-hide-timestamp", "no-log-hide-timestamp"):
        add(f"--{name}", dest="log_with_timestamp", action="store_true", help=argparse.SUPPRESS)
    add("-prefix-timestamp", dest="prefix_output_with_timestamp", action="store_true", help=argparse.SUPPRESS)
    add("command", nargs=argparse.REMAINDER, help="the program and its arguments")
    return parser


_SWITCHES = frozenset(
    "disable_cache hierarchical_allreduce hierarchical_allgather torus_allreduce "
    "mpi_threads_disable use_mpi use_gloo use_jsrun tcp_flag log_with_timestamp prefix_output_with_timestamp".split()
)


def check(added: Mapping[str, str], environ: Mapping[str, str]) -> None:
    """Refuse here, once, what every rank would refuse: ValueError, which names the option or the variable.

    added: what the options add to the ranks' environment, which is `environ` else.
    """
    options = {variable: flag(name) for name, variable in VARIABLES.items()}
    options |= {"HOROVOD_FUSION_THRESHOLD": "--fusion-threshold-mb", "PACELINE_INTERFACE": "--network-interfaces"}
    for variable, value in added.items():
        try:
            Settings.from_environment({variable: value})
        except ConfigurationError as error:
            raise ValueError(f"no rank can take {options.get(variable, variable)}: {error}") from None
    behaviour = {"HOROVOD_FUSION_THRESHOLD", "HOROVOD_ELASTIC_TIMEOUT", "HOROVOD_GLOO_IFACE", *VARIABLES.values()}
    Settings.from_environment(
        {name: value for name, value in environ.items() if name.startswith("PACELINE_") or name in behaviour}
    )


def output_folder(options: argparse.Namespace) -> Path | None:
    """Where ranks' output is kept. ValueError if it cannot be made."""
    if options.output_filename is None:
        return None
    folder = Path(options.output_filename)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"--output-filename: cannot make the folder {folder}: {error.strerror}") from None
    return folder


def _add_switch(parser: argparse.ArgumentParser, name: str, help: str) -> None:
    """An option and its opposite, of which the last one given holds; None: neither."""
    dest = name.replace("-", "_")
    parser.add_argument(f"--{name}", dest=dest, action="store_true", default=None, help=help)
    parser.add_argument(f"--no-{name}", dest=dest, action="store_false", default=None, help=argparse.SUPPRESS)


def _add_other(parser: argparse.ArgumentParser, name: str) -> None:
    action = "store_true" if name in _SWITCHES else "store"
    parser.add_argument(flag(name), dest=name, action=action, help=argparse.SUPPRESS)
