"""`paceline run` starts a job's ranks on this machine."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from paceline.cli.checks import finite
from paceline.cli.usage import UsageError
from paceline.cpu.budget import CpuBudget, available
from paceline.launch.arguments import split
from paceline.launch.resources import of_machine
from paceline.launch.run import LaunchRequest, run, say
from paceline.launch.torchrun import ranks_here
from paceline.settings.parsers import MOST_THREADS


class CommandParser(TyperCommand):
    """Passes options that are not paceline's own to torchrun, and all after the program's name to the program."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; the separated ones are in `ctx.obj`. Raises UsageError for an unknown option."""
        try:
            ctx.obj = split(args)
        except ValueError as error:
            raise UsageError(str(error)) from None
        return super().parse_args(ctx, [*ctx.obj.own, "--", *ctx.obj.program])


def command(
    ctx: typer.Context,
    program: Annotated[list[str] | None, typer.Argument(metavar="PROGRAM ARGUMENTS", show_default=False)] = None,
    ranks: Annotated[
        str,
        typer.Option("-n", "--nproc-per-node", help="Ranks to start on this machine.", show_default=False),
    ] = "",
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads per rank. [default: CPUs / ranks]", show_default=False)
    ] = None,
    interop: Annotated[
        int | None,
        typer.Option(
            "--interop-threads",
            min=1,
            max=MOST_THREADS,
            help="Inter-op threads per rank. [default: the framework's]",
            show_default=False,
        ),
    ] = None,
    pin: Annotated[bool, typer.Option("--pin/--no-pin", help="Give each rank CPUs of its own.")] = False,
    cores: Annotated[
        str,
        typer.Option(
            metavar="static|adaptive|off",
            help="Divide each rank's CPUs among engine, input workers and compute, or engine=0,input=1,compute=2-7.",
            show_default=False,
        ),
    ] = "",
    direct: Annotated[bool, typer.Option("--direct", help="Start the ranks without torchrun.")] = False,
    tuned: Annotated[bool, typer.Option("--tuned", help="Start it as `paceline tune` found it to be fastest.")] = False,
    grace: Annotated[
        float, typer.Option(callback=finite, min=0, help="Seconds between the first signal and the kill.")
    ] = 10.0,
) -> int:
    """Start PROGRAM on several ranks. Any option of torchrun may be given too: --nnodes, --rdzv-endpoint, --tee, …"""
    if tuned and (ranks or threads or interop or cores or pin):
        raise UsageError("--tuned says how many ranks and threads there are, and which cores: give none of these")
    ranks = ranks or ranks_here(os.environ)
    if not ranks and not tuned:
        raise UsageError("say how many ranks to start here, for example: paceline run -n 4 train.py")
    request = LaunchRequest(ctx.obj, ranks, threads, pin, direct, grace, cores, interop)
    environ, budget = dict(os.environ), available()
    try:
        return run(_tuned(request, environ, budget) if tuned else request, environ, _of_lab(budget, environ))
    except ValueError as error:
        raise UsageError(str(error)) from None


def _of_lab(budget: CpuBudget, environ: Mapping[str, str]) -> CpuBudget:
    """The part of the CPUs that this machine of a lab has; all outside of labs."""
    if "PACELINE_LAB" not in environ:
        return budget
    from paceline.lab.lab import Lab  # which other jobs are spared

    inside = Lab.inside(environ)
    if inside is None:
        return budget
    lab, number = inside
    return of_machine(budget, lab.machines[number].ranks, lab.topology.world)


def _tuned(request: LaunchRequest, environ: Mapping[str, str], budget: CpuBudget) -> LaunchRequest:
    """The request with what `paceline tune` found. Raises ValueError if that is nothing."""
    from paceline.tune.cache import Cache  # with what follows it takes 0.2 s, which other jobs are spared
    from paceline.tune.show import described

    words = request.arguments.program
    known = Cache(words, environ, budget).read()
    found = known.chosen
    if found is None:
        line = shlex.join(("paceline", "tune", "--", *words))
        raise ValueError(f"nothing is known of this program, as it is now, on this machine; this finds out: {line}")
    say(f"tuned: {described(found)}{'' if known.complete else ' (the search did not come to its end)'}")
    arguments = replace(request.arguments, program=found.command(words))
    return replace(
        request,
        arguments=arguments,
        ranks=request.ranks or str(found.processes),
        threads=found.threads,
        cores=found.cores,
        interop=found.interop,
    )
