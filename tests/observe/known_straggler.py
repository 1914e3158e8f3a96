"""A rank of a job in which one rank is late for a reason that the program knows, and when it called each time.

Arguments: a JSON object with the fields of `straggler_truth.Case`, and the folder to which each rank writes when it was
ready to exchange the data of each step, and how long it computed and waited for its input, by its own clock.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

USUAL, VARIES = 0.020, 0.004
"""Seconds that each rank computes in a step, and by how much more it is, at random."""


@dataclass
class Seen:
    """What a rank has done in each step, in ns of CLOCK_MONOTONIC, which all machines of a test share."""

    wall_ns: int = 0
    ready: list[int] = field(default_factory=list)
    computed: list[int] = field(default_factory=list)
    input: list[int] = field(default_factory=list)


class Rank:
    def __init__(self, case: dict[str, Any], rank: int, folder: Path) -> None:
        self.case, self.rank, self.folder = case, rank, folder
        self.seen = Seen(time.time_ns() - time.monotonic_ns())
        self.chance = random.Random(1000 * case["seed"] + rank)
        self.begun = time.monotonic_ns()

    @property
    def late(self) -> bool:
        return bool(self.rank == self.case["late"])

    def begin(self) -> None:
        """The input of a step is there."""
        self.begun = time.monotonic_ns()

    def compute(self) -> None:
        more = self.case["seconds"] if self.late and self.case["cause"] == "computes" else 0.0
        time.sleep(USUAL + VARIES * self.chance.random() + more)

    def ready(self) -> None:
        """Everything of a step is submitted now."""
        now = time.monotonic_ns()
        self.seen.ready.append(now)
        self.seen.computed.append(now - self.begun)

    @contextmanager
    def input(self) -> Iterator[None]:
        before = time.monotonic_ns()
        yield
        self.seen.input.append(time.monotonic_ns() - before)

    def look(self, step: int) -> None:
        """On the first rank, have `top` take a picture of the later steps."""
        if self.rank == 0 and self.case["top"] and step == self.case["steps"] // 3:
            with (self.folder / "top.json").open("w") as file:
                words = ["-m", "paceline", "top", "--once", "--json", "--interval", "1", "--pid", str(os.getpid())]
                self.top = subprocess.Popen([sys.executable, *words], stdout=file)

    def end(self) -> None:
        """Before the last barrier, in which the others can be asked."""
        if self.rank == 0 and self.case["top"]:
            self.top.wait(120)
        if self.rank == 0 and (port := os.environ.get("PACELINE_METRICS")):
            asked = urllib.request.Request(f"http://127.0.0.1:{port}/metrics")
            asked.add_header("Authorization", f"Bearer {os.environ['PACELINE_METRICS_TOKEN']}")
            with urllib.request.urlopen(asked, timeout=60) as page:
                (self.folder / "metrics.txt").write_bytes(page.read())
        (self.folder / f"truth-{self.rank}.json").write_text(json.dumps(vars(self.seen)))


def raw(case: dict[str, Any], folder: Path, named: bool) -> None:
    import numpy as np

    import paceline

    group = paceline.init()
    me = Rank(case, group.rank, folder)
    array = np.ones(case["count"], np.float32)
    if named:
        from paceline.coordinate import Span, coordinator

        agreed = coordinator(group)
    for step in range(case["steps"]):
        me.begin()
        me.compute()
        me.look(step)
        me.ready()
        if named:
            agreed.all_reduce("gradient", Span.of(array), "avg", shape=array.shape).wait()
        else:
            group.all_reduce(array, "avg")
    me.end()
    group.barrier()
    if named:
        agreed.close()
    group.close()


def training(case: dict[str, Any], folder: Path, face: str) -> None:
    import torch
    from torch import nn

    rank = int(os.environ["RANK"])
    me = Rank(case, rank, folder)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    width = int(case["count"] ** 0.5)
    model: nn.Module = nn.Linear(width, width, bias=False)

    class Samples(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return int(case["steps"] * len(case["places"]))

        def __getitem__(self, number: int) -> Any:
            if me.late and case["cause"] == "input":
                time.sleep(USUAL + case["seconds"])
            return torch.ones(width)

    def optimizer_of(parameters: Any) -> Any:
        return torch.optim.SGD(parameters, 1e-3)

    if face == "horovod":
        import paceline.horovod.torch as hvd

        hvd.init()
        optimizer = hvd.DistributedOptimizer(optimizer_of(model.parameters()), model.named_parameters())
    else:
        torch.distributed.init_process_group("paceline")
        if face == "buckets":
            from paceline.torch import GradientBuckets

            GradientBuckets(model)
        else:
            model = nn.parallel.DistributedDataParallel(model)
        optimizer = optimizer_of(model.parameters())
    from paceline.torch.data import Loader

    loader = iter(Loader(Samples(), batch_size=len(case["places"]), num_workers=1))
    for step in range(case["steps"]):
        with me.input():
            batch = next(loader)
        me.begin()
        optimizer.zero_grad()
        loss = model(batch).sum()
        me.compute()
        me.look(step)
        me.ready()
        loss.backward()
        optimizer.step()
    me.end()
    if face == "horovod":
        hvd.allreduce(torch.ones(1), name="end")
        hvd.shutdown()
    else:
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


def main() -> None:
    case, folder = json.loads(sys.argv[1]), Path(sys.argv[2])
    if case["face"] in ("raw", "named"):
        raw(case, folder, case["face"] == "named")
    else:
        training(case, folder, case["face"])


main()
