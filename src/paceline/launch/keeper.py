"""A process that outlives the launcher: if somebody kills that, it ends what the ranks have started.

    python -I -S keeper.py PROGRAM...

It reads its stdin. If that ends without a word, the launcher has died, and PROGRAM takes this process's place. It is
run by path and imports the standard library only, as every job pays for its start.
"""

import os
import signal
import sys

OVER = b"over"
"""The word of a launcher that has ended its job itself."""


def main(program: list[str]) -> None:
    """Wait for the end of the launcher."""
    os.setsid()  # what is sent to the launcher's group is not for this process
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if sys.stdin.buffer.read() != OVER:
        os.execv(program[0], program)


if __name__ == "__main__":
    main(sys.argv[1:])
