"""Computing again in the backward what was not kept of the forward, so that it is the same once more."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


def recomputed(part: nn.Module, taken: Sequence[Any], random: bool) -> tuple[Any, ...]:
    """`part(*taken)`, of which autograd keeps only what is taken.

    The second time, random numbers and buffers are those of the first, and buffers such as the statistics of BatchNorm
    are changed once only. random: whether the part may draw random numbers.
    """
    buffers = list(part.buffers())
    before = [buffer.clone() for buffer in buffers]
    again = _Again(buffers)

    def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return nullcontext(), again

    found: tuple[Any, ...] = checkpoint(
        part, *taken, use_reentrant=False, preserve_rng_state=random, context_fn=contexts
    )
    again.first = {
        index: value
        for index, (buffer, value) in enumerate(zip(buffers, before, strict=True))
        if not torch.equal(buffer, value)
    }
    return found


class _Again(AbstractContextManager[None]):
    """In this context, which may be entered several times, buffers are what they were the first time.

    first: the values of those that the first time has changed, by their place in `buffers`.
    """

    def __init__(self, buffers: Sequence[Tensor]) -> None:
        self._buffers = buffers
        self._now: list[Tensor] = []
        self.first: dict[int, Tensor] = {}

    def __enter__(self) -> None:
        self._now = [buffer.clone() for buffer in self._buffers]
        self._set(self.first)

    def __exit__(self, *_: object) -> None:
        self._set(dict(enumerate(self._now)))
        self._now = []

    def _set(self, values: dict[int, Tensor]) -> None:
        for index, value in values.items():
            self._buffers[index].data.copy_(value)  # unseen by autograd, which may have saved the buffer elsewhere
