"""Presses Ctrl-C when a process that MOMENT describes is about to import a module: PROCESS:MODULE.

PROCESS: command, the first of all processes; agent, what it starts; rank, what has a RANK.
"""

import os
import signal
import sys
import time

process, module = os.environ["MOMENT"].split(":")
first = int(os.environ.setdefault("FIRST", str(os.getpid())))
here = "rank" if "RANK" in os.environ else "command" if first == os.getpid() else "agent"


class Interrupt:
    @staticmethod
    def find_spec(name: str, path: object, target: object = None) -> None:
        if name == module:
            os.kill(first, signal.SIGINT)
            if here != "command":
                time.sleep(600)  # until it is told


if here == process:
    sys.meta_path.insert(0, Interrupt)  # type: ignore[arg-type]
