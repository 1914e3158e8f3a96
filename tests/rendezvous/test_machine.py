"""Which machine, which launch: what every rank of a job finds alike, and another job differently."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from paceline.rendezvous import this_machine

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
    done = subprocess.run([sys.executable, "-c", launcher], capture_output=True, text=True, timeout=60, check=True)
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
