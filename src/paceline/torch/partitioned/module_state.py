"""The side effects of running modules on buffers, attributes and random numbers; and undoing them."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

STRUCTURE = frozenset(vars(nn.Module()))
"""Attributes that every module has: its parameters, children, hooks and mode, which are no state of its forward."""


class ModuleState:
    """The buffers and plain attributes of some modules as they are now, with the elements of tensors and containers."""

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        self._holders: list[tuple[nn.Module, dict[str, Any]]] = [
            (module, holder) for module in modules for holder in (vars(module), module._buffers)
        ]
        self._kept = [
            {name: (value, _copied(value)) for name, value in holder.items() if name not in STRUCTURE}
            for _, holder in self._holders
        ]

    def restore(self) -> None:
        """Make them so again. Autograd, which may have saved a buffer elsewhere, does not see it."""
        for (_, holder), kept in zip(self._holders, self._kept, strict=True):
            for name in [name for name in holder if name not in STRUCTURE and name not in kept]:
                del holder[name]
            for name, (value, elements) in kept.items():
                holder[name] = value
                _refill(value, elements)

    def changed(self) -> list[nn.Module]:
        """The modules that are otherwise now. A tensor or container counts by its elements."""
        found: dict[nn.Module, None] = {}
        for (module, holder), kept in zip(self._holders, self._kept, strict=True):
            names = holder.keys() - STRUCTURE
            if names != kept.keys() or any(_differ(holder[name], *kept[name]) for name in names):
                found[module] = None
        return list(found)

    def forget_unchanged(self) -> None:
        """Free what is kept of modules that are as they were: `restore` then leaves them as they are."""
        changed = set(self.changed())
        pairs = zip(self._holders, self._kept, strict=True)
        left = [(place, kept) for place, kept in pairs if place[0] in changed]
        self._holders, self._kept = [place for place, _ in left], [kept for _, kept in left]


class RandomStates:
    """The states of the generators of torch (on the CPU), Python and NumPy as they are now."""

    def __init__(self) -> None:
        self._torch = torch.get_rng_state()
        self._python = random.getstate()
        self._numpy = np.random.get_state(legacy=True)

    @property
    def torch_changed(self) -> bool:
        """True if torch's generator has changed since."""
        return not torch.equal(self._torch, torch.get_rng_state())

    def torch_differs(self, other: RandomStates) -> bool:
        """Return whether torch's generator had another state at that time."""
        return not torch.equal(self._torch, other._torch)

    @property
    def others_changed(self) -> bool:
        """True if Python's generator has changed since, or NumPy's."""
        now: Any = np.random.get_state(legacy=True)
        before: Any = self._numpy
        same = before[0] == now[0] and before[2:] == now[2:] and np.array_equal(before[1], now[1])
        return not same or self._python != random.getstate()

    def restore(self) -> None:
        """Make them so again."""
        torch.set_rng_state(self._torch)
        random.setstate(self._python)
        np.random.set_state(self._numpy)


def seed(number: int) -> None:
    """Seed torch's generator, Python's and NumPy's."""
    torch.manual_seed(number)
    random.seed(number)
    np.random.seed(number)


@contextmanager
def preserved(model: nn.Module) -> Iterator[None]:
    """After this context the model's buffers, attributes and mode, and random numbers, are what they were before."""
    modes = [(module, module.training) for module in model.modules()]
    state, numbers = ModuleState(model.modules()), RandomStates()
    try:
        yield
    finally:
        state.restore()
        numbers.restore()
        for module, mode in modes:
            module.training = mode


def _copied(value: object) -> Any:
    if isinstance(value, Tensor):
        return None if value.is_meta else value.detach().clone()
    return value.copy() if isinstance(value, (list, dict, set, deque)) else None


def _refill(value: Any, elements: Any) -> None:
    if elements is None:
        return
    if isinstance(value, Tensor):
        if not _equal(value, elements):
            value.data.copy_(elements)
        return
    value.clear()
    if isinstance(value, (list, deque)):
        value.extend(elements)
    else:
        value.update(elements)


def _differ(now: Any, before: Any, elements: Any) -> bool:
    if elements is None:
        return now is not before
    if type(now) is not type(elements) and not isinstance(elements, Tensor):
        return True
    if isinstance(elements, Tensor):
        return not isinstance(now, Tensor) or now.is_meta or not _equal(now, elements)
    if isinstance(elements, dict):
        return list(now) != list(elements) or any(now[key] is not value for key, value in elements.items())
    if isinstance(elements, set):
        return bool(now != elements)
    return len(now) != len(elements) or any(one is not other for one, other in zip(now, elements, strict=True))


def _equal(one: Tensor, other: Tensor) -> bool:
    """Return whether both have the same elements, NaN being the same as NaN."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    one = one.detach()
    return torch.equal(one, other) or bool(((one == other) | ((one != one) & (other != other))).all())
