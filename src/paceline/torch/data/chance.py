"""Random numbers of the thread that reads, drawn apart from those of the thread that trains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

_DRAWN = {
    *(torch.rand, torch.randn, torch.randint, torch.randperm, torch.normal),
    *(torch.bernoulli, torch.multinomial, torch.poisson, Tensor.bernoulli, Tensor.multinomial),
    *(Tensor.random_, Tensor.uniform_, Tensor.normal_, Tensor.bernoulli_, Tensor.exponential_),
    *(Tensor.geometric_, Tensor.log_normal_, Tensor.cauchy_),
}
_LIKE = {torch.rand_like: Tensor.uniform_, torch.randn_like: Tensor.normal_}


class Chance(TorchFunctionMode):
    """A context in which torch, in one thread, draws from a generator of its own, unless it is told another one.

    Both threads would draw from the one default generator otherwise, in an order that no seed decides.
    """

    def __init__(self) -> None:
        super().__init__()
        self._generator = torch.Generator()
        self._begun = torch.empty(0, dtype=torch.uint8)

    def begin(self, state: Tensor) -> None:
        """Draw what the default generator would draw from this state on."""
        self._begun = state
        self._generator.set_state(state)

    def end(self) -> None:
        """Let the default generator go on behind what was drawn here, as DataLoader does, if it has drawn nothing."""
        if torch.equal(torch.get_rng_state(), self._begun):
            torch.set_rng_state(self._generator.get_state())

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        given = kwargs or {}
        if given.get("generator") is None:
            if func in _LIKE:
                return _LIKE[func](torch.empty_like(*args, **given), generator=self._generator)
            if func in _DRAWN:
                given = {**given, "generator": self._generator}
        return func(*args, **given)
