"""Runs torchrun with three differences: its ranks stay in its session, cannot outlive it, and leave no folder behind.

    python -m paceline.launch.agent FOLDER REPORT CORES torchrun's arguments...

FOLDER the folder that torchrun uses for reports of its ranks, removed at the end; or "-" for torchrun's choice
REPORT, CORES for each rank, see `child.py`

Linux shares the CPUs between sessions (`sched_autogroup_enabled`), and a rank that yields its core yields it to its own
session only. torchrun starts each rank in a session of its own, so ranks that outnumber the cores could not yield to
each other. torchrun's signals only need each rank to have a process group of its own.
"""

import importlib
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

from paceline.launch.child import take_interrupts
from paceline.launch.interrupts import held
from paceline.launch.job import wrapped

_STARTS_RANKS = "torch.distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler"
_TAKES_SIGNALS = "torch.distributed.elastic.multiprocessing.api"


def main(arguments: list[str]) -> None:
    """Run the agent to its end.

    A signal or a failed rank sets the exit code; torchrun prints no traceback of its own for either.
    """
    take_interrupts()
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    folder, report, cores, *words = arguments
    start_ranks(report, cores)
    end_once()
    code = 0
    try:
        run.main(words if folder == "-" else [f"--log-dir={folder}", *words])
    except SignalException as signalled:
        code = 128 + signalled.sigval
    except ChildFailedError as failed:
        code = 1
        print(failed, file=sys.stderr)
    finally:
        if folder != "-":
            shutil.rmtree(folder, ignore_errors=True)
    if code:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # an ordinary exit of the interpreter can take torch half a minute here


def start_ranks(report: str, cores: str) -> None:
    """Make torchrun start ranks through `child.py` and in process groups instead of sessions."""
    module: Any = importlib.import_module(_STARTS_RANKS)
    popen: Any = module.Popen
    group: dict[str, Any] = {"process_group": 0} if sys.version_info >= (3, 11) else {"preexec_fn": os.setpgrp}
    parent = os.getpid()

    def start(args: Sequence[str], *, start_new_session: bool = False, **options: Any) -> Any:
        words = wrapped(args, death_signal=signal.SIGKILL, parent=parent, report=report, cores=cores)
        with held():
            return popen(words, **options, **(group if start_new_session else {}))

    module.Popen = start


def end_once() -> None:
    """Make torchrun raise an exception for the first signal only: another one would break off what the first began.

    Two come where the launcher is killed, and the second one finds the agent in the midst of removing its folder.
    """
    module: Any = importlib.import_module(_TAKES_SIGNALS)
    ending: Any = module._terminate_process_handler
    received: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if len(received) == 1:
            ending(number, frame)

    module._terminate_process_handler = end


if __name__ == "__main__":
    main(sys.argv[1:])
