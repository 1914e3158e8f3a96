"""A stage as torch's schedules drive it: microbatches may differ in size, and replicas hear of the last backward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.pipelining import PipelineStage

from paceline.torch.memory import empty
from paceline.torch.partitioned.codecs import CutEncoding
from paceline.torch.partitioned.partition import StageModule
from paceline.torch.partitioned.replicas import StageGradients
from paceline.torch.partitioned.values import Value

_CPU = torch.device("cpu")
_WITHOUT_AUTOCAST = torch.autocast("cpu", enabled=False)
"""A backward takes the dtypes of its forward."""


class Stage(PipelineStage):
    """The stage with this number. ranks: the rank in `group` of every stage. sizes: the samples of each microbatch.

    gradients: what exchanges its gradients as soon as the last microbatch's backward has made them. before, behind: how
    what crosses the cuts before and behind it is encoded; None for as it is.
    """

    def __init__(
        self,
        module: StageModule,
        number: int,
        ranks: Sequence[int],
        sizes: Sequence[int],
        group: dist.ProcessGroup | None,
        gradients: StageGradients,
        before: CutEncoding | None = None,
        behind: CutEncoding | None = None,
    ) -> None:
        self._before, self._behind = before, behind
        self._encoded: dict[str, list[tuple[CutEncoding, Tensor, Tensor]]] = {}
        self._sizes = list(sizes)
        self.gradients = gradients
        self._module = module
        received, sent = (_examples(values, sizes[0]) for values in (module.received, module.sent))
        if number == len(ranks) - 1:  # it sends nothing: of its results, torch only looks at how many there are
            sent = (torch.empty(0, device="meta"),) * module.results
        super().__init__(module, number, len(ranks), _CPU, received, sent, group=group)
        self.stage_index_to_group_rank = dict(enumerate(ranks))

    def resize(self, sizes: Sequence[int]) -> None:
        """From the next step on, microbatches have these sizes."""
        if list(sizes) != self._sizes:
            self._sizes = list(sizes)
            self._fit(self.args_recv_info, self._module.received)
            self._fit(self.grad_recv_info, self._module.sent)

    def _prepare_forward_infra(self, *args: Any, **kwargs: Any) -> Any:
        result = super()._prepare_forward_infra(*args, **kwargs)
        self._fit(self.args_recv_info, self._module.received, elsewhere=True)
        return result

    def _prepare_backward_infra(self, *args: Any, **kwargs: Any) -> Any:
        result = super()._prepare_backward_infra(*args, **kwargs)
        self._fit(self.grad_recv_info, self._module.sent, elsewhere=True)
        return result

    def _fit(self, infos: dict[int, Any], values: Sequence[Value], elsewhere: bool = False) -> None:
        """Give each microbatch buffers of its own size in the arena; torch has made all alike, in other memory.

        What passes through this stage unchanged, as skip connections do, is then sent on without a copy. elsewhere:
        whether the buffers are torch's.
        """
        for number, some in infos.items():
            for info, value in zip(some, values, strict=False):
                shape = value.sent_shape(self._sizes[number])
                if info.buffer is not None and (elsewhere or info.buffer.shape != shape):
                    info.buffer = empty(shape, dtype=value.torch_dtype)

    def get_fwd_send_ops(self, fwd_chunk_id: int) -> list[dist.P2POp]:
        """The activations to send."""
        return _encoded(super().get_fwd_send_ops(fwd_chunk_id), self._behind)

    def get_bwd_send_ops(self, bwd_chunk_id: int) -> list[dist.P2POp]:
        """The gradients to send."""
        return _encoded(super().get_bwd_send_ops(bwd_chunk_id), self._before)

    def get_fwd_recv_ops(self, fwd_chunk_id: int) -> list[dist.P2POp]:
        """The activations to receive."""
        return self._receive(super().get_fwd_recv_ops(fwd_chunk_id), self._before, f"forward {fwd_chunk_id}")

    def get_bwd_recv_ops(self, bwd_chunk_id: int) -> list[dist.P2POp]:
        """The gradients to receive."""
        return self._receive(super().get_bwd_recv_ops(bwd_chunk_id), self._behind, f"backward {bwd_chunk_id}")

    def _retrieve_recv_activations(self, fwd_chunk_id: int) -> Any:
        self._decode(f"forward {fwd_chunk_id}")
        return super()._retrieve_recv_activations(fwd_chunk_id)

    def _retrieve_recv_grads(self, bwd_chunk_id: int) -> Any:
        self._decode(f"backward {bwd_chunk_id}")
        return super()._retrieve_recv_grads(bwd_chunk_id)

    def _receive(self, ops: list[dist.P2POp], encoding: CutEncoding | None, what: str) -> list[dist.P2POp]:
        if encoding is not None:
            for op in ops:
                if encoding.takes(op.tensor):
                    received = encoding.room(op.tensor)
                    self._encoded.setdefault(what, []).append((encoding, received, op.tensor))
                    op.tensor = received
        return ops

    def _decode(self, what: str) -> None:
        for encoding, received, tensor in self._encoded.pop(what, ()):
            encoding.decode(received, tensor)

    def backward_one_chunk(
        self, bwd_chunk_id: int, loss: Tensor | None = None, full_backward: bool = True, last_backward: bool = False
    ) -> None:
        """Do a backward, during which gradients are sent to the replicas if it is the last."""
        whole = full_backward or not self._module.splits
        if last_backward:
            self.gradients.begin_last()
        with _WITHOUT_AUTOCAST:
            super().backward_one_chunk(bwd_chunk_id, loss, whole, last_backward)
        self._make_sendable(bwd_chunk_id)
        if last_backward:
            self.gradients.end_last()

    def _make_sendable(self, number: int) -> None:
        """Let the gradients of a microbatch have their own elements, and of values that were not used zeros.

        Torch would send zeros in the size of the first microbatch of the example.
        """
        made = self.bwd_cache.get(number)
        if made:
            pairs = zip(made, self._module.received, strict=True)
            self.bwd_cache[number] = tuple(_gradient(one, value, self._sizes[number]) for one, value in pairs)

    def backward_weight_one_chunk(self, bwd_chunk_id: int, last_backward: bool = False) -> None:
        """Make the weights' gradients of a microbatch, which were put off."""
        if self._module.splits:
            with _WITHOUT_AUTOCAST:
                super().backward_weight_one_chunk(bwd_chunk_id, last_backward)
        if last_backward:
            self.gradients.begin_last()
            self.gradients.end_last()


def _encoded(ops: list[dist.P2POp], encoding: CutEncoding | None) -> list[dist.P2POp]:
    if encoding is not None:
        for op in ops:
            if encoding.takes(op.tensor):
                op.tensor = encoding.encoded(op.tensor)
    return ops


def _gradient(made: Tensor | None, value: Value, samples: int) -> Tensor | None:
    if made is not None:
        return made.resolve_conj().resolve_neg()
    return torch.zeros(value.sent_shape(samples), dtype=value.torch_dtype) if value.differentiable else None


def _examples(values: Sequence[Value], samples: int) -> tuple[Tensor, ...]:
    empty = (torch.empty(value.sent_shape(samples), dtype=value.torch_dtype, device="meta") for value in values)
    return tuple(one.requires_grad_(value.differentiable) for one, value in zip(empty, values, strict=True))
