"""Random numbers that are those of the whole model: a microbatch takes the generator's state from stage to stage.

Each microbatch begins with a seed of its own, so that no microbatch waits for the one before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

BYTES = torch.get_rng_state().numel()
"""The size of a state of torch's generator for the CPU."""


def seeds(microbatches: int) -> Tensor:
    """A seed for each microbatch, (microbatches,) of int64, drawn from torch's generator."""
    return torch.randint(1 << 62, (microbatches,))


class Draw:
    """The state of the generator in a stage. after: its state at the end, uint8, which the next stage begins with."""

    after: Tensor


@contextmanager
def continued(state: Tensor) -> Iterator[Draw]:
    """Draw from torch's generator in this context as if it had this state, or seed if it is of one element."""
    draw = Draw()
    with torch.random.fork_rng(devices=[]):
        if state.numel() == 1:
            torch.manual_seed(int(state))
        else:
            torch.set_rng_state(state)
        yield draw
        draw.after = torch.get_rng_state()
