"""Runs a job through torchrun: the command line for it, and the failures that its summary lists."""

import importlib.util
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from paceline.launch import tree
from paceline.launch.arguments import Arguments
from paceline.launch.job import Command, Ended, Job, wrapped
from paceline.launch.reservation import reserve
from paceline.settings.settings import port_range

RANK_WORDS = ("auto", "cpu", "gpu", "xpu")
"""The words that may replace the number of ranks; torchrun resolves them."""

_OWN_OUTPUT = (
    "-r --redirects -t --tee --local-ranks-filter --duplicate-stdout-filters --duplicate-stderr-filters --logs-specs"
).split()
_OWN_RENDEZVOUS = "--rdzv-backend --rdzv-endpoint --master-addr --master-port --standalone".split()
_FAILURE = re.compile(
    r"rank\s*: (?P<rank>\d+) \(local_rank: \d+\)\s+exitcode\s*: (?P<code>-?\d+) \(pid: (?P<pid>\d+)\)"
)


class TorchrunJob(Job):
    """torchrun's agent and the ranks that it starts.

    The folder that torchrun writes is removed at the end, unless the user chose one. Both the agent and this process
    remove it, because either may be killed.

    report, cores: see `child.py`. Without a report torchrun handles the ranks' output.

    Raises ValueError if no folder for temporary files can be made.
    """

    def __init__(
        self, arguments: Arguments, ranks: str, environ: Mapping[str, str], *, report: str = "-", cores: str = "-"
    ) -> None:
        own = not arguments.gives("--log-dir", *_OWN_OUTPUT) and "PET_LOG_DIR" not in environ
        self.folder = _temporary_folder() if own else None
        line = command(arguments, ranks, environ, report=report, cores=cores, folder=str(self.folder or "-"))
        # The agent dies with the launcher by SIGTERM, so that it can still end its ranks itself.
        program = wrapped(line, death_signal=signal.SIGTERM, parent=os.getpid(), interrupts="held")
        agent = Command(program, environ, "torchrun")
        super().__init__([agent], tree.new_mark(environ), stderr=None if report == "-" else subprocess.PIPE)

    def terminate(self, grace: float = 2.0) -> list[int]:
        """End the job as `Job.terminate` does, and remove the folder."""
        left = super().terminate(grace)
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
        return left


def _temporary_folder() -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix="paceline-run-"))
    except OSError as error:
        raise ValueError(f"torchrun needs a folder for temporary files: {error.strerror}; TMPDIR names one") from None


def installed() -> bool:
    """Return whether torch, and with it torchrun, can be imported. Does not import it."""
    return importlib.util.find_spec("torch") is not None


def one_machine(arguments: Arguments, environ: Mapping[str, str]) -> bool:
    """Return whether all ranks are on this machine, as far as the options and torchrun's PET_ variables say."""
    nodes = arguments.value("--nnodes") or environ.get("PET_NNODES") or "1"
    return nodes in ("1", "1:1")


def ranks_here(environ: Mapping[str, str]) -> str:
    """Return the number of ranks, or the word for it, from torchrun's own variable; "" if it is not set."""
    return environ.get("PET_NPROC_PER_NODE", "")


def redirects_output(arguments: Arguments) -> bool:
    """Return whether the user told torchrun where the ranks' output goes."""
    return arguments.gives(*_OWN_OUTPUT)


def command(
    arguments: Arguments,
    ranks: str,
    environ: Mapping[str, str],
    *,
    report: str = "-",
    cores: str = "-",
    folder: str = "-",
) -> tuple[str, ...]:
    """Return the command line of torchrun's agent, with the user's options and program unchanged.

    report, cores, folder: see `agent.py`.

    On one machine, unless the user chose otherwise, the ranks connect at 127.0.0.1 on a free port, which needs no name
    resolution and cannot clash with another job.
    """
    options = list(arguments.torchrun)
    user_chose = arguments.gives(*_OWN_RENDEZVOUS) or any(
        name in environ for name in ("PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT", "PET_MASTER_ADDR", "PET_STANDALONE")
    )
    defaults: list[str] = []
    if one_machine(arguments, environ) and not user_chose:
        defaults = ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{_free_port(environ)}"]
        if not arguments.gives("--rdzv-id"):
            defaults.append(f"--rdzv-id={secrets.token_hex(8)}")
        if not arguments.gives("--local-addr"):
            defaults.append("--local-addr=127.0.0.1")
    start = [sys.executable, "-m", "paceline.launch.agent", folder, report, cores]
    if starts_itself(arguments):
        kept = [option for option in options if option.replace("_", "-") != "--no-python"]
        program = ("--no-python", *rank_program(arguments, environ))
    else:
        kept, program = options, arguments.program
    return (*start, f"--nproc-per-node={ranks}", *defaults, *kept, *program)


def _free_port(environ: Mapping[str, str]) -> int:
    """Return a free port of PACELINE_PORTS, or 0 without it, for which torchrun finds one itself."""
    if port_range(environ) is None:
        return 0
    kept, place = reserve("127.0.0.1", environ)
    kept.close()
    return place.port


def rank_program(arguments: Arguments, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return what a rank executes: the script by Python, a module, or the program itself.

    A command, a binary or a script of another language is executed itself; any other file is a script for Python.
    """
    word, *words = arguments.program
    if starts_itself(arguments):
        return (f"./{word}" if "/" not in word and is_file(word) else word, *words)
    python = environ.get("PYTHON_EXEC", sys.executable)
    module = ("-m",) if arguments.gives("-m", "--module") else ()
    return (python, *module, *arguments.program)


def starts_itself(arguments: Arguments) -> bool:
    """Return whether the program is executed without putting Python before it."""
    by_python = arguments.gives("-m", "--module", "--run-path")
    return arguments.gives("--no-python") or (not by_python and is_command(arguments.program[0]))


def is_file(word: str) -> bool:
    """Return whether there is such a file; False too for a text that cannot be a file's name."""
    try:
        return Path(word).is_file()
    except OSError:
        return False


def is_command(word: str) -> bool:
    """Return whether the word names a program that can be executed by itself.

    That is a command found on the PATH, a binary such as another installation's python, or an executable script whose
    first line names an interpreter other than Python.
    """
    file = Path(word)
    if not is_file(word):
        return shutil.which(word) is not None
    with file.open("rb") as opened:
        first = opened.readline(256)
    by_another = first.startswith(b"#!") and b"python" not in first and os.access(file, os.X_OK)
    return first.startswith(b"\x7fELF") or by_another


def failures(report: str) -> list[Ended]:
    """Return the failed ranks that torchrun's closing summary lists; empty if there is no summary."""
    summary = report[report.rfind("Failures:") :] if "Failures:" in report else ""
    found = [(match["rank"], int(match["pid"]), int(match["code"])) for match in _FAILURE.finditer(summary)]
    return [Ended(f"rank {rank}", pid, code if code >= 0 else 128 - code) for rank, pid, code in found]
