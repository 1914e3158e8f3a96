"""Print how exactly models in partitions and replicas train as the whole model does.

Each shape is a job of its own. In each, for every model, schedule and dtype, rank 0 also trains the whole model on the
same microbatches, one after the other, by SGD with momentum. Errors are relative to each tensor's largest element, and
the largest of all tensors counts: of the gradients of the first step, when weights are equal, and of the weights after
all steps. "loss" is the largest relative difference of a step's loss; `--json` writes both curves.

Later steps differ by more than rounding where a model magnifies it, as BatchNorm does, and ReLU where its input is as
small as rounding: float64 tells that from a mistake.

    python scripts/hybrid_exactness.py --steps 2 --json exact.json
    python scripts/hybrid_exactness.py --models ResNet-20,"small U-Net" --shapes 2x1,2x2 --schedules 1F1B --steps 200
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from paceline_bench.ranks.partitioned_tasks import Task

SCHEDULES = ("1F1B", "GPipe", "Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV")
SHAPES = "2x1,3x1,4x1,2x2,3x2,4x2"
MODELS = "ResNet-110,U-Net,transformer,two towers"
_SEED = 100
_BATCHES = 4
"""Different batches of each replica, which it sees again and again, so that there is something to learn."""


def main() -> int:
    """Start the jobs, or be a rank of one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=MODELS, help="also ResNet-1001, ResNet-20, small U-Net, small transformer")
    parser.add_argument("--shapes", default=SHAPES, help="partitions x replicas")
    parser.add_argument("--schedules", default=",".join(SCHEDULES))
    parser.add_argument("--dtypes", default="float32,float64")
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--batch", type=int, default=8, help="samples of a replica")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rank-of", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.rank_of:
        return rank(asked, *map(int, asked.rank_of.split("x")))
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for shape in asked.shapes.split(","):
            partitions, replicas = map(int, shape.split("x"))
            file = Path(folder) / f"{shape}.json"
            run = [sys.executable, "-m", "paceline", "run", "-n", str(partitions * replicas), __file__]
            subprocess.run([*run, *sys.argv[1:], "--rank-of", shape, "--json", str(file)], check=True)
            rows += json.loads(file.read_text())
            if asked.json:
                asked.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


