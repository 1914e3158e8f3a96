"""`python -m paceline.horovod.run`, and the launchers' environments."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.horovod import run_function
from paceline.horovod.config_file import arguments as arguments_of
from paceline.horovod.hosts import elsewhere, from_file, from_lines, from_text, placed
from paceline.horovod.options import check
from paceline.horovod.rank_layout import rank_variables
from paceline.horovod.run import main

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
        timeout=250,
        env=environment,
        cwd=folder,
    )


def test_options_become_the_ranks_environment() -> None:
    done = launch(
        *"-np 2 -H localhost:2 --network-interface eth0,eth1 --network-interface lo --start-timeout 40".split(),
        *"--fusion-threshold-mb 32 --cycle-time-ms 3.5 --cache-capacity 9 --timeline-filename t.json".split(),
        *"--no-stall-check --stall-check-warning-time-seconds 7 --stall-check-shutdown-time-seconds 9".split(),
        *"--log-level debug --verbose --autotune --autotune-log-file tried.csv --mpi".split(),
        *"--timeline-mark-cycles --no-mpi-threads-disable --log-hide-timestamp -prefix-timestamp".split(),
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
        "HOROVOD_TIMELINE_MARK_CYCLES": "1",
        "HOROVOD_AUTOTUNE": "1",
        "HOROVOD_AUTOTUNE_LOG": "tried.csv",
        "HOROVOD_STALL_CHECK_DISABLE": "1",
        "HOROVOD_STALL_CHECK_TIME_SECONDS": "7.0",
        "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "9.0",
        "HOROVOD_LOG_LEVEL": "debug",
    }
    assert told == [
        {**shared, **place, "RANK": str(rank)} for rank, place in enumerate(rank_variables(["localhost"] * 2))
    ]
    assert "autotune" not in done.stderr
    assert "--mpi has no effect: there is no MPI" in done.stderr


def test_horovodruns_own_variables_say_the_same() -> None:
    found = rank_variables(["a", "a", "b"])
    assert found[2] == {
        "HOROVOD_HOSTNAME": "b",
        "HOROVOD_RANK": "2",
        "HOROVOD_SIZE": "3",
        "HOROVOD_LOCAL_RANK": "0",
        "HOROVOD_LOCAL_SIZE": "1",
        "HOROVOD_CROSS_RANK": "1",
        "HOROVOD_CROSS_SIZE": "2",
    }
    assert (found[1]["HOROVOD_LOCAL_RANK"], found[1]["HOROVOD_CROSS_SIZE"]) == ("1", "1")


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
        ("-np 4 --config-file none true", "cannot read the config file none: No such file"),
        ("-np 4 --output-filename /proc/x true", "--output-filename: cannot make the folder /proc/x: "),
        ("-np 4 --jsrun true", "--jsrun is not supported: use jsrun itself"),
        (
            "-np 2 --fusion-threshold-mb -1 true",
            "no rank can take --fusion-threshold-mb: HOROVOD_FUSION_THRESHOLD='-10",
        ),
        ("-np 2 --log-level loud true", "no rank can take --log-level: HOROVOD_LOG_LEVEL='loud' should be one of"),
        ("-np 2 --min-np 1 --cycle-time-ms -1 true", "no rank can take --cycle-time-ms: HOROVOD_CYCLE_TIME='-1.0'"),
        ("-np 2 --min-np 1 --reset-limit -1 true", "--reset-limit -1 should not be less than 0"),
    ],
)
def test_a_bad_request_gets_one_sentence(arguments: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments.split())
    assert words in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("name", ["HOROVOD_CACHE_CAPACITY", "PACELINE_SPIN_US"])
def test_a_variable_that_no_rank_can_take_is_refused_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "-3")
    with pytest.raises(ValueError, match=f"^{name}='-3' should be "):
        check({}, os.environ)
    with pytest.raises(ValueError, match=f"^{name}='-3' should be "):
        run_function.run(print, num_proc=2)


def test_what_ranks_print_is_kept_too(tmp_path: Path) -> None:
    program = "echo out $RANK; echo err $RANK >&2"
    done = launch("-np", "11", "--output-filename", str(tmp_path / "kept"), "sh", "-c", program)
    assert done.returncode == 0, done.stderr
    for rank in range(11):
        kept = {file.name: file.read_text() for file in (tmp_path / "kept" / f"rank.{rank:02}").iterdir()}
        assert kept == {"stdout": f"out {rank}\n", "stderr": f"err {rank}\n"}
        assert f"[{rank}] out {rank}\n" in done.stdout and f"[{rank}] err {rank}\n" in done.stderr


CONFIG = """
controller: gloo
params: {fusion_threshold_mb: 32, cycle_time_ms: 0.5, cache_capacity: 7, hierarchical_allreduce: false}
autotune: {enabled: true, log_file: tried.csv}
timeline: {filename: t.json, mark_cycles: true}
stall_check: {enabled: false, warning_time_seconds: 20, shutdown_time_seconds: null}
library_options: {mpi_threads_disable: false}
stall_check_too:
logging:
  level: INFO
  with_timestamp: false
"""


def test_a_config_file_says_what_the_command_line_does_not(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    own = "--cycle-time-ms 3 --no-autotune --stall-check".split()
    file.write_text(f"{CONFIG}  hide_timestamp: true\nhere: {{nothing: 1}}\n")
    done = launch("-np", "1", "--config-file", str(file), *own, sys.executable, "-c", TELL)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "RANK": "0",
        "WORLD_SIZE": "1",
        **rank_variables(["localhost"])[0],
        "HOROVOD_FUSION_THRESHOLD": str(32 << 20),
        "HOROVOD_CYCLE_TIME": "3.0",
        "HOROVOD_CACHE_CAPACITY": "7",
        "HOROVOD_AUTOTUNE": "0",
        "HOROVOD_AUTOTUNE_LOG": "tried.csv",
        "HOROVOD_TIMELINE": "t.json",
        "HOROVOD_TIMELINE_MARK_CYCLES": "1",
        "HOROVOD_STALL_CHECK_DISABLE": "0",
        "HOROVOD_STALL_CHECK_TIME_SECONDS": "20.0",
        "HOROVOD_LOG_LEVEL": "INFO",
    }
    assert "--gloo has no effect" in done.stderr
    assert (
        f"paceline: the config file {file}: logging.hide_timestamp has no effect: logging has the keys" in done.stderr
    )
    assert f"paceline: the config file {file}: here has no effect: there is no such section" in done.stderr


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{new}: &{new} [{','.join(['*' + old] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
"""A few hundred bytes that stand for more than 300 million values."""


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (BOMB + "controller: *i", "line 2: aliases (*a) are not supported; write the value out"),
        ("params: {<<: &a {x: 1}, y: *a}", "line 1: aliases (*a) are not supported"),
        ("[" * 30_000, "line 1: it has two levels, section and key, and not 9"),
        ("a: " + "x" * 70_000, "should have at most 64 KiB"),
        ("params: {cache_capacity: " + "1" * 5000 + "}", "digits"),
        ("[1, 2]", "it should have the sections controller, params, "),
        ("params: 3", "params should have the keys fusion_threshold_mb, cycle_time_ms, "),
        ("timeline: {filename: [x]}", "filename should be a number, a text, true or false, not ['x']"),
        ("controller: nccl", "controller should be one of gloo, mpi, not 'nccl'"),
        ("params: {", "is not YAML: "),
    ],
)
def test_a_config_file_that_is_none(text: str, sentence: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    with pytest.raises(ValueError, match=re.escape(f"the config file {file}")) as caught:
        arguments_of(file)
    assert sentence in str(caught.value)


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
