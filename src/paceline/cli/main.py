"""The `paceline` command. Each subcommand is imported only when it runs, so that `paceline --help` is fast."""

import importlib
import io
import sys
from importlib.metadata import entry_points
from types import ModuleType
from typing import Annotated, Any

import typer

from paceline.cli.usage import UsageError
from paceline.launch import interrupts
from paceline.version import VERSION

_MAX_MESSAGE = 800
"""The most characters of an error message about an argument."""
_INSTRUMENTS = "paceline.commands"
"""The group of entry points in which the distribution paceline-bench names the modules of its subcommands."""
_COMMANDS = {
    "run": (
        "paceline.cli.run",
        "Start PROGRAM on several ranks.",
    ),
    "tune": (
        "paceline.cli.tune",
        "Find the processes and threads with which a script is fastest on this machine.",
    ),
    "doctor": (
        "paceline.cli.doctor.command",
        "Show what Paceline finds on this machine, what it would use and why, and what would be better.",
    ),
    "trace": (
        "paceline.cli.trace",
        "Show the last operations of all ranks, of a running job or from its dumps.",
    ),
    "bench": (
        _INSTRUMENTS,
        "Measure collectives and what they cost other processes, with other systems in the same run.",
    ),
    "characterize": (
        _INSTRUMENTS,
        "Measure approaches to distributed training side by side: which is fast, where the time goes, and why.",
    ),
    "lab": (
        "paceline.cli.lab",
        "Make a cluster on this machine from a topology file, and run a command on each of its machines.",
    ),
    "demo": (
        "paceline.cli.demo.command",
        "Train a small network on real data over Paceline, and compare with Gloo.",
    ),
    "check": (
        "paceline.cli.check",
        "Measure the links between a job's ranks, and name what is slow.",
    ),
    "plan": (
        "paceline.cli.plan",
        "Predict an all-reduce on a network: levels, bytes on every link, time, and what no plan can beat.",
    ),
    "simulate": (
        "paceline.cli.simulate",
        "Predict a training job's steps on other ranks, networks and policies, in virtual time.",
    ),
    "order": (
        "paceline.cli.order",
        "Show the order in which ranks would issue a graph's collectives, and which would be fused.",
    ),
    "report": (
        "paceline.cli.report",
        "Show the report that a job has left: steps, exposed communication, which rank was late.",
    ),
    "top": (
        "paceline.cli.top",
        "Show a running job, live: steps, exposed communication, which rank is late, what waits for whom.",
    ),
    "topology": (
        "paceline.cli.topology",
        "Show a network from its file: machines, ranks, and the speed of every link.",
    ),
}


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
    """Return the application. Only the subcommand `wanted` is imported; the others are listed.

    A subcommand's module has a `command`, and a `CommandParser` if not all arguments are its own.
    """
    app = typer.Typer(name="paceline", add_completion=False, pretty_exceptions_enable=False)
    app.callback()(_paceline)
    for name, (_, summary) in _COMMANDS.items():
        if name != wanted:
            app.command(name, short_help=summary)(_listed)
            continue
        found = module_of(name)
        if isinstance(found.command, typer.Typer):
            app.add_typer(found.command, name=name, help=summary)
        else:
            app.command(name, short_help=summary, cls=getattr(found, "CommandParser", None))(found.command)
    return app


def module_of(name: str) -> ModuleType:
    """Import the module of a subcommand. Raises UsageError where its distribution is not installed."""
    module, _ = _COMMANDS[name]
    if module != _INSTRUMENTS:
        return importlib.import_module(module)
    for found in entry_points(group=_INSTRUMENTS, name=name):
        instrument: ModuleType = found.load()
        return instrument
    way = "pip install 'paceline[bench]', or ./bench in a checkout"
    raise UsageError(f"this command comes with paceline-bench; install it: {way}")


def main(arguments: list[str] | None = None) -> None:
    """Run the command and exit with its code. A wrong argument prints one sentence and exits with code 2.

    arguments: the arguments without the program's name; `sys.argv` by default.
    """
    words = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a character that the terminal cannot show must not be an error
    try:
        app = application(words[0] if words else None)
        interrupts.raised()
        whole = typer.main.get_command(app)
        reflow(whole)
        code = whole.main(words or ["--help"], prog_name="paceline", standalone_mode=False)
    except UsageError as error:
        message = getattr(error, "format_message", error.__str__)()
        command = " ".join(["paceline", *words[:1]]) if words and not words[0].startswith("-") else "paceline"
        if message:  # without a message, the help was requested and has been shown
            print(f"{command}: {shortened(message)}", file=sys.stderr)
        sys.exit(2)
    except MemoryError:
        print("paceline: this machine does not have enough memory for this request", file=sys.stderr)
        sys.exit(1)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    sys.exit(code if isinstance(code, int) else 0)


def reflow(command: Any) -> None:
    """Let each paragraph of a command's help, and of its subcommands', wrap as wide as the terminal is.

    Paragraphs that begin with \\b, as examples do, stay as they are.
    """
    if command.help:
        parts = command.help.split("\n\n")
        command.help = "\n\n".join(part if part.startswith("\b") else " ".join(part.split()) for part in parts)
    for below in getattr(command, "commands", {}).values():
        reflow(below)


def shortened(message: str) -> str:
    """Return a message on one line; the middle of a message that is too long is left out."""
    line = " ".join(message.split())
    return line if len(line) <= _MAX_MESSAGE else f"{line[: _MAX_MESSAGE // 2]} … {line[-_MAX_MESSAGE // 2 :]}"


def _listed() -> None:
    """Stands for a subcommand that is only listed."""
