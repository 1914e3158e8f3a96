"""torchrun, except that its ranks stay in its session, and that it leaves no folder.

    python -m paceline.launch.agent FOLDER torchrun's arguments...

FOLDER  where torchrun keeps what ranks tell it, removed at the end; or "-": where it likes

Linux shares the CPUs between sessions (`sched_autogroup_enabled`), and a rank that offers its core offers it to its own
session only. torchrun starts each rank in a session of its own, so that ranks which outnumber the cores cannot hand
them to each other. A process group of its own is all that torchrun's signals need.
"""

import importlib
import os
import shutil
import sys
from typing import Any

_STARTS_RANKS = "torch.distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler"


def main(arguments: list[str]) -> None:
    """Run the agent to its end. After a signal it has ended its ranks, and says so in one line, not in a traceback."""
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.api import SignalException

    folder, *words = arguments
    stay_in_session()
    code = 0
    try:
        run.main(words if folder == "-" else [f"--log-dir={folder}", *words])
    except SignalException as signalled:
        code = 128 + signalled.sigval
    finally:
        if folder != "-":
            shutil.rmtree(folder, ignore_errors=True)
    if code:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # the interpreter's own end can take torch half a minute then


def stay_in_session() -> None:
    """Let torchrun start ranks in process groups, not sessions; a torch that starts them otherwise stays as it is."""
    module: Any = importlib.import_module(_STARTS_RANKS)
    popen: Any = getattr(module, "Popen", None)
    group: dict[str, Any] = {"process_group": 0} if sys.version_info >= (3, 11) else {"preexec_fn": os.setpgrp}

    def start(*arguments: Any, start_new_session: bool = False, **options: Any) -> Any:
        return popen(*arguments, **options, **(group if start_new_session else {}))

    if popen is not None:
        module.Popen = start


if __name__ == "__main__":
    main(sys.argv[1:])
