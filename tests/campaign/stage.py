"""Runs one trial: starts its ranks, does to them what they do not do themselves, and waits for their ends."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from jobs import RAW, TORCH, WarmJob, warm
from launched_ranks import LabRanks, Launched
from network import Network
from rank_loss import leftovers
from trials import FAULTS, PATIENCE, Trial
from warm_python import Forked
from watcher import Watcher

from paceline.launch import tree

MEMBER = Path(__file__).with_name("member.py")
NOTHING = Path(__file__).with_name("nothing.py")
STORE = Path(__file__).with_name("store.py")
DEADLINE = 60.0
"""Seconds that a trial gets beyond its own waits. Who still runs then hangs."""
LAUNCHING = 240.0
"""Seconds more where each rank is an interpreter of its own, which a launcher starts."""
DELAYS = "PACELINE_DELAYS"
"""The variable with the seed of the engine's delays, see engine/delays: each trial has others."""
GRACE = 10.0
"""Seconds in which what a job has started must have ended once its ranks have."""
SMALL_DISK = 256 << 10
"""Bytes."""


@dataclass
class Record:
    """What came of a trial. words: of each rank. codes: how each ended; None: it was ended because it hung."""

    words: list[list[dict[str, Any]]] = field(default_factory=list)
    codes: list[int | None] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    fault_at: float | None = None
    stacks: str = ""
    left: list[str] = field(default_factory=list)


class Ranks(Protocol):
    """As much of a job as a trial needs. What it has started has ended when the context is left."""

    processes: list[Any]
    mark: str

    def __enter__(self) -> Any: ...

    def __exit__(self, *raised: Any) -> None: ...


def deadline(trial: Trial) -> float:
    """Seconds from a trial's beginning in which its last rank must have ended."""
    waits = 2 * trial.timeout if trial.expected in ("silent", "cut", "either", "lost") else 0.0
    starts = LAUNCHING if FAULTS[trial.fault].place == "launcher" else 0.0
    return DEADLINE + starts + min(waits, 20.0) + trial.moment + trial.pause


def perform(trial: Trial, folder: Path, network: Network | None = None) -> Record:
    """Run the trial with its files in `folder`, which must exist. network: where a fault of a network happens."""
    record = Record()
    network = network if FAULTS[trial.fault].place == "network" else None
    with ExitStack() as stack:
        env = {
            **os.environ,
            "PACELINE_TIMEOUT": str(trial.timeout),
            "PACELINE_START_TIMEOUT": str(PATIENCE if _meets_well(trial) else trial.timeout),
        }
        if seed := os.environ.get(DELAYS):
            env[DELAYS] = str(1_000_003 * int(seed) + trial.seed)
        if trial.fault.startswith("full disk"):
            env["PACELINE_TRACE"] = str(stack.enter_context(full_disk(folder / "disk")))
        store = None
        if FAULTS[trial.fault].place == "store":
            store, port = stack.enter_context(_store(folder))
            env["CAMPAIGN_STORE"] = port
        job = _job(trial, folder, env, network)
        with job:
            _watch(trial, job, folder, record, store, network)
        ranks = {word["pid"] for words in record.words for word in words if word["what"] == "begins"}
        record.left += _left(job.mark, ranks) + leftovers(job)
    return record


def _meets_well(trial: Trial) -> bool:
    """Whether the ranks meet before anything happens. A store is needed for later groups, too."""
    return trial.phase != "meeting" and FAULTS[trial.fault].place != "store"


def prepare(imports: tuple[str, ...]) -> None:
    """Wait until the processes that ranks are forked from have imported what they need."""
    for number in (0, 1):
        warm(number, imports).start([str(NOTHING)], dict(os.environ)).wait(10 * DEADLINE)


