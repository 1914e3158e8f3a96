"""`hybrid`: from a model and what is asked for to this rank's part of it."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cache
from typing import Literal, get_args

import torch
import torch.distributed as dist
from torch import Tensor, nn

from paceline.calibration.torch import SPARED
from paceline.cpu.cgroup import read_file
from paceline.formats.sizes import parse_bytes
from paceline.torch.available_memory import available_memory
from paceline.torch.backend import PacelineProcessGroup
from paceline.torch.compat import PIPELINES, torch_version
from paceline.torch.partitioned.activation_file import ActivationFile
from paceline.torch.partitioned.agree import from_first_rank
from paceline.torch.partitioned.budget import Activations, Budget
from paceline.torch.partitioned.chain import chain
from paceline.torch.partitioned.codecs import Codecs
from paceline.torch.partitioned.crowds import clock_of
from paceline.torch.partitioned.cut import CannotCut
from paceline.torch.partitioned.errors import HybridError
from paceline.torch.partitioned.graph import Graph
from paceline.torch.partitioned.layout import Layout
from paceline.torch.partitioned.model import Hybrid, Loss
from paceline.torch.partitioned.predicted.decide import Decision, decide
from paceline.torch.partitioned.predicted.predict import predict
from paceline.torch.partitioned.predicted.shape import Shape, Wanted
from paceline.torch.partitioned.profile import Profile, profile
from paceline.torch.partitioned.proof import proved
from paceline.torch.partitioned.schedule import Schedule
from paceline.torch.partitioned.trace import trace
from paceline.torch.partitioned.update import Update, measured_update
from paceline.torch.partitioned.values import batch_size, tensors_of


def hybrid(
    model: nn.Module,
    example: Tensor | Sequence[Tensor],
    loss: Loss,
    *,
    partitions: int | Literal["auto"],
    replicas: int | None = None,
    microbatches: int | None = None,
    schedule: str = "1F1B",
    memory: int | str | None = None,
    activations: Activations = "recompute",
    gradient_codec: str | None = None,
    cut_codec: str | None = None,
) -> Hybrid:
    """Cut `model` into partitions, one for each rank of a replica, and train them by one of torch's pipeline schedules.

        model = paceline.torch.hybrid(Net(), example, loss, partitions=2, replicas=2, microbatches=8)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for batch, target in loader:
            optimizer.zero_grad()
            model.step(batch, target)
            optimizer.step()

    A collective of all ranks, which pass the same; parameters and buffers become rank 0's. Every rank measures each
    call of the model on a microbatch of `example`, all at the same time as they will train. By rank 0's figures the
    model is cut there where the slowest stage is fastest, with what it receives at the speed of its links, and where
    each stage fits into its rank's memory.

    example: the model's input, or several, for one batch of a replica. loss: of the model's output and a target, the
    mean over the samples. partitions: of a replica; "auto" finds the shape whose step is predicted to be quickest, with
    `example` as a batch of all replicas together, and `Hybrid.reason` says why. replicas: by default as many as there
    are ranks for. microbatches: by default as many as are predicted to be best. schedule: 1F1B, GPipe, Interleaved1F1B,
    LoopedBFS, InterleavedZeroBubble, ZBVZeroBubble or DualPipeV. memory: bytes that each rank may use, with the
    model, beyond what its process has anyway, as a number or as "3GiB"; by default what the machine and its control
    groups leave. activations: what becomes of those that do not fit: "recompute" computes them again in the backward,
    "file" keeps them in a file in the folder for temporary files (TMPDIR), "keep" refuses. gradient_codec: how
    replicas' gradients of float32 are encoded between machines, with error feedback; a name as in
    `paceline.Group.all_reduce`. cut_codec: how activations of float32 and their gradients are encoded between machines:
    bf16, fp16 or int8. `model` itself becomes part of the result: what other partitions train of it is freed.

    Each microbatch is computed as the whole model would compute it: BatchNorm takes the statistics of a microbatch, and
    random numbers are those of the whole model after `torch.manual_seed` with a seed that the first rank of the replica
    draws for it.

    Rank 0 proves on two samples of the example that the traced calls do what the model does: modules of which that is
    not so stay whole.

    Raises HybridError (a ValueError) if partitions × replicas is not the number of ranks, or the model can't be traced,
    or its own forward does what a trace can't see, or it can't be cut into so many stages that fit.
    """
    if torch_version() < PIPELINES:
        raise HybridError(
            f"hybrid needs torch {'.'.join(map(str, PIPELINES))} or a newer one, found {torch.__version__}"
        )
    world = dist.group.WORLD
    if not isinstance(world, PacelineProcessGroup):
        raise HybridError('hybrid needs torch.distributed.init_process_group("paceline") first')
    if elsewhere := next((one.device for one in model.parameters() if not one.is_cpu), None):
        raise HybridError(f"hybrid is for parameters on the CPU, found one on {elsewhere}")
    codecs = Codecs(gradient_codec, cut_codec)
    codecs.check()
    inputs = tensors_of(example)
    auto = partitions == "auto"
    wanted = Wanted(
        None if isinstance(partitions, str) else partitions,
        replicas,
        microbatches,
        schedule,
        batch_size(inputs),
        auto,
        codecs,
    )
    placement = world.placement
    clock = clock_of(placement, dist.get_rank())
    shapes = wanted.shapes(placement)
    graph = _graph(model, inputs)
    available = _Available(world, model) if memory is None else None
    budget, file = _budget(available.bytes() if available is not None else _asked(memory), activations)

    @cache
    def measured(samples: int) -> Profile:
        return profile(graph, inputs, samples, budget.memory, clock)

    update = cache(lambda: measured_update(budget.memory, clock))

    def measure() -> None:
        update()
        for samples in dict.fromkeys(shape.samples for shape in shapes):
            measured(samples)

    def decided() -> bytes:
        measure()
        left = (
            available.bytes() if available is not None else budget.memory
        )  # the profile has loaded and compiled things
        within = replace(budget, memory=min(budget.memory, left), update=update())
        try:
            decision = decide(shapes, lambda samples: chain(graph, measured(samples)), placement, within)
        except CannotCut as error:
            raise _refusal(model, shapes[-1], error) from error
        return _dump(decision, within, measured(decision.best.shape.samples))

    shape, ends, reason, left, taken, found = _load(from_first_rank(decided, measure), codecs)
    within = replace(budget, memory=left, update=taken)
    return Hybrid(graph, found, predict(chain(graph, found), shape, placement, ends, within), reason, loss, file)


def _graph(model: nn.Module, inputs: Sequence[Tensor]) -> Graph:
    """The model's calls, as rank 0 has proved them. A collective."""
    found: list[Graph] = []
    whole: set[type[nn.Module]] = set()

    def prove() -> bytes:
        found.append(proved(model, inputs, whole))
        return json.dumps(sorted(map(_class_name, whole))).encode()

    names = json.loads(from_first_rank(prove, lambda: None))
    if found:
        return found[0]
    return trace(model, len(inputs), {type(module) for module in model.modules() if _class_name(type(module)) in names})


