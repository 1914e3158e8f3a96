"""The `paceline` command. Each subcommand imports what it needs when it runs, so that `paceline --help` is quick."""

import importlib
import io
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from paceline.files import UsageError
from paceline.launch.arguments import split
from paceline.version import VERSION

_ELSEWHERE = {
    "bench": (
        "paceline.bench.command",
        "Measure collectives, and what they cost others, beside other systems in the same run.",
    ),
    "lab": (
        "paceline.lab.command",
        "A cluster on this machine, with the links of a topology file: run a command on each of its machines.",
    ),
    "demo": (
        "paceline.demo.command",
        "Train a small network on real data over Paceline, and compare with Gloo.",
    ),
    "check": (
        "paceline.check.command",
        "Measure the links between a job's ranks, and name what is slow.",
    ),
    "plan": (
        "paceline.plan.command",
        "Predict an all-reduce on a network: levels, bytes on every link, time, and what no plan can beat.",
    ),
    "order": (
        "paceline.order.command",
        "The order in which ranks would issue a graph's collectives, and what would go together.",
    ),
    "report": (
        "paceline.report.command",
        "Show the report that a job has left: steps, exposed communication, which rank was late.",
    ),
    "top": (
        "paceline.top.command",
        "Show a running job, live: steps, exposed communication, which rank is late, what waits for whom.",
    ),
    "topology": (
        "paceline.topology.command",
        "Show a network from its file: machines, ranks, and the speed of every link.",
    ),
}


class _RunCommand(TyperCommand):
    """Options that aren't paceline's own go to torchrun, and everything after the program's name to the program."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            ctx.obj = split(args)
        except ValueError as error:
            raise UsageError(str(error)) from None
        return super().parse_args(ctx, [*ctx.obj.own, "--", *ctx.obj.program])


def run(
    ctx: typer.Context,
    program: Annotated[list[str] | None, typer.Argument(metavar="PROGRAM ARGUMENTS", show_default=False)] = None,
    ranks: Annotated[
        str,
        typer.Option("-n", "--nproc-per-node", help="Ranks to start on this machine.", show_default=False),
    ] = "",
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads per rank. [default: CPUs / ranks]", show_default=False)
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
    grace: Annotated[float, typer.Option(min=0, help="Seconds between the first signal and the kill.")] = 10.0,
) -> int:
    """Start PROGRAM on several ranks. Any option of torchrun may be given too: --nnodes, --rdzv-endpoint, --tee, …"""
    from paceline.cores import available
    from paceline.launch.run import Request, run
    from paceline.launch.torchrun import ranks_here

    ranks = ranks or ranks_here(os.environ)
    if not ranks:
        raise UsageError("say how many ranks to start here, for example: paceline run -n 4 train.py")
    request = Request(ctx.obj, ranks, threads, pin, direct, grace, cores)
    try:
        return run(request, dict(os.environ), available())
    except ValueError as error:
        raise UsageError(str(error)) from None


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> int:
    """Show what Paceline finds on this machine, what it would use and why, and what would be better."""
    from rich.console import Console

    from paceline.doctor.report import show, to_json
    from paceline.doctor.survey import survey

    findings = survey(dict(os.environ))
    if as_json:
        print(to_json(findings))
    else:
        show(findings, Console())
    return 0


def trace(
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="Folder with the ranks' dumps (PACELINE_TRACE). Without it: ask the ranks that run here.",
            show_default=False,
        ),
    ] = None,
    pid: Annotated[
        int | None,
        typer.Option(help="Process of any rank: chooses among several running jobs.", show_default=False),
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="Chrome trace to write.")] = Path("trace.json"),
    flight: Annotated[
        str | None,
        typer.Option(metavar="PREFIX", help="Write PREFIX0, PREFIX1, … for torch's fr_trace instead."),
    ] = None,
) -> int:
    """Show the last operations of all ranks, of a running job or from its dumps.

    Writes one trace that Perfetto opens, or flight-recorder files. A running job is not disturbed, also when it hangs.
    """
    from paceline.trace import chrome, dump, live
    from paceline.trace import flight as recorder

    if folder is not None and pid is not None:
        raise UsageError("give a folder or --pid, not both")
    try:
        dumps, silent = (dump.read(folder), []) if folder is not None else live.job(pid)
    except (ValueError, OSError) as error:
        raise UsageError(str(error)) from None
    for silence in silent:
        print(f"paceline trace: {silence}; left out", file=sys.stderr)
    if folder is None:
        for one in dumps:
            print(live.summary(one))
    size = dumps[0].size
    ranks = f"{len(dumps)} of {size} ranks" if len(dumps) < size else f"{len(dumps)} ranks"
    try:
        if flight is not None:
            files = recorder.write(dumps, flight)
            done = (
                f"{len(files)} flight-recorder files, {files[0]} … {files[-1]}; give their folder to torch's fr_trace"
            )
        else:
            operations = chrome.write(dumps, output)
            done = f"{output}: {operations} operations of {ranks}; open it at https://ui.perfetto.dev"
    except OSError as error:
        raise UsageError(f"cannot write {error.filename}: {error.strerror}") from None
    print(done)
    return 0


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"paceline {VERSION}")
        raise typer.Exit


def _paceline(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    """Collective communication that keeps every rank of a training job in step."""


def application(wanted: str | None) -> typer.Typer:
    """The application; of the subcommands that live elsewhere only `wanted` is imported, the others are listed."""
    app = typer.Typer(name="paceline", add_completion=False, pretty_exceptions_enable=False)
    app.callback()(_paceline)
    app.command("run", cls=_RunCommand)(run)
    app.command("doctor")(doctor)
    app.command("trace")(trace)
    for name, (module, summary) in _ELSEWHERE.items():
        found = importlib.import_module(module).command if wanted == name else _listed
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name, help=summary)
        else:
            app.command(name, short_help=summary)(found)
    return app


def main(arguments: list[str] | None = None) -> None:
    """Entry point: runs the command and leaves with its exit code; wrong arguments give one sentence and code 2."""
    words = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # what a terminal of another alphabet cannot show is no reason to fail
    try:
        app = application(words[0] if words else None)
        code = typer.main.get_command(app).main(words or ["--help"], prog_name="paceline", standalone_mode=False)
    except UsageError as error:
        message = getattr(error, "format_message", error.__str__)()
        command = " ".join(["paceline", *words[:1]]) if words and not words[0].startswith("-") else "paceline"
        if message:  # else the help was asked for, and shown
            print(f"{command}: {message}", file=sys.stderr)
        sys.exit(2)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    sys.exit(code if isinstance(code, int) else 0)


def _listed() -> None:
    """Stands for a subcommand that nobody asked for."""
