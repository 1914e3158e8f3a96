"""Real ranks: Gloo and the MPIs through the command line, systems that fail, and what is left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from benched import bench, command, refused

from paceline.cpu.budget import available
from paceline_bench import systems
from paceline_bench.interleave import Effort, Work
from paceline_bench.run import BenchRequest, run, started
from paceline_bench.session import SessionFailed
from paceline_bench.systems import System

KEYS = {
    *("collective", "algorithm", "system", "path", "dtype", "op", "bytes", "ranks", "machines", "buffer"),
    *("time_us", "time_us_q1", "time_us_q3", "cpu_us", "algbw_gbps", "busbw_gbps", "wrong", "iterations"),
    *("asked", "bytes_per_link", "link_efficiency", "bound_us", "codec"),
}
QUICK = ["--rounds", "3", "--iterations", "3"]


def offspring(scratch):
    """Processes of a run whose temporary files lie in `scratch`."""
    found = []
    for process in psutil.process_iter():
        try:
            if str(scratch) in " ".join(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def check_rows(rows, count):
    assert len(rows) == count
    for row in rows:
        assert set(row) == KEYS
        assert row["wrong"] == 0
        assert 0 < row["time_us_q1"] <= row["time_us"] <= row["time_us_q3"]
        assert row["cpu_us"] > 0
        assert row["algbw_gbps"] == pytest.approx(row["bytes"] / row["time_us"] / 1e3, rel=0.01, abs=1e-6)


def test_paceline_beside_gloo_through_the_command_line(tmp_path):
    file, scratch = tmp_path / "rows.json", tmp_path / "scratch"
    scratch.mkdir()
    words = ("all_reduce", "-n", "2", "-b", "8", "-e", "64K", "-f", "8192", "--paths", "engine", "--against", "gloo")
    done = bench(*words, *QUICK, "--json", str(file), env={**os.environ, "TMPDIR": str(scratch)})
    assert done.returncode == 0, done.stderr
    rows = json.loads(file.read_text())
    check_rows(rows, 4)
    assert {row["codec"] for row in rows} == {None}
    both = [("paceline", "engine"), ("gloo", "torch")]
    found = [(row["system"], row["path"], row["bytes"], row["ranks"], row["iterations"]) for row in rows]
    assert found == [(*system, size, 2, 9) for size in (8, 65536) for system in both]
    assert {row["algorithm"] for row in rows} > {"default"}
    assert "busbw(GB/s)" in done.stdout
    assert len(done.stdout.splitlines()) == 5
    assert not list(scratch.iterdir())
    assert not offspring(scratch)


def test_intel_mpi_in_the_best_of_its_settings(tmp_path):
    file = tmp_path / "rows.json"
    try:
        settings = systems.peer("intelmpi", Path(sys.prefix))
    except systems.Missing as reason:
        pytest.skip(str(reason))
    assert [system.environment.get("I_MPI_ADJUST_ALLREDUCE") for system in settings] == [None, "11", "14"]
    words = ("all_reduce", "-n", "2", "-b", "8", "-e", "64K", "-f", "8192", "--paths", "none", "--against", "intelmpi")
    done = bench(*words, *QUICK, "--json", str(file))
    assert done.returncode == 0, done.stderr
    rows = json.loads(file.read_text())
    check_rows(rows, 2)
    known = {"default", "I_MPI_ADJUST_ALLREDUCE=11", "I_MPI_ADJUST_ALLREDUCE=14"}
    assert {row["algorithm"] for row in rows} <= known


def test_where_ranks_share_cpus_the_mpis_wait_in_each_of_their_ways(tmp_path):
    file = tmp_path / "rows.json"
    for name in ("openmpi", "mpich"):
        if not installed(name):
            pytest.skip(f"{name} is not installed")
        alone, crowded = (systems.peer(name, Path(sys.prefix), crowded=crowded) for crowded in (False, True))
        assert [one.environment for one in alone] == [{}]
        assert [bool(one.environment) for one in crowded] == [False, True]
    ranks = str(available().cpus + 1)
    size = str(1000 * (available().cpus + 1))
    words = ("reduce_scatter", "-n", ranks, "-b", size, "-e", size, "--paths", "none", "--against", "openmpi,mpich")
    done = bench(*words, *QUICK, "--json", str(file))
    assert done.returncode == 0, done.stderr
    rows = json.loads(file.read_text())
    check_rows(rows, 2)
    assert [row["system"] for row in rows] == ["openmpi", "mpich"]
    settings = {"default", "OMPI_MCA_threads_pthreads_yield_strategy=nanosleep"}
    throttled = "MPIR_CVAR_CH4_PROGRESS_THROTTLE=1 MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT=1"
    assert rows[0]["algorithm"] in settings and rows[1]["algorithm"] in {"default", throttled}


@pytest.mark.parametrize("collective", ["all_reduce", "sendrecv"])
def test_the_limit_beside_the_others(collective, tmp_path):
    file = tmp_path / "rows.json"
    words = (collective, "-n", "3", "-b", "8", "-e", "1M", "-f", "131072", "--paths", "engine", "--limit")
    done = bench(*words, *QUICK, "--json", str(file))
    assert done.returncode == 0, done.stderr
    rows = json.loads(file.read_text())
    check_rows(rows, 4)
    assert [(row["system"], row["buffer"], row["ranks"]) for row in rows[2:]] == [
        ("paceline", "any", 3),
        ("limit", "shared", 3),
    ]
    assert "vs limit" in done.stdout


def test_the_limit_is_for_float32_only():
    for words in (("all_gather",), ("all_reduce", "--dtype", "float64"), ("all_reduce", "--op", "max")):
        assert "works for float32: sums of all_reduce" in refused(*words, "--paths", "none", "--limit")


def faulty(*names):
    here = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])}
    adapters = {"planted": "faulty:Planted", "absent": "no_such:Thing"}
    return [
        System(name, "torch", adapters.get(name, "alone:Alone"), {"call": name}, environment=here) for name in names
    ]


def run_faulty(systems, timeout):
    complaints = []
    works = [Work("all_reduce", "float32", "sum", 1000), Work("all_reduce", "float32", "sum", 2000)]
    request = BenchRequest(systems, ranks=2, works=works, effort=Effort(rounds=3, calls=2), timeout=timeout)
    return run(request, os.environ, complaints.append, lambda text: None), complaints


def test_faulty_systems_are_told_apart_and_the_others_go_on():
    outcome, complaints = run_faulty(faulty("planted", "die", "absent"), timeout=60)
    # Two checks before the timing and one after it, each with one planted element.
    assert [(row.system, row.bytes, row.wrong) for row in outcome.rows] == [("planted", 4000, 3), ("planted", 8000, 3)]
    assert outcome.failed
    assert len(complaints) == 2
    assert re.match(r"absent/torch: the rank with pid \d+ failed at `start`: ModuleNotFoundError", complaints[0])
    assert "die/torch: rank 1 died at `verify`\n  last words of rank 1" in complaints[1]


def test_a_system_that_hangs_is_not_waited_for():
    with started(BenchRequest(faulty("hang"), 2, timeout=60), os.environ, pytest.fail) as (session,):
        session.ask(do="prepare", collective="all_reduce", dtype="float32", op="sum", elements=8, root=0)
        session.timeout = 1.0
        with pytest.raises(SessionFailed) as failed:
            session.ask(do="verify", seeds=[1])
    assert str(failed.value) == "hang/torch: no answer to `verify` within 1 s from ranks [0, 1]"


def test_a_missing_peer_is_one_sentence_that_names_the_extra(tmp_path):
    told = refused("all_reduce", "--paths", "none", "--against", "mpich", "--peers", tmp_path)
    assert told.startswith(f"mpich is not installed in {tmp_path}")
    assert 'pip install "paceline[bench]" brings it.' in told


def test_intel_mpi_missing_is_one_sentence_that_says_how_it_is_installed(tmp_path):
    told = refused("all_reduce", "--paths", "none", "--against", "intelmpi", "--peers", tmp_path)
    own = tmp_path / "peers" / "intelmpi"
    assert told.startswith(f"intelmpi is not installed in {own}")
    assert f"`{own}/bin/pip install impi-rt mpi4py numpy`." in told


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["all_reduse"], "all_reduse"),
        (["all_reduce", "-b", "8X"], "such as 64M"),
        (["all_reduce", "-b", "1M", "-e", "8"], "must be above 0 and not above the last"),
        (["all_reduce", "--against", "glue"], "gloo, openmpi, mpich, intelmpi"),
        (["all_reduce", "--dtype", "float"], "bfloat16"),
    ],
)
def test_a_wrong_argument_is_refused_with_the_right_ones(words, expected):
    assert expected in refused(*words, "--paths", "none")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing(tmp_path, number):
    words = ("all_reduce", "-b", "8", "-e", "8", "--paths", "engine", "--iterations", "100000000")
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    running = subprocess.Popen(
        command(*words), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while len(offspring(tmp_path)) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    running.send_signal(number)
    _, errors = running.communicate(timeout=150)
    assert running.returncode == 130, errors
    assert not offspring(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.needs("a lab")
def test_two_machines(tmp_path):
    file = tmp_path / "rows.json"
    words = ("all_reduce", "-n", "2", "-b", "4K", "-e", "4K", "--paths", "engine", "--machines", "2")
    done = bench(*words, *QUICK, "--json", str(file))
    assert done.returncode == 0, done.stderr
    rows = json.loads(file.read_text())
    check_rows(rows, 1)
    assert [row["machines"] for row in rows] == [2]
    assert [row["link_efficiency"] for row in rows] == [None]  # nothing is held to a rate


@pytest.mark.verify
@pytest.mark.needs("a lab")
@pytest.mark.parametrize(
    ("collective", "names"),
    [("all_reduce", ["none", "bf16", "three_in_one", "int8", "lossless"]), ("broadcast", ["none", "three_in_one"])],
)
def test_codecs_between_two_machines(tmp_path, collective, names):
    file = tmp_path / "rows.json"
    words = (collective, "-n", "3", "-b", "1M", "-e", "1M", "--paths", "engine", "--codecs", ",".join(names))
    done = bench(*words, "--machines", "2", *QUICK, "--json", str(file))
    assert done.returncode == 0, done.stderr
    rows = json.loads(file.read_text())
    check_rows(rows, len(names))
    assert [row["codec"] for row in rows] == names
    assert {row["op"] for row in rows} == {"avg" if collective == "all_reduce" else "none"}
    assert "codec" in done.stdout
    # Headers take up to a tenth. Zeros would hide that lossless keeps the mantissas of float32.
    shares = {"none": 1, "bf16": 1 / 2, "three_in_one": 1 / 3, "int8": 0.258, "lossless": 0.83}
    for row in rows:
        carried = max(max(link.values()) for link in row["bytes_per_link"].values()) / row["bytes"]
        assert shares[row["codec"]] * 0.95 < carried < shares[row["codec"]] * 1.1, row["codec"]


@pytest.mark.verify
@pytest.mark.needs("a lab")
@pytest.mark.needs("iperf3")
def test_algorithms_and_peers_on_the_machines_of_a_lab(tmp_path):
    cluster, file, links = tmp_path / "cluster.yaml", tmp_path / "rows.json", tmp_path / "links.json"
    machines = ["{machine: one, ranks: 2, uplink: 200 Mbit/s}", "{machine: two, ranks: 1, uplink: 200 Mbit/s}"]
    cluster.write_text("children:\n" + "".join(f"  - {machine}\n" for machine in machines))
    peers = ["gloo", *(name for name in ("openmpi", "mpich") if installed(name))]
    words = ["all_reduce", "-b", "1M", "-e", "1M", "--algorithms", "ring,halving_doubling", "--paths", "engine"]
    lab = [sys.executable, "-m", "paceline", "lab", str(cluster), "--json", str(links), "--timeout", "150", "--"]
    effort = ["--rounds", "3", "--iterations", "1"]  # ranks of an MPI spin while they wait for the link
    line = [*lab, *command(*words, *effort, "--against", ",".join(peers), "--json", str(file))]
    done = subprocess.run(line, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    assert {text.partition(" | ")[0] for text in done.stdout.splitlines()} == {"one"}
    rows = json.loads(file.read_text())
    check_rows(rows, 2 + len(peers))
    assert [row["asked"] for row in rows] == ["ring", "halving_doubling"] + ["default"] * len(peers)
    for row in rows:
        assert (row["ranks"], row["machines"]) == (3, 2)
        assert 0.5 < row["link_efficiency"] < 1
        # Whatever the algorithm: all of it leaves each machine's ranks once and comes back to them once.
        for name in ("one", "two"):
            assert row["bytes_per_link"][name]["up"] > row["bytes"] * 0.95
            assert row["bytes_per_link"][name]["down"] > row["bytes"] * 0.95
        assert row["bound_us"] * 1e-6 == pytest.approx(row["bytes"] / 25e6 / row["link_efficiency"], rel=0.01)
        assert row["time_us"] > 0.9 * row["bound_us"]
    assert [link["name"] for link in json.loads(links.read_text())] == ["one", "two"]


@pytest.mark.needs("a lab")
def test_a_lab_says_how_many_ranks_there_are(tmp_path):
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("children: [{machine: one, ranks: 2, uplink: 1 Gbit/s}]\n")
    lab = [sys.executable, "-m", "paceline", "lab", str(cluster), "--"]
    done = subprocess.run([*lab, *command("all_reduce", "-n", "4")], capture_output=True, text=True, timeout=150)
    assert done.returncode == 2
    assert "the lab has 2 ranks" in done.stderr


def installed(peer):
    try:
        return bool(systems.peer(peer, Path(sys.prefix)))
    except systems.Missing:
        return False
