"""Gradients that are encoded between machines: `compress`, and what is behind it for DistributedDataParallel."""

# No `from __future__ import annotations`: torch compares the hook's annotations with the types themselves.
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, overload

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.fsdp import FSDPModule
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from paceline.group.arguments import encoding
from paceline.settings.names import NONE
from paceline.torch import sparse
from paceline.torch.backend import paceline_group
from paceline.torch.checks import encodable
from paceline.torch.fully_sharded import FullyShardedCompression
from paceline.torch.residuals import Residuals


class Compression:
    """The encoding of gradients between machines, and its residuals on this rank; see `compress`.

    parameters: those with gradients, by name, for error feedback; None: without.
    Raises TypeError if `group` is not Paceline's, ValueError if no codec is called so.
    """

    def __init__(self, group: dist.ProcessGroup | None, codec: str, parameters: Mapping[str, Tensor] | None) -> None:
        self._codec = encoding(codec)
        self._reductions = paceline_group(group) if self._codec else None
        self._residuals = Residuals(parameters) if parameters is not None and self._codec else None

    def check(self, parameters: Iterable[Tensor]) -> None:
        """Raise ValueError if a parameter, and so its gradient, is where the engine does not encode."""
        if self._reductions is not None:
            encodable(parameters, self._reductions.encodes_on)

    def encodes(self, dtype: torch.dtype) -> bool:
        """Return whether gradients of this dtype are encoded."""
        return bool(self._codec) and dtype == torch.float32

    def feeds_back(self, dtype: torch.dtype) -> bool:
        """Return whether the residuals of gradients of this dtype are added the next time."""
        return self._residuals is not None and self.encodes(dtype)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the encoding residuals on this rank, flat, by the parameter's name; empty without error feedback."""
        return self._residuals.state_dict() if self._residuals is not None else {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on with what `state_dict` returned on this rank, and nothing else.

        Raises ValueError if it is of another model.
        """
        if self._residuals is not None:
            self._residuals.load_state_dict(state)
        elif state:
            raise ValueError("the state is one of error feedback, which this compression does without")

    def reset_residuals(self) -> None:
        """Forget what encoding has lost on this rank, as after steps that were skipped or undone."""
        if self._residuals is not None:
            self._residuals.reset()

    def forget(self, parameters: Iterable[Tensor]) -> None:
        """Forget what the last exchange of these has lost, which did not count."""
        if self._residuals is not None:
            self._residuals.forget(parameters)

    def mean(
        self,
        bucket: int,
        flat: Tensor,
        parameters: Sequence[Tensor],
        begins: Sequence[int],
        absent: Collection[int] = (),
    ) -> dist.Work:
        """Start to make gradients, which `encodes` takes, their mean over the ranks.

        flat: the contiguous gradients of the bucket with this number. begins: the element at which that of each of
        `parameters` begins. absent: the places among them of those without a gradient on this rank.
        """
        assert self._reductions is not None
        residual = None
        if self._residuals is not None:
            residual = self._residuals.of(bucket, flat.numel(), parameters, begins, absent, flat)
        return self._reductions.allreduce_encoded(flat, dist.ReduceOp.AVG, self._codec, residual)


@overload
def compress(model: DistributedDataParallel, codec: str, *, error_feedback: bool = True) -> Compression: ...
@overload
def compress(
    model: FSDPModule, codec: str, *, parameters: str = NONE, error_feedback: bool = True
) -> FullyShardedCompression: ...
def compress(
    model: DistributedDataParallel | FSDPModule, codec: str, *, parameters: str = NONE, error_feedback: bool = True
) -> Compression | FullyShardedCompression:
    """Encode the gradients of `model` where they cross from one machine to another.

        model = DistributedDataParallel(module)
        compression = paceline.torch.compress(model, "int8")

        fully_shard(module)
        compression = paceline.torch.compress(module, "int8", parameters="bf16")

    codec: a name as in `paceline.Group.all_reduce`. Gradients of other dtypes than float32, sparse ones, and buckets of
    less than 64 KiB, go as they are; `lossless` takes bfloat16, too. parameters: the codec of FSDP2's parameters on
    their way to the ranks that compute with them; those that own them keep them exact. error_feedback: each rank keeps
    what encoding has lost and adds it in the next step, for which it needs as much memory as the gradients. Where some
    parameters of a module that FSDP2 shards get no gradient in a step, it does without. Save `state_dict()` of the
    result on every rank with the model.

    Raises TypeError if the model's process group is not Paceline's or the model is of neither kind, ValueError if no
    codec is called so, if a parameter is on a device that Paceline does not serve itself (PACELINE_CUDA), or if
    `parameters` is given for DistributedDataParallel, which sends none, and RuntimeError, as torch does, if the model
    has a communication hook already.
    """
    if isinstance(model, FSDPModule):
        return FullyShardedCompression(model, codec, parameters, error_feedback)
    if not isinstance(model, DistributedDataParallel):
        raise TypeError(
            f"compress takes a DistributedDataParallel or what fully_shard has sharded, not a {type(model).__name__}"
        )
    if parameters != NONE:
        raise ValueError("DistributedDataParallel sends no parameters that could be encoded; leave out `parameters`")
    trained = _trained(model)
    compression = Compression(model.process_group, codec, trained if error_feedback else None)
    compression.check(trained.values())
    state = _State(model.process_group, compression, model.find_unused_parameters and error_feedback)
    model.register_comm_hook(state, _hook)
    return state.compression


def _trained(model: DistributedDataParallel) -> dict[str, Tensor]:
    return {name: value for name, value in model.module.named_parameters() if value.requires_grad}


class _State(NamedTuple):
    """misses: whether gradients may be missing, for which DDP then submits zeros."""

    group: dist.ProcessGroup
    compression: Compression
    misses: bool


def _hook(state: _State, bucket: dist.GradBucket) -> Future[Tensor]:
    buffer = bucket.buffer()
    if buffer.is_sparse:
        work = sparse.mean(state.group, buffer)
    elif state.compression.encodes(buffer.dtype):
        begin, width = buffer.data_ptr(), buffer.element_size()
        gradients = bucket.gradients()
        begins = [(gradient.data_ptr() - begin) // width for gradient in gradients]
        absent = {slot for slot, gradient in enumerate(gradients) if not gradient.any()} if state.misses else ()
        work = state.compression.mean(bucket.index(), buffer, bucket.parameters(), begins, absent)
    else:
        work = dist.all_reduce(buffer, dist.ReduceOp.AVG, state.group, async_op=True)
    result: Future[Tensor] = work.get_future().then(lambda done: done.value()[0])
    return result
