"""The program that each rank of `horovod.run(function)` executes: it makes the call that the launcher left in memory.

    python -m paceline.horovod.called CALL ANSWERS

CALL file descriptor of the memory that holds the call, shared by all ranks ANSWERS file descriptors of the pipes for
the ranks' results, as "5,6"; the variable RANK selects this process's
"""

from __future__ import annotations

import mmap
import os
import pickle
import sys
import time
import traceback
from multiprocessing.connection import Connection

import cloudpickle


def main(call: int, answers: list[int]) -> int:
    """Make the call and send how it ended through the pipe. Returns the exit code.

    It sends whether the call succeeded, its result or a description of its failure, and when it ended in seconds of the
    machine's monotonic clock.

    call: the file descriptor of the memory that holds the call. answers: the file descriptors of all ranks' pipes; this
    rank's is removed and the others are closed.
    """
    mine = answers.pop(int(os.environ["RANK"]))
    for other in answers:
        os.close(other)
    os.set_inheritable(mine, False)
    with Connection(mine, readable=False) as pipe:
        succeeded, outcome = _outcome(call)
        ended = time.monotonic()
        if succeeded:
            try:
                pipe.send_bytes(cloudpickle.dumps((True, outcome, ended)))
                return 0
            except Exception as error:
                outcome = f"what it returned cannot be sent back: {error}"
        pipe.send_bytes(pickle.dumps((False, outcome, ended)))
        return 1


def _outcome(call: int) -> tuple[bool, object]:
    try:
        with mmap.mmap(call, 0, access=mmap.ACCESS_READ) as memory:
            os.close(call)
            sys.path[:], sys.argv[:], words = pickle.loads(memory)
        function, args, kwargs = pickle.loads(words)
        return True, function(*args, **kwargs)
    except BaseException:
        return False, traceback.format_exc()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), [int(descriptor) for descriptor in sys.argv[2].split(",")]))
