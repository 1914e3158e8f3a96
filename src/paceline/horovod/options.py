"""horovodrun's options: which are passed to the ranks, which have no effect here, and which are refused."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from paceline.errors import ConfigurationError
from paceline.settings.settings import Settings
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
"""The options that become environment variables of the ranks."""

WITHOUT_EFFECT = {
    "disable_cache": "there are no checks whose results could be cached",
    "hierarchical_allreduce": "plans are made for the network that is found",
    "hierarchical_allgather": "plans are made for the network that is found",
    "torus_allreduce": "plans are made for the network that is found",
    "autotune_warmup_samples": "the number of steps tried follows from how much they differ",
    "autotune_steps_per_sample": "the number of steps tried follows from how much they differ",
    "autotune_bayes_opt_max_samples": "the number of steps tried follows from how much they differ",
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
    "log_with_timestamp": "the program's logging configuration decides how a line of the log looks",
    "prefix_output_with_timestamp": "lines are prefixed with their rank only",
}
"""The options that are accepted and have no effect, with the reason."""

REFUSED = {
    "use_jsrun": "use jsrun itself, with MASTER_ADDR set to rank 0's host",
}
"""The options that are refused because the job would not be the one asked for, with what to do instead."""


def flag(name: str) -> str:
    """Return the option as it is written on the command line."""
    words = {"use_mpi": "mpi", "use_gloo": "gloo", "use_jsrun": "jsrun", "tcp_flag": "tcp"}
    return f"--{words.get(name, name).replace('_', '-')}"


class _Interfaces(argparse.Action):
    """Accepts the option several times, and several values separated by commas."""

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
    """Return the parser of the command line. The program and its arguments become `command`."""
    parser = argparse.ArgumentParser(
        prog="python -m paceline.horovod.run",
        usage="%(prog)s -np RANKS [options] PROGRAM [ARGUMENTS]",
        description="Start a program on several ranks, here or on other hosts, with the options of horovodrun.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("-v", "--version", action="version", version=VERSION)
    add("-cb", "--check-build", action=_Built, nargs=0, help="print which frameworks and transports are available")
    add("-np", "--num-proc", type=int, help="ranks to start")
    add("-H", "--hosts", help="host:slots,...; hosts other than this machine are reached by ssh")
    add("-hostfile", "--hostfile", help="file with a line `host slots=N` for each host")
    add("-p", "--ssh-port", type=int, help="port of the hosts' ssh servers")
    add("-i", "--ssh-identity-file", help="private key for ssh")
    add("--host-discovery-script", help="program that prints a line host:slots for each host that is available now")
    add("--slots-per-host", dest="slots", type=int, help="slots of each host for which the script prints no number")
    add("--min-np", "--min-num-proc", dest="min_num_proc", type=int, help="fewest ranks to continue with")
    add("--max-np", "--max-num-proc", dest="max_num_proc", type=int, help="most ranks to run (default: all slots)")
    add("--elastic-timeout", type=float, help="seconds to wait for ranks and slots between two rounds")
    add("--reset-limit", type=int, help="how many times the ranks may change before the job is ended")
    add(
        "--blacklist-cooldown-range",
        dest="cooldown",
        type=float,
        nargs=2,
        help="seconds that a failed host gets no ranks",
    )
    add("--network-interfaces", "--network-interface", dest="nics", action=_Interfaces, help="interfaces to use")
    add("--start-timeout", type=float, help="seconds within which the ranks must connect")
    add("--fusion-threshold-mb", type=int, help="most megabytes that one fused batch holds")
    add("--cycle-time-ms", type=float, help="milliseconds of a cycle, for policies that have cycles")
    add("--cache-capacity", type=int, help="names that polling policies cache")
    _add_switch(parser, "autotune", "tune the coordination policy and the fusion size in the first steps")
    add("--autotune-log-file", help="file for a table of the settings tried")
    add("--timeline-filename", help="file for the timeline")
    _add_switch(parser, "timeline-mark-cycles", "mark in the timeline when each batch was issued")
    add("--no-stall-check", action="store_true", default=None, help="do not warn about missing ranks")
    add("--stall-check", dest="no_stall_check", action="store_false", default=None, help=argparse.SUPPRESS)
    add("--stall-check-warning-time-seconds", type=float, help="seconds until that warning")
    add("--stall-check-shutdown-time-seconds", type=float, help="seconds until a waiting call fails")
    add("--log-level", help="trace, debug, info, warning, error or fatal")
    add("--verbose", action="store_true", help="log at level INFO")
    add("--output-filename", help="folder for copies of the ranks' output: rank.0/stdout, rank.0/stderr, ...")
    add("--config-file", help="YAML file with options; the command line takes precedence")
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
    """Validate in the launcher, once, the settings that every rank would refuse.

    added: the variables that the options add to the ranks' environment. environ: the rest of the ranks' environment.

    Raises ValueError that names the option or the variable.
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
    """Create and return the folder for the ranks' output; None if none was asked for. Raises ValueError if it fails."""
    if options.output_filename is None:
        return None
    folder = Path(options.output_filename)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"--output-filename: cannot make the folder {folder}: {error.strerror}") from None
    return folder


def _add_switch(parser: argparse.ArgumentParser, name: str, help: str) -> None:
    """Add an option and its opposite; the last one given wins, and the value is None if neither is given."""
    dest = name.replace("-", "_")
    parser.add_argument(f"--{name}", dest=dest, action="store_true", default=None, help=help)
    parser.add_argument(f"--no-{name}", dest=dest, action="store_false", default=None, help=argparse.SUPPRESS)


def _add_other(parser: argparse.ArgumentParser, name: str) -> None:
    action = "store_true" if name in _SWITCHES else "store"
    parser.add_argument(flag(name), dest=name, action=action, help=argparse.SUPPRESS)
