"""One rank: it ends while a daemon thread of its own waits in a call that never comes to its end.

Argument: the call.
"""

from __future__ import annotations

import contextlib
import sys
import threading

import numpy as np

import paceline


def main(call: str) -> None:
    group = paceline.init(timeout=60)
    waits = {
        "barrier": group.barrier,
        "all_reduce": lambda: group.all_reduce(np.zeros(1 << 22, np.float32)),
        "recv": lambda: group.recv(np.zeros(4), (group.rank + 1) % group.size, tag=7),
    }
    begun = threading.Event()

    def wait() -> None:
        begun.set()
        with contextlib.suppress(paceline.errors.CommunicationError):
            waits[call]()

    with contextlib.suppress(paceline.errors.CommunicationError):  # rank 0 may end before this rank looks again
        group.barrier()
    if call == "recv" or group.rank == 0:
        threading.Thread(target=wait, daemon=True).start()
        begun.wait()


if __name__ == "__main__":
    main(sys.argv[1])
