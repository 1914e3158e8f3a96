"""Handing a job over to torchrun: the command line for it, and what its own report says about who failed."""

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

RANK_WORDS = ("auto", "cpu", "gpu", "xpu")
"""What may be given in place of the number of ranks; torchrun finds the number."""

_OWN_OUTPUT = (
    "-r --redirects -t --tee --local-ranks-filter --duplicate-stdout-filters --duplicate-stderr-filters --logs-specs"
).split()
_OWN_RENDEZVOUS = "--rdzv-backend --rdzv-endpoint --master-addr --master-port --standalone".split()
_FAILURE = re.compile(
    r"rank\s*: (?P<rank>\d+) \(local_rank: \d+\)\s+exitcode\s*: (?P<code>-?\d+) \(pid: (?P<pid>\d+)\)"
)


class TorchrunJob(Job):
    """torchrun's agent and the ranks that it starts. The folder that torchrun keeps goes at the end, unless the user
    chose one: the agent removes it, and so does this process, as either may be killed.

    report, cores: see `child.py`. Without a report the output is torchrun's affair. ValueError without a place for
    temporary files.
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
        """As `Job.terminate`; also removes the folder."""
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
    """True if torch (and so torchrun) can be imported; doesn't import it."""
    return importlib.util.find_spec("torch") is not None


def one_machine(arguments: Arguments, environ: Mapping[str, str]) -> bool:
    """True if the job has no ranks elsewhere, as far as the options and torchrun's PET_ variables say."""
    nodes = arguments.value("--nnodes") or environ.get("PET_NNODES") or "1"
    return nodes in ("1", "1:1")


def ranks_here(environ: Mapping[str, str]) -> str:
    """The number of ranks, or the word for it, in torchrun's own variable; "" if it isn't set."""
    return environ.get("PET_NPROC_PER_NODE", "")


def redirects_output(arguments: Arguments) -> bool:
    """True if the user arranged with torchrun where the ranks' output goes."""
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
    """The command line of torchrun's agent: the user's options and program unchanged.

    report, cores, folder: see `agent.py`.

    On one machine the rendezvous, unless the user chose one, is at 127.0.0.1 on a free port, which needs no name
    resolution and can't clash with another job.
    """
    options = list(arguments.torchrun)
    user_chose = arguments.gives(*_OWN_RENDEZVOUS) or any(
        name in environ for name in ("PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT", "PET_MASTER_ADDR", "PET_STANDALONE")
    )
    defaults: list[str] = []
    if one_machine(arguments, environ) and not user_chose:
        defaults = ["--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0"]
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


def rank_program(arguments: Arguments, environ: Mapping[str, str]) -> tuple[str, ...]:
    """What a rank executes: the script by Python, a module, or the program itself.

    A command, a binary or a script of another language is the program itself; any other file is a script for Python.
    """
    word, *words = arguments.program
    if starts_itself(arguments):
        return (f"./{word}" if "/" not in word and is_file(word) else word, *words)
    python = environ.get("PYTHON_EXEC", sys.executable)
    module = ("-m",) if arguments.gives("-m", "--module") else ()
    return (python, *module, *arguments.program)


def starts_itself(arguments: Arguments) -> bool:
    """True if no Python is put before the program."""
    by_python = arguments.gives("-m", "--module", "--run-path")
    return arguments.gives("--no-python") or (not by_python and is_command(arguments.program[0]))


def is_file(word: str) -> bool:
    """False also for what no file can be called."""
    try:
        return Path(word).is_file()
    except OSError:
        return False


def is_command(word: str) -> bool:
    """True for what is no file here, but is found on the PATH, and for a file that starts by itself: a binary such as a
    python of another place, or a script whose first line names another interpreter than Python."""
    file = Path(word)
    if not is_file(word):
        return shutil.which(word) is not None
    with file.open("rb") as opened:
        first = opened.readline(256)
    by_another = first.startswith(b"#!") and b"python" not in first and os.access(file, os.X_OK)
    return first.startswith(b"\x7fELF") or by_another


def failures(report: str) -> list[Ended]:
    """The failed ranks that torchrun's closing summary lists; empty if there is no such summary."""
    summary = report[report.rfind("Failures:") :] if "Failures:" in report else ""
    found = [(match["rank"], int(match["pid"]), int(match["code"])) for match in _FAILURE.finditer(summary)]
    return [Ended(f"rank {rank}", pid, code if code >= 0 else 128 - code) for rank, pid, code in found]
