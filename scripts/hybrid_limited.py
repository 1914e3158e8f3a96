"""Train a model under a memory limit: by one rank alone, and in partitions of which each rank has the same limit.

Each rank is in a control group of its own (cgroup v1 or v2, as root), which holds all that its process needs, and whose
limit ends it. One rank alone that needs more is killed; the partitions compute again, or keep in a file, what does not
fit. Prints the ends, the most memory that the control groups have held and what was predicted, and removes the groups.

    python scripts/hybrid_limited.py --model ResNet-1001 --batch 64 --limit 3G --partitions 2 --microbatches 8
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from paceline.formats.sizes import parse_bytes, show_bytes

_V1, _V2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
_FOLDER = "PACELINE_SCRIPT_GROUPS"
"""An environment variable for the ranks: the folders of their groups."""


def main() -> int:
    """Train, or be a rank."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="ResNet-1001")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--limit", type=parse_bytes, default="3G")
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--activations", default="recompute")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--alone", type=int, default=1, help="0 leaves out one rank alone")
    asked = parser.parse_args()
    if _FOLDER in os.environ:
        return rank(asked)
    for ranks in ([1] if asked.alone else []) + [asked.partitions]:
        with ExitStack() as stack:
            groups = [
                stack.enter_context(group(f"hybrid-{os.getpid()}-{number}", asked.limit)) for number in range(ranks)
            ]
            command = [sys.executable, "-m", "paceline", "run", "-n", str(ranks), __file__, *sys.argv[1:]]
            done = subprocess.run(command, env={**os.environ, _FOLDER: ":".join(map(str, groups))})
            held = ", ".join(show_bytes(most(each)) for each in groups)
        how = "in partitions" if ranks > 1 else "alone"
        print(f"{ranks} ranks {how}: exit code {done.returncode}; the groups held at most {held}", flush=True)
    return done.returncode


def rank(asked: argparse.Namespace) -> int:
    """Join a control group, and train."""
    number = int(os.environ["RANK"])
    groups = os.environ[_FOLDER].split(":")
    (Path(groups[number]) / "cgroup.procs").write_text(str(os.getpid()))
    import torch
    import torch.distributed as dist
    from torch.optim import Adam

    import paceline.torch
    from paceline.bench.ranks.partitioned_tasks import TASKS

    torch.set_num_threads(1)
    dist.init_process_group("paceline")
    task = TASKS[asked.model]
    inputs, targets = task.data(asked.batch)
    torch.manual_seed(0)
    if len(groups) == 1:
        model = task.new()
        optimizer = Adam(model.parameters(), 1e-4, fused=True)
        for _ in range(asked.steps):
            optimizer.zero_grad()
            task.loss(model(inputs), targets).backward()
            optimizer.step()
        return 0
    hybrid = paceline.torch.hybrid(
        task.new(),
        inputs,
        task.loss,
        partitions=asked.partitions,
        microbatches=asked.microbatches,
        activations=asked.activations,
    )
    if number == 0:
        needs = ", ".join(map(show_bytes, hybrid.prediction.memory))
        print(f"{hybrid.reason}; partitions need {needs} beside their processes", flush=True)
    optimizer = Adam(hybrid.parameters(), 1e-4, fused=True)
    for step in range(asked.steps):
        begin, cpu = time.perf_counter(), time.process_time()
        optimizer.zero_grad()
        loss = hybrid.step(inputs, targets)
        optimizer.step()
        took, cpu = time.perf_counter() - begin, time.process_time() - cpu
        if number == 0:
            print(f"step {step}: loss {loss:.4f}, {took:.1f} s, {cpu:.1f} s of CPU time on rank 0", flush=True)
    hybrid.close()
    dist.destroy_process_group()
    return 0


@contextmanager
def group(name: str, limit: int) -> Iterator[Path]:
    """A control group with this limit of memory, in bytes, without swap."""
    folder = (_V1 if _V1.is_dir() else _V2) / name
    folder.mkdir()
    try:
        (folder / ("memory.limit_in_bytes" if _V1.is_dir() else "memory.max")).write_text(str(limit))
        yield folder
    finally:
        for pid in (folder / "cgroup.procs").read_text().split():
            os.kill(int(pid), signal.SIGKILL)
        while (folder / "cgroup.procs").read_text().strip():
            time.sleep(0.1)
        folder.rmdir()


def most(folder: Path) -> int:
    """The most bytes that the group has held, pages of files included."""
    for name in ("memory.max_usage_in_bytes", "memory.peak"):
        if (folder / name).is_file():
            return int((folder / name).read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
