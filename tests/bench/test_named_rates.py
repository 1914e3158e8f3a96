"""Horovod's API beside Horovod as a benchmark: with a stand-in for Horovod, which need not be installed here."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from benched import bench, refused

# One rank alone, whose sums are one more than what it has, and whoever asks is never turned away.
STAND_IN = """
Sum = "sum"
init = barrier = shutdown = lambda: None
rank = lambda: 0
size = lambda: 1
synchronize = lambda handle: handle
def allreduce_async_(tensor, name, op):
    return tensor.add_(1)
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


def environment(folder: Path) -> Path:
    """An environment with the stand-in."""
    for name, text in FILES.items():
        file = folder / "lib" / "horovod" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (folder / "lib" / "horovod" / "__init__.py").touch()
    python = folder / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nPYTHONPATH={folder}/lib:$PYTHONPATH exec {sys.executable} "$@"\n')
    python.chmod(0o700)
    return folder


@pytest.mark.verify
def test_both_systems_get_a_row_and_wrong_sums_are_found(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    words = ("named", "-n", 1, "--model", "GoogLeNet", "--peers", environment(tmp_path / "peers"), "--rounds", 3)
    done = bench(*words, "--seconds", 0, "--json", file, seconds=150)
    assert done.returncode == 1, done.stderr
    ours, theirs = json.loads(file.read_text())
    assert (ours["system"], theirs["system"]) == ("paceline", "horovod")
    assert ours["bytes"] == theirs["bytes"] > 20_000_000
    assert ours["wrong"] == 0 < theirs["wrong"]
    assert min(ours["time_us"], ours["cpu_us"], theirs["time_us"]) > 0


def test_where_horovod_is_not_one_sentence_says_so(tmp_path: Path) -> None:
    sentence = f"horovod is not installed in {tmp_path} with torch and NumPy; --peers names where it is."
    assert refused("named", "--peers", tmp_path) == sentence
