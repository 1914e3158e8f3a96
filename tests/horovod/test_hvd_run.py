"""`python -m paceline.horovod.run`, and the launchers' environments."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.horovod.hosts import elsewhere, from_file, from_lines, from_text, placed

TELL = (
    "import json, os; told = {k: v for k, v in os.environ.items() if k in "
    "('RANK', 'WORLD_SIZE', 'PACELINE_INTERFACE', 'PACELINE_LOG') or k.startswith('HOROVOD_')}; "
    "os.write(1, json.dumps(told).encode() + b'\\n')"  # at once: two ranks write
)


def launch(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOROVOD_")}
    return subprocess.run(
        [sys.executable, "-m", "paceline.horovod.run", *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        env=environment,
        cwd=folder,
    )


def test_options_become_the_ranks_environment() -> None:
    done = launch(
        *"-np 2 -H localhost:2 --network-interface eth0,eth1 --network-interface lo --start-timeout 40".split(),
        *"--fusion-threshold-mb 32 --cycle-time-ms 3.5 --cache-capacity 9 --timeline-filename t.json".split(),
        *"--no-stall-check --stall-check-warning-time-seconds 7 --stall-check-shutdown-time-seconds 9".split(),
        *"--log-level debug --verbose --autotune --autotune-log-file tried.csv --mpi".split(),
        sys.executable,
        "-c",
        TELL,
    )
    assert done.returncode == 0, done.stderr
    told = sorted((json.loads(line) for line in done.stdout.splitlines()), key=lambda each: each["RANK"])
    shared = {
        "WORLD_SIZE": "2",
        "PACELINE_INTERFACE": "eth0,eth1,lo",
        "PACELINE_LOG": "INFO",
        "HOROVOD_START_TIMEOUT": "40.0",
        "HOROVOD_FUSION_THRESHOLD": str(32 << 20),
        "HOROVOD_CYCLE_TIME": "3.5",
        "HOROVOD_CACHE_CAPACITY": "9",
        "HOROVOD_TIMELINE": "t.json",
        "HOROVOD_AUTOTUNE": "1",
        "HOROVOD_AUTOTUNE_LOG": "tried.csv",
        "HOROVOD_STALL_CHECK_DISABLE": "1",
        "HOROVOD_STALL_CHECK_TIME_SECONDS": "7.0",
        "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "9.0",
        "HOROVOD_LOG_LEVEL": "debug",
    }
    assert told == [{**shared, "RANK": "0"}, {**shared, "RANK": "1"}]
    assert "autotune" not in done.stderr
    assert "--mpi has no effect: there is no MPI" in done.stderr


def test_the_exit_code_is_that_of_the_rank_that_failed() -> None:
    program = "import os, sys; sys.exit(7 if os.environ['RANK'] == '1' else 0)"
    assert launch("-np", "2", sys.executable, "-c", program).returncode == 7


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("-np 2", "name the program to run"),
        ("true", "say how many ranks to start"),
        ("-np 3 -H localhost:2 true", "-np 3 is more than the 2 slots of the hosts"),
        ("-np 4 -H localhost:2,-oProxyCommand=x:2 true", "-H should look like host1:2,host2:4, got '-oProxy"),
        ("-np 4 -H localhost true", "-H should look like host1:2,host2:4, got 'localhost'"),
        ("-np 4 --hostfile none true", "cannot read the host file none: No such file"),
        ("-np 4 --config-file x true", "--config-file is not there: write its options on the command line"),
    ],
)
def test_a_bad_request_gets_one_sentence(arguments: str, words: str) -> None:
    done = launch(*arguments.split())
    assert done.returncode == 2
    assert words in done.stderr.splitlines()[-1]


def test_hosts(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("# ours\nn1 slots=2\n\nn2   slots=3 # more\n")
    assert from_file(file) == from_text("n1:2, n2:3") == {"n1": 2, "n2": 3}
    assert from_text(f"{socket.gethostname()}:1,localhost:2") == {socket.gethostname(): 1, "localhost": 2}
    assert elsewhere({"localhost": 2, "n1": 2}, 2) == []
    assert elsewhere({"localhost": 2, "n1": 2}, 3) == ["n1"]
    assert placed({"b": 2, "a": 2}, 3) == ["b", "b", "a"]
    assert from_lines(["n1", " n2:3 # new", ""], 2, "lines") == {"n1": 2, "n2": 3}
    file.write_text("n1:2\n")
    with pytest.raises(ValueError, match="should look like `host slots=2`, got 'n1:2'"):
        from_file(file)


def test_what_is_there() -> None:
    assert "Frameworks: PyTorch" in launch("--check-build").stdout
