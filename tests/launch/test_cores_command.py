"""`paceline run --cores`: where the threads of real ranks, and their input workers, really run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from launched import environment, paceline_run
from needs import skip_without

from paceline.cli.doctor.cpu import division
from paceline.cli.doctor.finding import Environment
from paceline.cpu.budget import physical_cores
from paceline.settings.settings import Settings

# Before it joins, a rank has a thread that its user bound (to the last CPU) and one that nobody did. Then it tells the
# affinity of each thread, of a forked and of a spawned input worker, and of its threads once Paceline was shut down.
RANK = """
import json, multiprocessing, os, pathlib, sys, threading
import paceline
from paceline.process.current import runtime

def allowed(task="self"):
    lines = pathlib.Path("/proc", str(os.getpid()), "task", str(task), "status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith("Cpus_allowed_list"))

def work(init, connection):
    init(3)
    connection.send(allowed(os.getpid()))

def note(worker):
    assert worker == 3

if __name__ == "__main__":
    folder, bound_to = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    ready, stop, tasks = threading.Barrier(3), threading.Event(), {}
    def sit(name):
        tasks[name] = threading.get_native_id()
        if name == "bound" and bound_to >= 0:
            os.sched_setaffinity(0, [bound_to])
        ready.wait()
        stop.wait()
    for name in ("bound", "free"):
        threading.Thread(target=sit, args=[name], daemon=True).start()
    ready.wait()
    group = paceline.init()
    group.barrier()
    tasks["main"] = os.getpid()
    tasks["engine"] = next(t.native_id for t in threading.enumerate() if t.name == "paceline-serve")
    facts = {name: allowed(task) for name, task in tasks.items()}
    for how in ("fork", "spawn"):
        context = multiprocessing.get_context(how)
        ours, theirs = context.Pipe()
        worker = context.Process(target=work, args=[paceline.worker_init(note), theirs])
        worker.start()
        facts[how] = ours.recv()
        worker.join()
    facts["OMP"] = os.environ.get("OMP_NUM_THREADS")
    group.barrier()
    runtime().close()
    facts["after"] = allowed(os.getpid())
    (folder / f"rank-{group.rank}.json").write_text(json.dumps(facts))
"""


def two_cores() -> tuple[int, int]:
    skip_without("two cores")
    cores = physical_cores(os.sched_getaffinity(0))
    return cores[0][0], cores[1][0]


@contextmanager
def only_on(cpus: Iterable[int]) -> Iterator[None]:
    """What is started meanwhile runs on these CPUs, as with taskset."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(cpus))
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def started(
    folder: Path, cpus: Iterable[int], *arguments: str, ranks: int = 1, bound_to: int = -1, **env: str
) -> tuple[list[dict[str, str]], str]:
    """Runs the ranks on these CPUs; what each told, and what stderr said."""
    program = folder / "rank.py"
    program.write_text(RANK)
    words = ("--direct", "-n", str(ranks), *arguments, program, folder, str(bound_to))
    with only_on(cpus):
        process = paceline_run(*words, env=environment(**env))
    _, said = process.communicate(timeout=250)
    assert process.returncode == 0, said
    return [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(ranks)], said


def test_static(tmp_path: Path) -> None:
    first, second = two_cores()
    [facts], said = started(tmp_path, (first, second), "--cores", "static", bound_to=second)
    compute, other = str(first), str(second)
    assert facts == {
        "main": compute,
        "free": compute,
        "bound": other,
        "engine": other,
        "fork": other,
        "spawn": other,
        "OMP": "1",
        "after": ",".join((compute, other)) if second > first + 1 else f"{first}-{second}",
    }
    assert said.count("paceline: rank 0 on ") == 1
    assert f"cores: engine {other}, input {other}, compute {compute} (2 cores; the engine, which mostly" in said
    assert "OMP_NUM_THREADS=1; threads that were bound elsewhere stay there: 1" in said
    assert "threads: 1 per rank (--cores)" in said


def test_adaptive(tmp_path: Path) -> None:
    first, second = two_cores()
    [facts], said = started(tmp_path, (first, second), "--cores=adaptive")
    assert facts["main"] == facts["free"] == facts["bound"] == facts["after"]
    assert facts["engine"] == facts["fork"] == str(second) != facts["main"]
    assert facts["OMP"] == "2" and "while it sleeps, compute uses the engine's too" in said


def test_off_and_unset_touch_nothing(tmp_path: Path) -> None:
    cpus = two_cores()
    for arguments in ((), ("--cores", "off")):
        [facts], said = started(tmp_path, cpus, *arguments)
        assert len({value for name, value in facts.items() if name != "OMP"}) == 1
        assert "paceline: rank 0 on" not in said


def test_explicit_parts_for_two_ranks(tmp_path: Path) -> None:
    first, second = two_cores()
    wish = f"engine={first},compute={second};engine={second},input={first}"
    facts, said = started(tmp_path, (first, second), "--cores", wish, ranks=2)
    assert [one["engine"] for one in facts] == [str(first), str(second)]
    assert facts[0]["main"] == facts[0]["fork"] == str(second), "no input part: workers stay with compute"
    assert facts[1]["spawn"] == str(first) and facts[1]["main"] == facts[1]["after"]
    assert "(as you said)" in said


def test_more_ranks_than_cores_are_left_to_the_kernel(tmp_path: Path) -> None:
    facts, said = started(tmp_path, two_cores(), "--cores", "static", ranks=2)
    assert len({value for one in facts for name, value in one.items() if name != "OMP"}) == 1
    assert "cores: nothing is pinned (2 ranks share 2 cores, and a rank needs two to be divided" in said


def test_the_users_own_settings_stay(tmp_path: Path) -> None:
    first, second = two_cores()
    settings = {"OMP_NUM_THREADS": "7", "GOMP_CPU_AFFINITY": str(second), "PACELINE_CORES": "static"}
    [facts], said = started(tmp_path, (first, second), **settings)
    assert facts["OMP"] == "7" and facts["main"] == facts["after"]
    assert facts["engine"] == str(second)
    assert "OMP_NUM_THREADS=7; compute stays as GOMP_CPU_AFFINITY says" in said


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--cores", "fast"], "--cores='fast' should be one of static, adaptive, off"),
        (["--cores", "engine=9999"], "CPU 9999 cannot be used here: the affinity"),
        (["--cores", "static", "--pin"], "--pin and --cores don't go together"),
    ],
)
def test_refusals(words: list[str], complaint: str) -> None:
    process = paceline_run("--direct", "-n", "1", *words, "sh", "-c", "true")
    _, said = process.communicate(timeout=150)
    assert process.returncode == 2 and complaint in said and said.startswith("paceline run: ")


