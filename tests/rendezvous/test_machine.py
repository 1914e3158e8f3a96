"""Which machine, which launch: what every rank of a job finds alike, and another job differently."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.rendezvous import this_machine
from paceline.rendezvous.machine import is_dead

ASK = """
import os
from paceline.rendezvous.machine import launcher_identity
os.write(1, launcher_identity("TEST_RANK").encode() + b"\\n")
"""


def ranks_see(count: int, *wrapper: str) -> list[str]:
    """What ranks started by one launcher, itself a child of this process, see."""
    start = [*wrapper, sys.executable, "-c", ASK]
    launcher = (
        "import os, subprocess, sys; "
        f"ranks = [{{**os.environ, 'TEST_RANK': str(rank)}} for rank in range({count})]; "
        f"started = [subprocess.Popen({start!r}, env=environ) for environ in ranks]; "
        "sys.exit(any(rank.wait() for rank in started))"
    )
    done = subprocess.run([sys.executable, "-c", launcher], capture_output=True, text=True, timeout=150, check=True)
    return done.stdout.split()


def test_the_ranks_of_one_launch_agree_through_wrapper_scripts() -> None:
    plain, wrapped = ranks_see(2), ranks_see(2, "sh", "-c", '"$@"; exit $?', "sh")
    assert len(plain) == len(wrapped) == 2
    assert len(set(plain)) == len(set(wrapped)) == 1
    assert plain[0] != wrapped[0]


def test_this_machine() -> None:
    here = this_machine()
    assert here == this_machine()
    assert here.name == here.place
    assert str(Path("/proc/self/ns/net").stat().st_ino) in here.place
    named = this_machine("left")
    assert (named.name, named.place) == ("left", here.place)


def test_who_is_dead() -> None:
    ended = subprocess.Popen(["true"])
    end = os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    assert end is not None and is_dead(ended.pid)  # a zombie
    ended.wait()
    assert is_dead(ended.pid)
    assert not is_dead(os.getpid())


def test_nobody_is_called_dead_for_want_of_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> str:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(Path, "read_text", refused)
    assert not is_dead(os.getpid())
