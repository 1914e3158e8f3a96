"""One stage of a model: some of its calls, with what comes in and goes out as tensors that can be sent."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx, nn

from paceline.torch.partitioned import random_state
from paceline.torch.partitioned.activation_file import ActivationFile
from paceline.torch.partitioned.chain import values
from paceline.torch.partitioned.graph import Graph
from paceline.torch.partitioned.part import Part
from paceline.torch.partitioned.profile import Profile
from paceline.torch.partitioned.recompute import recomputed
from paceline.torch.partitioned.segments import Segment
from paceline.torch.partitioned.values import Value, sendable
from paceline.torch.partitioned.values import received as received_as

_STATE = Value("tensor", "uint8", (0,), (random_state.BYTES,))
_SEED = Value("tensor", "int64", (0,), (1,))


class StageModule(nn.Module):
    """Some calls of a model, as a module that takes and returns tensors alone.

    Torch's schedules detach in place what it returns: it is neither a view, nor kept for a backward.

    segments: these calls, and what becomes of their activations. file: for those that are kept in one.

    received, sent: what it takes, and what it sends to the next stage; nothing if it is the last. results: how many
    tensors it returns. random: whether it takes a seed or a state of the generator, the last argument. splits: whether
    torch can make the gradients of its inputs first and those of its weights later.
    """

    def __init__(
        self, graph: Graph, profile: Profile, segments: Sequence[Segment], file: ActivationFile | None = None
    ) -> None:
        super().__init__()
        begin, end = segments[0].begin, segments[-1].end
        known = values(graph, profile)
        first, last = begin == 0, end == len(graph.calls)
        takes = graph.inputs if first else graph.crossing(begin)
        gives = graph.returned if last else graph.crossing(end)
        self.results = len(gives)
        self._flows = [last or known[node.name].differentiable for node in gives]
        self._draws_later = any(call.random for call in profile.calls[end:])
        self.random = self._draws_later or any(call.random for call in profile.calls[begin:end])
        # The model's own inputs come as the user has them.
        self._takes = [replace(known[node.name], order=()) if first else known[node.name] for node in takes]
        self._gives = [known[node.name] for node in gives]
        state = _SEED if first else _STATE
        self.received = (*self._takes, *(state,) * self.random)
        sent = () if last else tuple(self._gives)
        self.sent = sent + (_STATE,) * (self._draws_later and not last)
        self.splits = first or _reached(graph, begin, end, {node for node in takes if known[node.name].differentiable})
        self._segments, self._file = segments, file
        self.parts = nn.ModuleList(
            Part(
                graph,
                profile,
                one.begin,
                one.end,
                takes if one.begin == begin else graph.crossing(one.begin),
                gives if one.end == end else graph.crossing(one.end),
            )
            for one in segments
        )

    def forward(self, *received: Tensor) -> tuple[Tensor, ...]:
        """Do the calls. received: as the values `received` say. Returns what `sent` says, or the model's results."""
        given = received[:-1] if self.random else received
        current: Sequence[Any] = [received_as(known, tensor) for known, tensor in zip(self._takes, given, strict=True)]
        with random_state.continued(received[-1]) if self.random else nullcontext() as draw:
            for part, segment in zip(self.parts, self._segments, strict=True):
                current = self._done(part, segment, current, given)
        sent = [_own(*each) for each in zip(self._gives, current, self._flows, strict=True)]
        if self._draws_later:
            assert draw is not None
            sent.append(draw.after)
        return tuple(sent)

    def _done(self, part: nn.Module, segment: Segment, taken: Sequence[Any], given: Sequence[Tensor]) -> Sequence[Any]:
        """Return the results of one of the parts. given: what the stage has received, which stays in memory anyway."""
        if segment.activations == "recompute" and torch.is_grad_enabled():
            return recomputed(part, taken, self.random)
        if segment.activations == "file":
            assert self._file is not None
            with self._file.saving((*part.parameters(), *part.buffers(), *given)):
                found: Sequence[Any] = part(*taken)
            return found
        kept: Sequence[Any] = part(*taken)
        return kept


def _reached(graph: Graph, begin: int, end: int, found: set[fx.Node]) -> bool:
    """Return whether every call with trained weights depends on one of these values, through which gradients come in.

    Torch finds the weights whose gradients it has put off on the ways from the results to the inputs; others, as those
    that are applied to a frozen layer's result, it would forget.
    """
    for call in graph.calls[begin:end]:
        if any(node in found for node in call.all_input_nodes):
            found.add(call)
        elif any(tensor.requires_grad for tensor in graph.tensors(call)):
            return False
    return True


class _Own(torch.autograd.Function):
    """The same elements as a tensor of its own: torch's schedules may detach it in place."""

    @staticmethod
    def forward(ctx: object, tensor: Tensor) -> Tensor:
        storage, offset = tensor.untyped_storage(), tensor.storage_offset()
        return torch.empty(0, dtype=tensor.dtype).set_(storage, offset, tensor.shape, tensor.stride())

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:
        return gradient


def _own(known: Value, result: Any, flows: bool) -> Tensor:
    """The result as a tensor of its own. flows: whether gradients come back for it."""
    tensor = sendable(known, result)
    own: Tensor = _Own.apply(tensor if flows else tensor.detach())  # type: ignore[no-untyped-call]
    return own
