"""How long a process was kept from running."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from paceline.adapt.measure.cpu_wait import waited_seconds


def test_who_shares_a_core_waits_for_it() -> None:
    usual = os.sched_getaffinity(0)
    core = min(usual)
    spin = f"import os; os.sched_setaffinity(0, [{core}]); print(flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", spin], stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None
            other.stdout.readline()
            os.sched_setaffinity(0, [core])
            before, until = waited_seconds(), time.thread_time() + 0.3
            while time.thread_time() < until:
                pass
            # Half of the core is the other's; two processes that begin may not be even at once.
            assert waited_seconds() - before > 0.1
        finally:
            os.sched_setaffinity(0, usual)
            other.kill()