def test_the_doctor_knows() -> None:
    first, second = two_cores()
    for env, value in (({}, "not divided"), ({"PACELINE_CORES": "static"}, f"compute {first}")):
        with only_on((first, second)):
            finding = division(Environment(env, Settings.from_environment(env)))
        assert value in finding.value
        assert f"engine {second}, input {second}, compute {first}" in finding.value + finding.reason


# torch's pool exists before the rank joins, with a size that its user chose.
TORCH_RANK = """
import json, os, pathlib, sys
import torch
import paceline

class Where(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        return sorted(os.sched_getaffinity(0))

torch.set_num_threads(3)
torch.ones(1 << 20).mul_(2)
pool = {int(task) for task in os.listdir("/proc/self/task")} - {os.getpid()}
group = paceline.init()
loader = torch.utils.data.DataLoader(
    Where(), batch_size=None, num_workers=2, worker_init_fn=paceline.worker_init(), multiprocessing_context="fork"
)
print(json.dumps({
    "pool": [sorted(os.sched_getaffinity(task)) for task in pool],
    "threads": torch.get_num_threads(),
    "workers": [list(map(int, where)) for where in loader],
}))
"""


def test_torchs_threads_and_input_workers(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    first, second = two_cores()
    (tmp_path / "rank.py").write_text(TORCH_RANK)
    command, env = [sys.executable, str(tmp_path / "rank.py")], environment(PACELINE_CORES="static")
    with only_on((first, second)):
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert len(facts["pool"]) >= 2 and all(where == [first] for where in facts["pool"])
    assert facts["threads"] == 3, "the program's own choice"
    assert facts["workers"] == [[second]] * 4
    assert "set OMP_NUM_THREADS=1 (paceline run does)" in done.stderr