def _class_name(kind: type[nn.Module]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _asked(memory: int | str | None) -> float:
    try:
        return float(parse_bytes(str(memory)))
    except ValueError as error:
        raise HybridError(f"memory: {error}") from None


def _budget(own: float, activations: Activations) -> tuple[Budget, ActivationFile | None]:
    """Return what each rank may use: the least of all memory, and the slowest of all files. A collective.

    own: bytes that this rank may use.
    """
    if activations not in get_args(Activations):
        raise HybridError(f"activations are one of {', '.join(get_args(Activations))}: found {activations!r:.80}")
    file, refusal = None, None
    try:
        file = ActivationFile() if activations == "file" else None
    except HybridError as error:
        refusal = error
    seconds = file.seconds_per_byte() if file is not None else 0.0
    least = torch.tensor([own, -seconds, refusal is None], dtype=torch.float64)
    dist.all_reduce(least, dist.ReduceOp.MIN)
    if refusal is not None:
        raise refusal
    if not least[2]:
        raise HybridError("another rank can't keep activations in a file")
    return Budget(float(least[0]), activations, file_seconds=-float(least[1])), file


class _Available:
    """The memory that this rank may use: its part of what its machine has left, and its control group. A collective."""

    def __init__(self, world: PacelineProcessGroup, model: nn.Module) -> None:
        machines, rank = world.machines, dist.get_rank()
        group = torch.tensor([zlib.crc32((read_file("/proc/self/cgroup") or "").encode())])
        groups = [torch.empty_like(group) for _ in machines]
        dist.all_gather(groups, group)
        places = [(machine, int(one)) for machine, one in zip(machines, groups, strict=True)]
        self._on_machine, self._in_group = machines.count(machines[rank]), places.count(places[rank])
        self._model = sum(parameter.nbytes for parameter in model.parameters())

    def bytes(self) -> float:
        """With the model, which is there already; some stays free, as predictions of memory are not exact."""
        found = available_memory()
        left = min(found.machine / self._on_machine, found.group / self._in_group)
        return self._model + (1 - SPARED) * left


def _refusal(model: nn.Module, shape: Shape, error: CannotCut) -> HybridError:
    schedule = shape.schedule
    return HybridError(
        f"{type(model).__name__} can't be cut into {schedule.stages} stages ({schedule.name} on "
        f"{shape.layout.partitions} partitions): {error}"
    )


def _dump(decision: Decision, within: Budget, found: Profile) -> bytes:
    shape = decision.best.shape
    head = {
        "layout": asdict(shape.layout),
        "schedule": shape.schedule.name,
        "microbatches": shape.microbatches,
        "batch": shape.batch,
        "ends": decision.best.ends,
        "reason": decision.reason,
        "memory": within.memory,
        "update": within.update,
    }
    return json.dumps(head).encode() + b"\n" + found.dump()


def _load(message: bytes, codecs: Codecs) -> tuple[Shape, list[int], str, float, Update, Profile]:
    first, _, rest = message.partition(b"\n")
    head = json.loads(first)
    places = Layout(**{**head["layout"], "ranks": tuple(head["layout"]["ranks"])})
    schedule = Schedule(head["schedule"], places.partitions)
    shape = Shape(places, schedule, head["microbatches"], head["batch"], codecs)
    return shape, head["ends"], head["reason"], head["memory"], Update(*head["update"]), Profile.load(rest)
