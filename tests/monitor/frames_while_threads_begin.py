"""Asks again and again where the main thread is, while threads begin and end and each allocation collects garbage."""

from __future__ import annotations

import gc
import sys
import threading

from paceline.monitor.source_line import users_line

over = False


def give_up_the_gil(*_: object) -> None:
    for _number in range(2000):
        pass


def begin_threads() -> None:
    while not over:
        thread = threading.Thread(target=sum, args=(range(10),))
        thread.start()
        thread.join()


def make_frames() -> None:
    while not over:
        sum(number * number for number in range(100))


threads = [threading.Thread(target=each, daemon=True) for each in 3 * [begin_threads, make_frames]]
sys.setswitchinterval(1e-5)
for each in threads:
    each.start()
gc.callbacks.append(give_up_the_gil)
gc.set_threshold(1)
lines = [users_line() for _ in range(int(sys.argv[1]))]
over = True
assert gc.isenabled()
assert all("frames_while_threads_begin.py" in line for line in lines)
