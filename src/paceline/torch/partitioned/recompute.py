"""Computing again in the backward what was not kept of the forward, so that it is the same once more."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

from paceline.torch.partitioned.module_state import ModuleState


def recomputed(part: nn.Module, taken: Sequence[Any], random: bool) -> tuple[Any, ...]:
    """`part(*taken)`, of which autograd keeps only what is taken.

    The second time, random numbers, buffers and attributes are those of the first, and those that it changes, such as
    the statistics of BatchNorm, are changed once only. random: whether the part may draw random numbers.
    """
    modules = list(part.modules())
    before = ModuleState(modules)
    again = _Again(modules, before)

    def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return nullcontext(), again

    # Torch stops when the last tensor is saved again, which a call that draws random numbers fills only after that.
    with set_checkpoint_early_stop(not random):
        found: tuple[Any, ...] = checkpoint(
            part, *taken, use_reentrant=False, preserve_rng_state=random, context_fn=contexts
        )
    before.forget_unchanged()
    return found


class _Again(AbstractContextManager[None]):
    """In this context, which may be entered several times, buffers and attributes are what they were the first time.

    first: what it was, of all or of what the first time has changed.
    """

    def __init__(self, modules: Sequence[nn.Module], first: ModuleState) -> None:
        self._modules, self._first = modules, first
        self._now: ModuleState | None = None

    def __enter__(self) -> None:
        self._now = ModuleState(self._modules)
        self._first.restore()

    def __exit__(self, *_: object) -> None:
        assert self._now is not None
        self._now.restore()
        self._now = None
