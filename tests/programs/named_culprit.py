"""A rank that says whom its error blames, by `rank kind: text`. The argument says what happens.

"two losses": rank 0 dies, and then rank 3, which alone is in a group with rank 2. "left": rank 0 sends a message of
another size than rank 1 expects, and leaves.
"""

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

import paceline
from paceline.errors import CommunicationError, PeerLost

group = paceline.init()
few = np.ones(8, np.float32)


def runs(pid: int) -> bool:
    with suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


pids = np.empty(group.size, np.int64)
group.all_gather(pids, np.array([os.getpid()]))
try:
    if sys.argv[1] == "two losses":
        pair = group.split(group.rank // 2, group.rank)
        assert pair is not None
        if group.rank == 0:
            os._exit(9)
        with suppress(PeerLost):
            group.barrier()
        if group.rank > 1:
            pair.all_reduce(few)
            if group.rank == 3:
                os._exit(9)
            pair.all_reduce(few)
    elif group.rank == 0:
        group.send(few, 1)
    else:
        while runs(pids[0]):
            time.sleep(0.01)
        group.recv(few[:4], 0)
except CommunicationError as error:
    print(f"{error.rank} {type(error).__name__}: {error}")
