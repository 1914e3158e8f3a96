"""Two processes that try to read each other's memory, as two ranks would.

    python -m paceline.cli.doctor.probe hold            prints "PID ADDRESS" and waits until its stdin is closed
    python -m paceline.cli.doctor.probe read PID ADDRESS   prints "yes" or "no"

They are siblings, because a parent may read its child's memory even where one rank may not read another's.
"""

import os
import sys


def main(arguments: list[str]) -> None:
    """Run the role that the arguments name."""
    from paceline import _engine

    if arguments[0] == "hold":
        _engine.allow_reads()
        print(os.getpid(), _engine.probe_address(), flush=True)
        sys.stdin.read()
    else:
        print("yes" if _engine.can_read(int(arguments[1]), int(arguments[2])) else "no")


if __name__ == "__main__":
    main(sys.argv[1:])
