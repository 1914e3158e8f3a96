"""A stand-in for ssh on the PATH, which runs on this machine what it is given, in an environment of its own."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

_SSH = """#!/bin/sh
'''exec' "{python}" -IS "$0" "$@"
''' # a path with a space cannot stand behind #!
import os, sys, threading
words = sys.argv[1:]
host = words.index("--") + 1
with open({log!r}, "a") as log:
    print(*words, file=log)
if words[host] == "gone":
    print("ssh: connect to host gone port 22: No route to host", file=sys.stderr)
    sys.exit(255)
reading, writing = os.pipe()
over_there = os.fork()
if over_there == 0:
    os.setsid()  # whatever ends the launcher's own processes does not find these
    os.dup2(reading, 0)
    environment = dict(PATH=os.environ["PATH"], HOME="/", HOST_IS=words[host])
    os.execve("/bin/sh", ["sh", "-c", *words[host + 1 :]], environment)
os.close(reading)
def relay():
    while data := os.read(0, 65536):
        os.write(writing, data)
    os.close(writing)
threading.Thread(target=relay, daemon=True).start()
os._exit(os.waitstatus_to_exitcode(os.waitpid(over_there, 0)[1]) & 255)
"""


def install(folder: Path, log: Path) -> Path:
    """Write it as `ssh` to a folder, which is made, and return the folder.

    log: the file in which it writes how it was called.
    """
    folder.mkdir()
    script = folder / "ssh"
    script.write_text(_SSH.format(python=sys.executable, log=str(log)))
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return folder
