"""A model in partitions on several ranks and replicas of them, trained as if it were one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from paceline.torch.backend import PacelineProcessGroup
from paceline.torch.freed_memory import keep_freed_memory, return_freed_memory
from paceline.torch.partitioned import random_state
from paceline.torch.partitioned.activation_file import ActivationFile
from paceline.torch.partitioned.chain import values
from paceline.torch.partitioned.codecs import CutEncoding
from paceline.torch.partitioned.errors import HybridError, communication_errors
from paceline.torch.partitioned.fixed_for_good import FixedForGood
from paceline.torch.partitioned.forward import relay
from paceline.torch.partitioned.graph import Graph
from paceline.torch.partitioned.groups import Groups
from paceline.torch.partitioned.optimizer_state import OptimizerStates
from paceline.torch.partitioned.ownership import Entry, entries, keep_only, tensors
from paceline.torch.partitioned.partition import StageModule
from paceline.torch.partitioned.predicted.predict import Prediction
from paceline.torch.partitioned.profile import Profile
from paceline.torch.partitioned.replicas import StageGradients
from paceline.torch.partitioned.stage import Stage
from paceline.torch.partitioned.values import batch_size, received, sample_counts, split, tensors_of
from paceline.torch.partitioned.whole_state import gathered, take_over, take_over_first

Loss = Callable[[Any, Any], Tensor]


class Hybrid:
    """A model of which this rank trains a partition; `hybrid` makes it.

    prediction: what a step takes, and each partition needs. reason: why this shape was chosen, in one sentence.
    partitions, replicas: how many there are. partition, replica: those of this rank. ranks: which rank trains each
    partition, for each replica. cuts: the calls of the model's
    forward at which each stage ends, as names of the model's modules or functions.
    """

    def __init__(
        self,
        graph: Graph,
        found: Profile,
        prediction: Prediction,
        reason: str,
        loss: Loss,
        file: ActivationFile | None,
    ) -> None:
        shape, ends = prediction.shape, prediction.ends
        self.prediction, self.reason, self._file = prediction, reason, file
        self._model, self._graph, self._layout = graph.root, graph, shape.layout
        self._microbatches, self._loss, self._codecs = shape.microbatches, loss, shape.codecs
        self.partitions, self.replicas = self._layout.partitions, self._layout.replicas
        self.replica, self.partition = self._layout.place(dist.get_rank())
        self.ranks = [
            [self._layout.rank(replica, partition) for partition in range(self.partitions)]
            for replica in range(self.replicas)
        ]
        self._stage_ranks = shape.schedule.rank_of
        self._batch = shape.batch
        self._sizes = sample_counts(self._batch, self._microbatches)
        self._targets: list[Any] = []
        self._known = values(graph, found)
        self._entries = entries(graph, ends)
        self.cuts = [graph.names[end - 1] for end in ends]
        take_over_first(one for one, _ in tensors(graph.root).values())
        self._groups = Groups(self._layout, dist.get_rank(), self._shared())
        if prediction.short[self.partition]:
            return_freed_memory()
        else:
            keep_freed_memory(prediction.memory[self.partition])
        self._modules = {
            number: StageModule(graph, found, prediction.stages[number].segments, file)
            for number, rank in enumerate(self._stage_ranks)
            if rank == self.partition
        }
        self._random = self._modules[0].random if 0 in self._modules else False
        own = {each.identity for each in self._entries.values() if self.partition in self._partitions(each)}
        keep_only(graph.root, own)
        self._fixed = FixedForGood(graph, found.inputs, len(self._stage_ranks) == 1)
        self._tied: list[StageGradients] = []
        self._stages = self._make_stages()
        self._schedule = shape.schedule.make(self._stages, self._microbatches, self._loss_of)

    # -- training -------------------------------------------------------------------------------------------------

    def step(self, batch: Any = None, target: Any = None) -> float:
        """Do forward and backward of a batch, and return its loss: the mean over the samples of this replica's batch.

        Gradients are added to `p.grad` of this rank's parameters, as their mean over the replicas. batch: the model's
        input, or a tuple of several, whose first dimension is the batch; target: what the loss takes, a tensor or a
        tuple of some. The ranks of a replica pass the same; only those with the first stage use `batch`, and only those
        with the last use `target`. The others may pass neither if the batch has the size of the example.

        Raises HybridError if there are fewer samples than microbatches, if inputs have other shapes than the example's
        or attributes that the model's code reads have been changed, and what the model and the collectives raise.
        """
        self._fixed.check()
        inputs = tensors_of(batch) if batch is not None else ()
        if inputs:
            self._fixed.check_inputs(inputs)
        given = inputs or (tensors_of(target) if target is not None else ())
        self._resize(batch_size(given) if given else self._batch)
        first, last = 0 in self._modules, len(self._stage_ranks) - 1 in self._modules
        for concerned, here, stage, what in ((first, batch, "first", "batch"), (last, target, "last", "target")):
            if concerned and here is None:
                raise HybridError(f"rank {dist.get_rank()} has the {stage} stage and needs the {what}")
        arguments = inputs if first else ()
        if self._random:
            arguments = (*arguments, random_state.seeds(self._microbatches))
        for gradients in self._gradients:
            gradients.begin()
        losses: list[Tensor] = []
        numbers = torch.arange(self._microbatches)
        self._targets = split(target, self._microbatches) if last else []
        with communication_errors():
            self._schedule.step(*arguments, target=numbers if last else None, losses=losses, return_outputs=False)
        self._targets = []
        return self._finish(losses)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Steps in this context add this replica's gradients alone; the next step outside exchanges all of them."""
        for gradients in self._gradients:
            gradients.exchanged = False
        try:
            yield
        finally:
            for gradients in self._gradients:
                gradients.exchanged = True

    def _resize(self, batch: int) -> None:
        if batch < self._microbatches:
            raise HybridError(f"a batch of {batch} samples can't be divided into {self._microbatches} microbatches")
        self._sizes = sample_counts(batch, self._microbatches)
        for stage in self._stages:
            stage.resize(self._sizes)

    @property
    def _gradients(self) -> list[StageGradients]:
        return [*(stage.gradients for stage in self._stages), *self._tied]

    def _finish(self, losses: Sequence[Tensor]) -> float:
        for gradients in self._tied:
            gradients.begin_last()
            gradients.end_last()
        total = torch.zeros((), dtype=torch.float64)
        for loss in losses:
            total += loss.detach()
        dist.broadcast(total, group=self._groups.pipeline, group_src=self._stage_ranks[-1])
        for gradients in self._gradients:
            gradients.wait()
        return float(total)

    def _loss_of(self, outputs: tuple[Tensor, ...], number: Tensor) -> Tensor:
        """This microbatch's part of the mean over the batch."""
        index = int(number)
        loss = self._loss(self._graph.structured(self._returned(outputs)), self._targets[index])
        if loss.dim():
            raise HybridError(f"the loss must be a single number, found one of shape {list(loss.shape)}")
        return loss * (self._sizes[index] / sum(self._sizes))

    # -- the whole model ------------------------------------------------------------------------------------------

    def forward(self, *inputs: Tensor) -> Any:
        """Return the model's results for these inputs, without gradients; all ranks of the replica call and get them.

        The batch is not divided. In training mode random numbers continue those of torch's generator on the rank with
        the first stage.
        """
        self._fixed.check()
        self._fixed.check_inputs(inputs)
        samples = batch_size(inputs)
        with torch.no_grad():
            seed = random_state.seeds(1) if self._random else None
            given = (*inputs, seed) if seed is not None else inputs
            results = relay(self._modules, self._stage_ranks, self._groups.pipeline, given, samples)
            outputs = []
            for position, node in enumerate(self._graph.returned):
                value = self._known[node.name]
                if results is not None:
                    output = results[position]
                else:
                    output = torch.empty(value.sent_shape(samples), dtype=value.torch_dtype)
                dist.broadcast(output, group=self._groups.pipeline, group_src=self._stage_ranks[-1])
                outputs.append(output)
        return self._graph.structured(self._returned(outputs))

    def _returned(self, outputs: Sequence[Tensor]) -> list[Any]:
        """The values that the model returns, of which some are numbers."""
        nodes = self._graph.returned
        return [received(self._known[node.name], output) for node, output in zip(nodes, outputs, strict=True)]

    __call__ = forward

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Yield the parameters that this rank trains, with their names in the whole model."""
        yield from ((name, one) for name, one in self._model.named_parameters() if not one.is_meta)

    def parameters(self) -> Iterator[nn.Parameter]:
        """Yield the parameters that this rank trains, for its optimizer."""
        yield from (parameter for _, parameter in self.named_parameters())

    def zero_grad(self) -> None:
        """Set this rank's gradients to None."""
        for parameter in self.parameters():
            parameter.grad = None

    def train(self, mode: bool = True) -> None:
        """Set the model's modules to training, or to evaluation."""
        self._model.train(mode)

    def eval(self) -> None:
        """Set the model's modules to evaluation."""
        self.train(False)

    def state_dict(self) -> dict[str, Tensor]:
        """The whole model's state, as the model's own `state_dict`, on every rank. A collective of all ranks.

        Buffers, such as those of BatchNorm, are the first replica's.
        """
        return gathered(self._model.state_dict(), self._saved, self._owner)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over this rank's part of the whole model's state. Raises HybridError if it is of another model."""
        take_over(state, self._model.state_dict(), self._saved)

    def optimizer_state_dict(self, optimizer: Optimizer | None) -> dict[str, Any]:
        """The state of all ranks' optimizers, as `state_dict` of one for the whole model's parameters, on every rank.

        A collective of all ranks. optimizer: of this rank's `parameters()`; None if there are none. With several groups
        of parameters each rank's optimizer has all of them, in the same order; some may be empty.

        Raises HybridError if an optimizer is of another model or they differ in that, TypeError for a state that is
        neither a number nor of its parameter's shape.
        """
        return self._optimizer_states.whole(optimizer)

    def load_optimizer_state_dict(self, optimizer: Optimizer | None, state: Mapping[str, Any]) -> None:
        """Take over this rank's part of such a state, which may be from other partitions or none.

        A collective of all ranks, with the arguments of `optimizer_state_dict`. Raises HybridError if an optimizer is
        of another model, `state` is no optimizer's or its groups have other numbers of parameters.
        """
        part = self._optimizer_states.part(optimizer, state)
        if optimizer is not None:
            optimizer.load_state_dict(part)

    def residuals(self) -> dict[str, Tensor]:
        """Return the encoding residuals of this rank's gradients, flat, by the parameter's name; empty without a codec.

        Save it on every rank with the model.
        """
        return {name: part for gradients in self._gradients for name, part in gradients.residuals().items()}

    def load_residuals(self, state: Mapping[str, Tensor]) -> None:
        """Go on with what `residuals` returned on this rank, in this partitioning.

        Raises ValueError if a part is of another size.
        """
        for gradients in self._gradients:
            gradients.load_residuals(state)

    def reset_residuals(self) -> None:
        """Forget what encoding has lost on this rank, as after steps that were undone.

        What was lost in a step that an optimizer skipped is forgotten anyway, if it has made another step before.
        """
        for gradients in self._gradients:
            gradients.reset_residuals()

    def close(self) -> None:
        """Leave the process groups. Parameters and gradients stay as they are. A collective of all ranks."""
        for gradients in self._gradients:
            gradients.close()
        if self._file is not None:
            self._file.close()
        self._groups.close()

    @property
    def _optimizer_states(self) -> OptimizerStates:
        names = [name for name, _ in self._model.named_parameters()]
        return OptimizerStates(names, dict(self.named_parameters()), self._entries, self._owner)

    # -- making it ------------------------------------------------------------------------------------------------

    def _owner(self, entry: Entry) -> int:
        """The rank of which the whole model's state has this tensor."""
        return self._layout.rank(0, min(self._partitions(entry)))

    def _partitions(self, entry: Entry) -> frozenset[int]:
        return frozenset(self._stage_ranks[stage] for stage in entry.stages)

    @property
    def _saved(self) -> dict[str, Entry]:
        """The tensors of the model's state dict."""
        return {name: entry for name, entry in self._entries.items() if entry.saved}

    def _shared(self) -> set[frozenset[int]]:
        return {there for entry in self._entries.values() if len(there := self._partitions(entry)) > 1}

    def _make_stages(self) -> list[Stage]:
        of_stage: dict[int, dict[str, Tensor]] = {number: {} for number in self._modules}
        tied: dict[frozenset[int], dict[str, Tensor]] = {}
        for name, parameter in self.named_parameters():
            if parameter.requires_grad:
                entry = self._entries[name]
                if len(entry.stages) == 1:
                    of_stage[entry.stages[0]][name] = parameter
                else:
                    tied.setdefault(self._partitions(entry), {})[name] = parameter
        codec = self._codecs.gradients
        for partitions, parameters in sorted(tied.items(), key=lambda item: sorted(item[0])):
            group, first = self._groups.sharing(partitions), self.partition == min(partitions)
            self._tied.append(StageGradients(parameters, group, codec, len(partitions), first))
        alone = self._groups.sharing(frozenset([self.partition]))
        return [
            Stage(
                module,
                number,
                self._stage_ranks,
                self._sizes,
                self._groups.pipeline,
                StageGradients(of_stage[number], alone, codec),
                self._encoding(number - 1),
                self._encoding(number + 1),
            )
            for number, module in self._modules.items()
        ]

    def _encoding(self, neighbour: int) -> CutEncoding | None:
        """Return the encoding between this rank's stages and a neighbouring stage, or None."""
        if self._codecs.cuts is None or not 0 <= neighbour < len(self._stage_ranks):
            return None
        world = dist.group.WORLD
        assert isinstance(world, PacelineProcessGroup)
        there = self._layout.rank(self.replica, self._stage_ranks[neighbour])
        return CutEncoding(self._codecs.cuts) if world.machines[there] != world.machines[dist.get_rank()] else None
