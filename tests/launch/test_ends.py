"""The order of ends is that in which processes ended, however late somebody looks."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys

from paceline.launch.ends import Ends


def test_ends_come_in_their_order() -> None:
    ends, order = Ends(), list(range(8))
    random.Random(1).shuffle(order)
    waiting = [sys.executable, "-S", "-c", "import signal; signal.pause()"]
    children = [subprocess.Popen(waiting) for _ in order]
    try:
        for number, child in enumerate(children):
            ends.expect(number, child.pid)
        assert ends.next() == []
        for number in order:
            children[number].kill()
            os.waitid(os.P_PID, children[number].pid, os.WEXITED | os.WNOWAIT)
        assert ends.next() == order
        assert ends.next() == []
    finally:
        ends.close()
        for child in children:
            child.send_signal(signal.SIGKILL)
            child.wait()
