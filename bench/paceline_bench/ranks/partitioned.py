"""A rank that trains a model alone, with DDP, or as a partition of it."""

from __future__ import annotations

import importlib
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Adam

from .partitioned_tasks import TASKS, Task, Tensors, samples, split
from .peak_memory import of_others, peak, settled
from .wire import Message

_SEED = 100
_WARM = 3
"""Steps after which what training needs has been allocated."""

Part = tuple[Tensors, Tensors, int, float]
"""Inputs and targets that are computed together, the seed of their random numbers, their share of the batch."""


class Trained(ABC):
    """One way to train a task on a batch, which all ranks together work on.

    predicted, needed: seconds of a step and bytes of the rank with the most; None if nothing predicts them. kept: the
    least share of a stage's activations that is kept in memory. shape: partitions, replicas, microbatches, schedule,
    and what is side by side in machines, if there are several of both.
    """

    shape: tuple[int, int, int, str, str | None]
    predicted: float | None = None
    needed: int | None = None
    kept: float = 1.0

    @abstractmethod
    def step(self) -> None:
        """Do forward and backward of the whole batch."""

    @abstractmethod
    def parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Yield what this rank trains, with the names of the whole model."""

    @abstractmethod
    def parts(self) -> Iterator[Part]:
        """Yield what the serial model has to compute, one after the other, to get the same gradients."""

    def close(self) -> None:  # noqa: B027 - most have nothing to leave
        """Leave groups."""


class Serial(Trained):
    """Rank 0 trains alone."""

    def __init__(self, task: Task, inputs: Tensors, targets: Tensors, options: dict[str, str]) -> None:
        self._task, self._model, self._inputs, self._targets = task, task.new(), inputs, targets
        self._here = dist.get_rank() == 0
        self.shape = (1, 1, 1, "none", None)

    def step(self) -> None:
        """Do forward and backward of the whole batch on rank 0."""
        torch.manual_seed(_SEED)
        if self._here:
            self._task.loss_of(self._model, self._inputs, self._targets).backward()  # type: ignore[no-untyped-call]

    def parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Yield all parameters on rank 0."""
        yield from self._model.named_parameters() if self._here else ()

    def parts(self) -> Iterator[Part]:
        """Yield the batch."""
        yield self._inputs, self._targets, _SEED, 1.0


class Replicas(Trained):
    """Torch's DDP over Paceline."""

    def __init__(self, task: Task, inputs: Tensors, targets: Tensors, options: dict[str, str]) -> None:
        rank, self._size = dist.get_rank(), dist.get_world_size()
        self._inputs, self._targets = inputs, targets
        self._own = [split(one, self._size)[rank] for one in (inputs, targets)]
        self._task, self._seed = task, _SEED + rank
        self._model = DistributedDataParallel(task.new())
        self.shape = (1, self._size, 1, "DDP", None)

    def step(self) -> None:
        """Do forward and backward of this rank's part."""
        torch.manual_seed(self._seed)
        inputs, targets = self._own
        self._task.loss_of(self._model, inputs, targets).backward()  # type: ignore[no-untyped-call]

    def parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Yield all parameters."""
        yield from self._model.module.named_parameters()

    def parts(self) -> Iterator[Part]:
        """Yield the ranks' parts."""
        for rank in range(self._size):
            inputs, targets = (split(one, self._size)[rank] for one in (self._inputs, self._targets))
            yield inputs, targets, _SEED + rank, 1 / self._size


class Partitions(Trained):
    """`paceline.torch.hybrid`."""

    def __init__(self, task: Task, inputs: Tensors, targets: Tensors, options: dict[str, str]) -> None:
        asked: dict[str, Any] = {"partitions": "auto"}
        example = inputs
        if options["partitions"] != "auto":
            asked = {name: int(options[name]) for name in ("partitions", "replicas", "microbatches")}
            example = split(inputs, asked["replicas"])[0]
        asked |= {"memory": options["memory"] or None, "activations": options["activations"]}
        make = importlib.import_module("paceline.torch").hybrid
        self._model = make(task.new(), example, task.loss, schedule=options["schedule"], **asked)
        self._inputs, self._targets = inputs, targets
        self._replicas, self._seed = self._model.replicas, _SEED + self._model.replica
        self._own = [split(one, self._replicas)[self._model.replica] for one in (inputs, targets)]
        found = self._model.prediction
        self._microbatches = found.shape.microbatches
        places = found.shape.layout
        side = places.side_by_side if places.partitions > 1 and places.replicas > 1 else None
        self.shape = (places.partitions, places.replicas, self._microbatches, found.shape.schedule.name, side)
        self.predicted, self.needed = found.seconds, max(found.memory)
        self.kept = min(stage.kept for stage in found.stages)

    def step(self) -> None:
        """Do a step of the pipeline."""
        torch.manual_seed(self._seed)
        self._model.step(*self._own)

    def parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Yield those of this rank's partition."""
        yield from self._model.named_parameters()

    def parts(self) -> Iterator[Part]:
        """Yield the microbatches of all replicas."""
        for replica in range(self._replicas):
            torch.manual_seed(_SEED + replica)
            seeds = torch.randint(1 << 62, (self._microbatches,)).tolist()
            own = (split(one, self._replicas)[replica] for one in (self._inputs, self._targets))
            pieces = zip(*(split(one, self._microbatches) for one in own), strict=True)
            for (inputs, targets), seed in zip(pieces, seeds, strict=True):
                yield inputs, targets, seed, samples(inputs) / samples(self._inputs)

    def close(self) -> None:
        """Leave the pipeline's groups."""
        self._model.close()


