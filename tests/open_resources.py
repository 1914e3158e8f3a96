"""A fixture for rooms whose tests must leave no descriptor, connection or thread behind."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest


def _open_now() -> tuple[set[str], set[str]]:
    links = set()
    for fd in Path("/proc/self/fd").iterdir():
        try:
            links.add(f"{fd.name} {fd.readlink()}")
        except OSError:  # the one that lists the folder
            continue
    listening = {str(c.laddr) for c in psutil.Process().net_connections("all") if c.status == "LISTEN"}
    return links, listening


@pytest.fixture(autouse=True)
def little_to_collect() -> Iterator[None]:
    """What earlier tests have loaded takes a third of a second to look through: the collector leaves it alone."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    descriptors, listening = _open_now()
    threads = set(threading.enumerate())
    yield
    left = _open_now()
    if not (left[0] <= descriptors and left[1] <= listening):  # a reference cycle may hold a socket a little longer
        gc.collect()
        left = _open_now()
    assert left[0] <= descriptors
    assert left[1] <= listening
    assert set(threading.enumerate()) <= threads
