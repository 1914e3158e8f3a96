"""A forward after which nobody does a backward: what autograd would keep for it is not kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

Found = TypeVar("Found")


def unsaved(forward: Callable[[], Found], undo: Callable[[], object]) -> Found:
    """Return what the forward returns, of which autograd has recorded the functions but not kept the tensors.

    If the forward itself does a backward, it is done again with all that is kept, after `undo`.
    """
    try:
        with saved_tensors_hooks(_dropped, _needed):
            return forward()
    except _Needed:
        undo()
        return forward()


class _Needed(Exception):
    """A tensor is needed for a backward."""


def _dropped(_: Tensor) -> Any:
    return None


def _needed(_: object) -> Tensor:
    raise _Needed
