"""Notices parameters of a module that train, but whose gradients nobody exchanges."""

from __future__ import annotations

import weakref

import torch
from torch import Tensor, nn


class Trained:
    """The parameters of `module` that trained when this was made, and a look at whether there are others now.

    It looks before each forward pass of the module, and whenever `check` is called. owner: for errors.
    """

    def __init__(self, module: nn.Module, owner: str) -> None:
        self._module = weakref.ref(module)
        self._owner = owner
        self._known = {id(one): weakref.ref(one) for one in module.parameters() if one.requires_grad}
        self._hook = module.register_forward_pre_hook(_Look(self))

    def check(self) -> None:
        """Raise RuntimeError if a parameter trains that did not when this was made."""
        module = self._module()
        if module is None or all(map(self._is_known, module.parameters())):
            return
        name = next(name for name, one in module.named_parameters() if not self._is_known(one))
        raise RuntimeError(
            f'the parameter "{name}" trains, but its gradient is not exchanged: it was added, replaced or unfrozen '
            f"after {self._owner} was made; close() that and make a new one on every rank"
        )

    def close(self) -> None:
        """Look no more."""
        self._hook.remove()

    def _is_known(self, parameter: Tensor) -> bool:
        if not parameter.requires_grad:
            return True
        known = self._known.get(id(parameter))
        return known is not None and known() is parameter


class _Look:
    """A hook of a module. A copy of the module, as of averaged weights, is trained by nobody: its hook does nothing."""

    def __init__(self, trained: Trained | None = None) -> None:
        self._trained = trained

    def __call__(self, module: nn.Module, _: object) -> None:
        if torch.compiler.is_compiling():
            return  # it has no place in a graph
        if self._trained is not None and module.training:
            self._trained.check()

    def __reduce__(self) -> tuple[type[_Look], tuple[()]]:
        return _Look, ()
