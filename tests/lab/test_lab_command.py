"""`paceline lab` as a person meets it: real machines, real signals, deadlines. A job of `paceline run` in it is in
tests/tune/test_tune_lab.py."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from needs import skip_without

from paceline.lab.namespaces import existing

DEADLINE = 150.0
"""Seconds."""
CLUSTER = """
name: pair
children:
  - {machine: alpha, ranks: 1, uplink: 100 Mbit/s}
  - switch: rack
    uplink: 100 Mbit/s
    children:
      - {machine: beta, ranks: 2, uplink: 100 Mbit/s}
"""
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("PET_", "PACELINE_"))}
# Starts a helper in a session of its own; both write their pids, then sleep.
SLEEPER = """
import os, signal, subprocess, sys, time
helper = subprocess.Popen(["sleep", "600"], start_new_session=True)
name = os.path.join(sys.argv[1], os.uname().nodename)
with open(name + ".part", "w") as file:
    file.write(f"{os.getpid()} {helper.pid}")
os.rename(name + ".part", name + ".pids")
time.sleep(600)
"""
# The first machine listens for the other, which goes on until it is heard.
LISTENER = """
import os, socket, time
if os.environ["PET_NODE_RANK"] == "0":
    with socket.create_server(("alpha", 5000)) as server:
        print("heard", server.accept()[0].recv(9).decode())
else:
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("alpha", 5000), 5).sendall(os.uname().nodename.encode())
            break
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.02)
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    file = tmp_path / "pair.yaml"
    file.write_text(CLUSTER)
    return file


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "paceline", *map(str, words)]


def start(*words: object) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(command("lab", *words), stdout=pipe, stderr=pipe, text=True, env=ENVIRONMENT)


def lab(*words: object) -> subprocess.CompletedProcess[str]:
    """Runs it to its end, after which none of its namespaces may be there."""
    running = start(*words)
    try:
        out, err = running.communicate(timeout=DEADLINE)
    finally:
        running.kill()
    if os.geteuid() == 0:
        assert not namespaces(running)
    return subprocess.CompletedProcess(running.args, running.returncode, out, err)


def namespaces(running: subprocess.Popen[str]) -> list[str]:
    return [name for name in existing() if name.startswith(f"paceline-{running.pid}-")]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(true, what: str) -> None:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + DEADLINE
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def start_sleepers(cluster: Path) -> tuple[subprocess.Popen[str], list[int]]:
    """The command, and the pids of each machine's process and its helper."""
    running = start(cluster, "--", sys.executable, "-c", SLEEPER, cluster.parent)
    wait_until(lambda: len(list(cluster.parent.glob("*.pids"))) == 2, "the machines did not start")
    said = [file.read_text().split() for file in cluster.parent.glob("*.pids")]
    return running, [int(pid) for words in said for pid in words]


@pytest.mark.needs("a lab")
def test_every_machine_runs_the_command_with_its_environment(cluster: Path, tmp_path: Path) -> None:
    show = 'echo "$PET_NODE_RANK of $PET_NNODES: $PET_NPROC_PER_NODE at $PET_MASTER_ADDR"; echo "$0" >&2'
    done = lab(cluster, "--json", tmp_path / "links.json", "--", "sh", "-c", show, "said")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["alpha | 0 of 2: 1 at 10.77.0.1", "beta  | 1 of 2: 2 at 10.77.0.1"]
    assert {"alpha | said", "beta  | said"} < set(done.stderr.splitlines())
    links = json.loads((tmp_path / "links.json").read_text())
    assert [link["name"] for link in links] == ["alpha", "rack", "beta"]
    assert all(link["rate_up"] == link["rate_down"] == 12.5e6 for link in links)


@pytest.mark.needs("a lab")
def test_a_failing_machine_ends_the_lab_with_its_code(cluster: Path) -> None:
    done = lab(cluster, "--", "sh", "-c", '[ "$PET_NODE_RANK" = 0 ] && sleep 2 || exit 7')
    assert done.returncode == 7
    assert "first to fail: beta" in done.stderr


@pytest.mark.needs("a lab")
def test_it_ends_after_the_timeout(cluster: Path) -> None:
    done = lab(cluster, "--timeout", "1", "--", "sleep", "600")
    assert done.returncode == 124
    assert "stopped after 1 s" in done.stderr


