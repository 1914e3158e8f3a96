"""Horovod's API beside Horovod as a benchmark: with a stand-in for Horovod, which need not be installed here."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benched import bench

# One rank alone, whose sums are what it has, and whoever asks is never turned away.
STAND_IN = """
Sum = "sum"
init = barrier = shutdown = lambda: None
rank = lambda: 0
size = lambda: 1
synchronize = lambda handle: handle
def allreduce_async_(tensor, name, op):
    return tensor.add_({error})
"""
HOSTS = "get_host_assignments = lambda *given: given\nparse_hosts = str"
SERVER = """
import http.server
RendezvousHandler = http.server.BaseHTTPRequestHandler
class RendezvousHTTPServer(http.server.HTTPServer):
    def __init__(self, address, handler, verbose):
        super().__init__(address, handler)
    def init(self, plan):
        pass
"""
FILES = {"torch.py": STAND_IN, "runner/common/util/hosts.py": HOSTS, "runner/http/http_server.py": SERVER}


def environment(folder: Path, error: int) -> Path:
    """An environment whose Horovod adds `error` to every element."""
    for name, text in FILES.items():
        file = folder / "lib" / "horovod" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.format(error=error) if name == "torch.py" else text)
    (folder / "lib" / "horovod" / "__init__.py").touch()
    python = folder / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nPYTHONPATH={folder}/lib:$PYTHONPATH exec {sys.executable} "$@"\n')
    python.chmod(0o700)
    return folder


def test_both_systems_get_a_row_and_wrong_sums_are_found(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    for error in (0, 1):
        peers = environment(tmp_path / str(error), error)
        words = ("named", "-n", 1, "--model", "GoogLeNet", "--peers", peers, "--rounds", 3, "--seconds", 0)
        done = bench(*words, "--json", file, seconds=90)
        assert done.returncode == error, done.stderr
        ours, theirs = json.loads(file.read_text())
        assert (ours["system"], theirs["system"]) == ("paceline", "horovod")
        assert ours["bytes"] == theirs["bytes"] > 20_000_000
        assert ours["wrong"] == 0
        assert (theirs["wrong"] > 0) == bool(error)
        assert min(ours["time_us"], ours["cpu_us"], theirs["time_us"]) > 0


def test_where_horovod_is_not_one_sentence_says_so(tmp_path: Path) -> None:
    done = bench("named", "--peers", tmp_path)
    assert done.returncode == 2
    sentence = f"horovod is not installed in {tmp_path} with torch and NumPy; --peers names where it is.\n"
    assert (done.stdout, done.stderr) == ("", sentence)
