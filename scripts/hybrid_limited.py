"""Train a model under a memory limit: by one rank alone, and in partitions of which each rank has the same limit.

Each rank is in a control group of its own (cgroup v1 or v2, as root), which holds all that its process needs, and whose
limit ends it. One rank alone that needs more is killed; the partitions compute again, or keep in a file, what does not
fit. Prints the ends, the most memory that the control groups have held and what was predicted, and removes the groups.
`--json` writes, for one rank alone and for the partitions, their exit code and for each rank the bytes that its group
held at most, those that it held before there was a partition, those that the partition was predicted to need, and those
of files that were read since: pages that nobody else had read before count for the group, and may be dropped.

    python scripts/hybrid_limited.py --model ResNet-1001 --batch 64 --limit 3G --partitions 2 --microbatches 8
"""

from __future__ import annotations

import argparse
import json
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
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    if _FOLDER in os.environ:
        return rank(asked)
    rows = []
    for ranks in ([1] if asked.alone else []) + [asked.partitions]:
        with ExitStack() as stack:
            groups = [
                stack.enter_context(group(f"hybrid-{os.getpid()}-{number}", asked.limit)) for number in range(ranks)
            ]
            command = [sys.executable, "-m", "paceline", "run", "-n", str(ranks), __file__, *sys.argv[1:]]
            done = subprocess.run(command, env={**os.environ, _FOLDER: ":".join(map(str, groups))})
            peaks = [most(each) for each in groups]
        rows.append({"ranks": ranks, "exit_code": done.returncode, "held": peaks, **_told(asked.json, ranks)})
        held = ", ".join(map(show_bytes, peaks))
        how = "in partitions" if ranks > 1 else "alone"
        print(f"{ranks} ranks {how}: exit code {done.returncode}; the groups held at most {held}", flush=True)
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=1) + "\n")
    return done.returncode


def _told(file: Path | None, ranks: int) -> dict[str, list[int]]:
    """What the ranks have written, each into a file of its own."""
    files = [Path(f"{file}.{number}") for number in range(ranks) if file is not None]
    found = [json.loads(one.read_text()) for one in files if one.is_file()]
    for one in files:
        one.unlink(missing_ok=True)
    return {key: [each[key] for each in found] for key in ("before", "predicted", "read")}


def rank(asked: argparse.Namespace) -> int:
    """Join a control group, and train."""
    number = int(os.environ["RANK"])
    groups = os.environ[_FOLDER].split(":")
    (Path(groups[number]) / "cgroup.procs").write_text(str(os.getpid()))
    import torch
    import torch.distributed as dist
    from torch.optim import Adam

    import paceline.torch
    from paceline_bench.ranks.partitioned_tasks import TASKS

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
    _load_everything()
    own = Path(groups[number])
    before, known = used(own), file_pages(own)
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
    if asked.json:
        needed, read = hybrid.prediction.memory[hybrid.partition], file_pages(own) - known
        told = {"before": before, "predicted": needed, "read": read}
        Path(f"{asked.json}.{number}").write_text(json.dumps(told))
    hybrid.close()
    dist.destroy_process_group()
    return 0


def _load_everything() -> None:
    """Let torch load and compile what it does so late, some 100 MiB, which are no matter of the model."""
    import torch
    from torch import nn

    import paceline.torch

    assert paceline.torch.hybrid
    few = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3))
    few(torch.ones(2, 3, 32, 32)).sum().backward()


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
    return _read(folder, "memory.max_usage_in_bytes", "memory.peak")


def used(folder: Path) -> int:
    """The bytes that the group holds, pages of files included."""
    return _read(folder, "memory.usage_in_bytes", "memory.current")


def file_pages(folder: Path) -> int:
    """The bytes of files' pages that the group holds, without memory that processes share."""
    found = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    return int(found.get("file", found.get("cache", 0))) - int(found.get("shmem", 0))


def _read(folder: Path, *names: str) -> int:
    """The number in the first file that there is, of version 1 or 2 of control groups."""
    return next((int((folder / name).read_text()) for name in names if (folder / name).is_file()), 0)


if __name__ == "__main__":
    sys.exit(main())
