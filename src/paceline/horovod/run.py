"""`python -m paceline.horovod.run -np 4 python train.py`: horovodrun's options, for ranks on this machine."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from paceline.horovod.hosts import Slots, from_file, from_text, needed_elsewhere
from paceline.horovod.options import REFUSED, VARIABLES, WITHOUT_EFFECT, flag, parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job to its end; returns the exit code of the rank that failed first, or 0."""
    reader = parser()
    options = reader.parse_args(argv)
    try:
        return _run(options)
    except ValueError as error:
        reader.error(str(error))


def _run(options: argparse.Namespace) -> int:
    from paceline.cores import available
    from paceline.launch.arguments import Arguments
    from paceline.launch.run import Request, run, say

    given = {name for name, value in vars(options).items() if value not in (None, False, [])}
    for name in REFUSED:
        if name in given:
            raise ValueError(f"{flag(name)} is not there: {REFUSED[name]}")
    if not options.command:
        raise ValueError("name the program to run, for example: -np 4 python train.py")
    ranks = _ranks(options)
    for name in WITHOUT_EFFECT:
        if name in given:
            say(f"{flag(name)} has no effect: {WITHOUT_EFFECT[name]}")
    request = Request(Arguments((), ("--no-python",), tuple(options.command)), str(ranks), direct=True)
    return run(request, {**os.environ, **environment(options)}, available())


def environment(options: argparse.Namespace) -> dict[str, str]:
    """What the options add to the ranks' environment."""
    values = {variable: getattr(options, name) for name, variable in VARIABLES.items()}
    added = {variable: str(value) for variable, value in values.items() if value is not None}
    if options.fusion_threshold_mb is not None:
        added["HOROVOD_FUSION_THRESHOLD"] = str(options.fusion_threshold_mb << 20)
    if options.autotune or options.no_autotune:
        added["HOROVOD_AUTOTUNE"] = "0" if options.no_autotune else "1"
    if options.no_stall_check:
        added["HOROVOD_STALL_CHECK_DISABLE"] = "1"
    if options.nics:
        added["PACELINE_INTERFACE"] = ",".join(options.nics)
    if options.verbose:
        added["PACELINE_LOG"] = "INFO"
    return added


def _ranks(options: argparse.Namespace) -> int:
    hosts: Slots = {}
    if options.hosts:
        hosts = from_text(options.hosts)
    elif options.hostfile:
        hosts = from_file(Path(options.hostfile))
    slots = sum(hosts.values())
    ranks: int = slots if options.num_proc is None else options.num_proc
    if ranks < 1:
        raise ValueError("say how many ranks to start, for example: -np 4 python train.py")
    if hosts and ranks > slots:
        raise ValueError(f"-np {ranks} is more than the {slots} slots of the hosts")
    elsewhere = needed_elsewhere(hosts, ranks)
    if elsewhere:
        raise ValueError(
            f"host {elsewhere} is not this machine, and nothing is started over ssh: call mpirun, srun, or on every "
            "machine `paceline run --nnodes N --rdzv-endpoint HOST:PORT -n RANKS PROGRAM`"
        )
    return ranks


if __name__ == "__main__":
    sys.exit(main())