METHODS: dict[str, type[Any]] = {"serial": Serial, "ddp": Replicas, "hybrid": Partitions}


class Partitioned:
    """One way to train one task. The ranks meet at the start, and do all the rest when they are asked to."""

    def __init__(self, options: dict[str, str], timeout: float) -> None:
        torch.set_num_threads(1)
        paceline = importlib.import_module("paceline.torch")
        dist.init_process_group("paceline", timeout=timedelta(seconds=timeout))
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self._in_arena = paceline.empty(1)
        self.about = f"{options['method']} with torch {torch.__version__}"
        self._options = options

    def do_build(self) -> Message:
        """Make the model, train some steps, and return the shape, what is predicted, and the peak of memory.

        The peak is beyond what the process had once torch had trained something, without the model. What it reads of
        other ranks' arenas counts as theirs.
        """
        task, options = TASKS[self._options["model"]], self._options
        torch.manual_seed(_SEED)
        self._task, (inputs, targets) = task, task.data(int(options["batch"]))
        few = max(1, samples(inputs) // 2)
        _load_everything(task, *(split(one, few)[0] for one in (inputs, targets)))
        without = settled() - of_others(self._in_arena.data_ptr())
        self._trained: Trained = METHODS[options["method"]](task, inputs, targets, options)
        parameters = [parameter for _, parameter in self._trained.parameters()]
        self._optimizer = Adam(parameters, 1e-4, fused=True) if parameters else None
        settled()
        for _ in range(_WARM):
            self._step()
        trained = self._trained
        return {
            "shape": trained.shape,
            "predicted": trained.predicted,
            "needed": trained.needed,
            "kept": trained.kept,
            "peak": peak() - of_others(self._in_arena.data_ptr()) - without,
        }

    def do_check(self) -> Message:
        """Return the largest error of a gradient: the norm of the difference to the serial one, over its norm.

        The serial model has the weights of the start, so they are set to these.
        """
        own = dict(self._trained.parameters())
        whole = dict(self._task.new().named_parameters())
        with torch.no_grad():
            for name, parameter in own.items():
                parameter.copy_(whole[name])
                parameter.grad = None
        self._trained.step()
        expected = _gradients(self._task, self._trained.parts()) if own else {}
        errors = [_error(parameter.grad, expected[name]) for name, parameter in own.items()]
        return {"worst": max(errors, default=0.0)}

    def do_train(self, steps: int) -> Message:
        """Make one untimed step and `steps` timed ones; return wall and CPU seconds of the latter."""
        self._step()
        dist.barrier()
        cpu, begin = time.process_time(), time.perf_counter()
        for _ in range(steps):
            self._step()
        seconds, cpu_seconds = time.perf_counter() - begin, time.process_time() - cpu
        return {"seconds": seconds, "cpu_seconds": cpu_seconds}

    def close(self) -> None:
        """Leave the process group."""
        if hasattr(self, "_trained"):
            self._trained.close()
        dist.destroy_process_group()

    def _step(self) -> None:
        for _, parameter in self._trained.parameters():
            parameter.grad = None
        self._trained.step()
        if self._optimizer is not None:
            self._optimizer.step()


def _load_everything(task: Task, inputs: Tensor, targets: Tensor) -> None:
    """Let torch import and compile what it does so late: some 100 MiB, which are no matter of the model."""
    _gradients(task, [(inputs, targets, 0, 1.0)])
    few = nn.Parameter(torch.zeros(1))
    few.grad = torch.zeros(1)
    Adam([few], fused=True).step()
    assert importlib.import_module("paceline.torch").hybrid


def _gradients(task: Task, parts: Iterator[Part] | Sequence[Part]) -> dict[str, Tensor | None]:
    """The serial model's gradients of the mean over all parts."""
    model = task.new()
    for inputs, targets, seed, share in parts:
        torch.manual_seed(seed)
        (task.loss_of(model, inputs, targets) * share).backward()  # type: ignore[no-untyped-call]
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def _error(found: Tensor | None, expected: Tensor | None) -> float:
    if found is None or expected is None:
        return 0.0 if found is expected else float("inf")
    norm = float(expected.norm())
    return float((found - expected).norm()) / norm if norm else float(found.norm())