@pytest.mark.needs("a lab")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_lab_leaves_nothing(cluster: Path, number: signal.Signals) -> None:
    running, pids = start_sleepers(cluster)
    running.send_signal(number)
    running.communicate(timeout=DEADLINE)
    assert running.returncode == 128 + number
    assert not [pid for pid in pids if alive(pid)]
    assert not namespaces(running)


@pytest.mark.needs("a lab")
def test_signals_end_a_lab_whose_output_nobody_reads(cluster: Path) -> None:
    reading, writing = os.pipe()
    words = command("lab", cluster, "--", "sh", "-c", "while :; do echo more; done")
    running = subprocess.Popen(words, stdout=writing, stderr=writing, env=ENVIRONMENT)
    try:
        wait_until(lambda: not select.select([], [writing], [], 0)[1], "the pipe is not full")
        running.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(1)  # its grace is 10 s
        running.send_signal(signal.SIGINT)
        assert running.wait(DEADLINE) == 128 + signal.SIGINT
    finally:
        running.kill()
        running.wait()
        os.close(reading)
        os.close(writing)
    assert not namespaces(running)


@pytest.mark.needs("a lab")
def test_a_killed_lab_leaves_nothing_either(cluster: Path) -> None:
    running, pids = start_sleepers(cluster)
    running.kill()
    running.communicate(timeout=DEADLINE)
    wait_until(lambda: not [pid for pid in pids if alive(pid)], "what the machines started goes on")
    wait_until(lambda: not namespaces(running), "its namespaces are still there")


@pytest.mark.needs("a lab")
def test_two_labs_at_once(cluster: Path) -> None:
    """Each knows its own machines alone, though their names and addresses are the same."""
    show = [sys.executable, "-c", LISTENER]
    both = [start(cluster, "--", *show) for _ in range(2)]
    for running in both:
        out, err = running.communicate(timeout=DEADLINE)
        assert running.returncode == 0, err
        assert "alpha | heard beta" in out.splitlines()
        assert not namespaces(running)


@pytest.mark.needs("a lab")
def test_a_command_that_is_not_there(cluster: Path) -> None:
    done = lab(cluster, "--", "no-such-command")
    assert done.returncode != 0
    assert "no-such-command" in done.stderr
    assert "Traceback" not in done.stderr


def test_where_its_counters_cannot_go_is_said_before_anything_is_made(cluster: Path) -> None:
    done = lab(cluster, "--json", "/nowhere/links.json", "--", "true")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "paceline lab: cannot write /nowhere/links.json: No such file or directory\n"


@pytest.mark.needs("a lab")
def test_a_lab_within_a_lab_is_refused(cluster: Path) -> None:
    done = lab(cluster, "--", *command("lab", cluster, "--", "true"))
    assert done.returncode == 2
    assert "a machine of a lab already" in done.stderr


def test_a_wrong_file_is_one_sentence_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text("name: wrong\nchildren:\n  - {machine: alpha, ranks: 2, uplink: fast}\n")
    done = lab(file, "--", "true")
    assert done.returncode == 2
    assert f"{file}:3" in done.stderr
    assert "Traceback" not in done.stderr
    missing = lab(tmp_path / "missing.yaml", "--", "true")
    assert missing.returncode == 2
    assert "missing.yaml" in missing.stderr


@pytest.mark.needs("a lab")
def test_links_get_the_queue_that_was_asked_for(cluster: Path) -> None:
    show = ["tc", "qdisc", "show", "dev", "eth0"]
    done = lab(cluster, "--queue", "200ms", "--discipline", "drop-tail", "--", *show)
    assert done.returncode == 0, done.stderr
    waits = [line for line in done.stdout.splitlines() if "bfifo" in line]
    assert len(waits) == 2
    assert all(f"limit {16_000 + 2_500_000}b" in line for line in waits)


@pytest.mark.parametrize("queue", ["0", "2 s", "long"])
def test_a_wrong_queue_is_one_sentence(cluster: Path, queue: str) -> None:
    done = lab(cluster, "--queue", queue, "--", "true")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("paceline lab: ")
    assert queue in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_without_root_it_is_one_sentence(cluster: Path) -> None:
    # In a user namespace of its own, root is an ordinary user who still owns its files.
    ordinary = ["unshare", "--user"] if os.geteuid() == 0 else []
    if ordinary:
        skip_without("user namespaces")
    words = [*ordinary, *command("lab", cluster, "--", "true")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE, env=ENVIRONMENT)
    assert done.returncode == 2
    assert "needs root; run the command with sudo" in done.stderr