def _job(trial: Trial, folder: Path, env: dict[str, str], network: Network | None) -> Ranks:
    argv = [str(MEMBER), json.dumps(asdict(trial))]
    ranks = folder / "ranks"
    ranks.mkdir()
    match FAULTS[trial.fault].place:
        case "network":
            assert network is not None
            return LabRanks(network, trial.machines, argv, env, ranks)
        case "launcher":
            return Launched(trial, argv, env, ranks)
    return WarmJob(len(trial.machines), argv, env, ranks, RAW if trial.face == "raw" else TORCH)


def _watch(
    trial: Trial, job: Ranks, folder: Path, record: Record, store: Forked | None, network: Network | None
) -> None:
    """Wait for the ranks' ends, undo what is to be undone, and end who hangs."""
    begun, ranks = time.monotonic(), folder / "ranks"
    end = begun + deadline(trial)
    watcher = Watcher(trial, job.processes, ranks, store, network)
    while any(process.poll() is None for process in job.processes):
        if watcher.look():
            break
        if time.monotonic() > end:
            hung = [process.pid for process in job.processes if process.poll() is None]
            record.stacks = "\n".join(map(stacks, hung))
            break
        time.sleep(0.003)
    codes = [process.poll() for process in job.processes]
    record.codes = codes if len(codes) == len(trial.machines) else [None] * len(trial.machines)
    for process in job.processes:
        process.kill()
    watcher.undo()
    everybody = range(len(trial.machines))
    record.words = [_said(ranks / f"rank-{rank}.out") for rank in everybody]
    record.errors = [_end_of(ranks / f"rank-{rank}.err") for rank in everybody]
    record.fault_at = watcher.acted or min(
        (word["at"] for words in record.words for word in words if word["what"] == "fault"), default=None
    )


def stacks(pid: int) -> str:
    """Where the threads of a process are."""
    command = ["gdb", "-p", str(pid), "-batch", "-nx", "-ex", "thread apply all bt 25"]
    try:
        shown = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError) as error:
        shown = str(error)
    kernel = []
    for task in sorted(Path(f"/proc/{pid}/task").glob("*")):
        with suppress(OSError):
            kernel.append(f"thread {task.name}: {(task / 'wchan').read_text()}")
    kept = [line for line in shown.splitlines() if line.startswith(("#", "Thread"))]
    return "\n".join([f"process {pid}", *kernel, *kept])


def _left(mark: str, ranks: set[int]) -> list[str]:
    """Processes of the job that do not end by themselves. Who was forked by a rank is in its process group."""
    end = time.monotonic() + GRACE
    while True:
        left = {process.pid for process in tree.members(mark, [])}
        for pid in (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()):
            with suppress(OSError):
                if os.getpgid(pid) in ranks and not _zombie(pid):
                    left.add(pid)
        if not left or time.monotonic() > end:
            return [f"process {pid}: {_command(pid)}" for pid in sorted(left)]
        time.sleep(0.05)


def _zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return ""


def _said(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines() if line.startswith("{") and line.endswith("}")]


def _end_of(file: Path) -> str:
    return file.read_text(errors="replace")[-3000:]


@contextmanager
def full_disk(folder: Path) -> Iterator[Path]:
    """A folder on a file system that is full."""
    folder.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK}", "tmpfs", str(folder)], capture_output=True
        ).returncode
    ):
        yield Path("/dev/full")  # as good as a file system that takes nothing
        return
    try:
        with suppress(OSError), (folder / "filler").open("wb") as file:
            file.write(bytes(2 * SMALL_DISK))
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@contextmanager
def _store(folder: Path) -> Iterator[tuple[Forked, str]]:
    """A process that holds torch's store, and the port where it answers."""
    out = folder / "store.out"
    process = warm(0, TORCH).start([str(STORE)], dict(os.environ), out, folder / "store.err")
    try:
        end = time.monotonic() + DEADLINE
        while not (text := out.read_text()).endswith("\n"):
            if process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"the store does not begin: {(folder / 'store.err').read_text()}")
            time.sleep(0.005)
        yield process, text.strip()
    finally:
        process.kill()
        process.wait(DEADLINE)