def rank(asked: argparse.Namespace, partitions: int, replicas: int) -> int:
    """Train every model in every way; rank 0 prints a line and writes a row for each."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("paceline")
    tasks = all_tasks()
    rows: list[dict[str, Any]] = []
    for name in asked.models.split(","):
        for dtype in asked.dtypes.split(","):
            for schedule in asked.schedules.split(","):
                about = {"model": name, "partitions": partitions, "replicas": replicas, "dtype": dtype}
                found = trained(tasks[name], asked, about, schedule)
                rows.append({**about, "schedule": schedule, **found})
                if dist.get_rank() == 0:
                    figures = ", ".join(f"{key} {found[key]:.1e}" for key in ("gradients", "weights", "loss"))
                    print(f"{name}, {partitions} x {replicas}, {schedule}, {dtype}: {figures}", flush=True)
    if dist.get_rank() == 0:
        asked.json.write_text(json.dumps(rows))
    dist.destroy_process_group()
    return 0


def all_tasks() -> dict[str, Task]:
    """Return those of the benchmark, and small ones of the same kinds."""
    import torch

    from paceline_bench.ranks.models.decoder import Decoder
    from paceline_bench.ranks.models.small_images import UNet, deep_resnet
    from paceline_bench.ranks.partitioned_tasks import TASKS, Task

    text = TASKS["transformer"]

    def short(samples: int) -> Any:
        words = torch.randint(64, (samples, 16))
        return words, words.roll(-1, 1)

    return {
        **TASKS,
        "ResNet-20": Task(lambda: deep_resnet(20), TASKS["ResNet-110"].data),
        "small U-Net": Task(lambda: UNet(width=8), TASKS["U-Net"].data),
        "small transformer": Task(lambda: Decoder(4, 32, 2, tokens=16, words=64), short, text.loss),
    }


def trained(task: Task, asked: argparse.Namespace, about: dict[str, Any], schedule: str) -> dict[str, Any]:
    """Train in partitions, and on rank 0 the whole model beside it; return the errors and both losses of every step."""
    import torch
    import torch.distributed as dist
    from torch.utils._pytree import tree_map

    import paceline.torch

    dtype = getattr(torch, about["dtype"])

    def data(step: int, replica: int) -> Any:
        torch.manual_seed(_SEED * (step % _BATCHES) + replica)
        return tree_map(lambda one: one.to(dtype) if one.is_floating_point() else one, task.data(asked.batch))

    hybrid = paceline.torch.hybrid(
        task.new().to(dtype),
        data(0, 0)[0],
        task.loss,
        partitions=about["partitions"],
        replicas=about["replicas"],
        microbatches=asked.microbatches,
        schedule=schedule,
    )
    first = dist.get_rank() == 0
    whole = task.new().to(dtype)
    optimizers = [
        torch.optim.SGD(parameters, lr=0.01, momentum=0.9)
        for parameters in (list(hybrid.parameters()), list(whole.parameters()))
        if parameters
    ]
    gradients, losses, expected = 0.0, [], []
    for step in range(asked.steps):
        for optimizer in optimizers:
            optimizer.zero_grad()
        batches = [data(step, replica) for replica in range(about["replicas"])]
        torch.manual_seed(step)
        losses.append(hybrid.step(*batches[hybrid.replica]))
        if first:
            expected.append(serial(whole, task, batches, asked.microbatches, step))
        if step == 0:
            gradients = worst_gradient(hybrid, whole)
        for optimizer in optimizers:
            optimizer.step()
    state = hybrid.state_dict()
    weights = max(error(state[name], one) for name, one in whole.named_parameters()) if first else 0.0
    hybrid.close()
    apart = max((abs(one - other) / abs(other) for one, other in zip(losses, expected, strict=False)), default=0.0)
    return {"gradients": gradients, "weights": weights, "loss": apart, "losses": losses, "serial": expected}


def serial(whole: nn.Module, task: Task, batches: list[Any], microbatches: int, step: int) -> float:
    """Compute the whole model's gradients on all replicas' microbatches; return the first replica's loss.

    Its BatchNorm's statistics are those of the first replica, whose turn is the last.
    """
    import torch

    from paceline_bench.ranks.partitioned_tasks import samples, split

    total = 0.0
    for batch in reversed(batches):
        buffers = [buffer.clone() for buffer in whole.buffers()]
        inputs, targets = (split(one, microbatches) for one in batch)
        torch.manual_seed(step)
        seeds = torch.randint(1 << 62, (microbatches,)).tolist()
        total = 0.0
        for some, aims, seed in zip(inputs, targets, seeds, strict=True):
            torch.manual_seed(seed)
            loss = task.loss_of(whole, some, aims) * (samples(some) / samples(batch[0]))
            (loss / len(batches)).backward()  # type: ignore[no-untyped-call]
            total += loss.item()
        if batch is not batches[0]:
            for buffer, value in zip(whole.buffers(), buffers, strict=True):
                buffer.copy_(value)
    return total


def worst_gradient(hybrid: Any, whole: nn.Module) -> float:
    """Return the largest error of a gradient on any rank. whole: has the gradients on rank 0. A collective."""
    import torch
    import torch.distributed as dist

    own, worst = dict(hybrid.named_parameters()), torch.zeros(1, dtype=torch.float64)
    for name, parameter in whole.named_parameters():
        expected = parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)
        dist.broadcast(expected, 0)
        if name in own:
            found = own[name].grad
            worst = worst.maximum(
                torch.tensor(error(found if found is not None else torch.zeros_like(expected), expected))
            )
    dist.all_reduce(worst, dist.ReduceOp.MAX)
    return float(worst)


def error(found: Any, expected: Any) -> float:
    """Return the largest difference over the largest element."""
    scale = float(expected.detach().abs().max())
    return float((found - expected).detach().abs().max()) / (scale or 1.0)


if __name__ == "__main__":
    sys.exit(main())
